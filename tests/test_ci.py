"""Accepted skips (.ci/skips.txt): a test that is skipped for another reason fails CI by name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("accepted", "workers", "status"),
    [("no sea here\n", 0, 0), ("# no sea here\nno air\n", 1, 6)],
)
def test_a_skip_for_another_reason_than_those_accepted_fails(accepted, workers, status, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_sea.py").write_text(
        "import pytest\n\n\ndef test_land():\n    pass\n\n\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_sea(n):\n    pytest.skip('no sea here')\n"
    )
    (tmp_path / "accepted").write_text(accepted)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment |= {"MUSICTX_SKIPS": str(tmp_path / "accepted")}
    words = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-n", str(workers), "test_sea.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    ends = done.stdout.splitlines()[-3 if status else -2 : -1]
    assert ends == ["skipped: 2 (2 no sea here)"] + (
        ["not to be skipped here: no sea here"] if status else []
    )
