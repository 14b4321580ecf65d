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
    skips = "def test_NAME():\n    pytest.skip('no sea here')\n"
    tests = ["import pytest\n", *(skips.replace("NAME", name) for name in ("one", "two"))]
    (tmp_path / "test_sea.py").write_text("\n".join(tests))
    (tmp_path / "accepted").write_text(accepted)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MUSICTX_SKIPS": "accepted"}
    words = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-n", str(workers), "test_sea.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    assert "\nskipped: 2 (2 no sea here)\n" in done.stdout
    assert ("\nnot to be skipped here: no sea here\n" in done.stdout) == (status == 6)
