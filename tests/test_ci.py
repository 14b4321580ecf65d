"""Accepted skips (.ci/skips.txt): a test that is skipped for another reason fails CI by name."""

import pytest

from tests import programs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accepted", "workers", "status"), [("no sea here\n", 0, 0), ("# no sea here\nno air\n", 1, 6)]
)
def test_a_skip_without_an_accepted_reason_fails(accepted, workers, status, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    skips = "def test_NAME():\n    pytest.skip('no sea here')\n"
    tests = ["import pytest\n", *(skips.replace("NAME", name) for name in ("one", "two"))]
    (tmp_path / "test_sea.py").write_text("\n".join(tests))
    (tmp_path / "accepted").write_text(accepted)
    words = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-n", str(workers), "test_sea.py"]
    options = {"folder": tmp_path, "MUSICTX_SKIPS": "accepted"}
    done = programs.run_python("-m", "pytest", *words, **options)
    assert done.returncode == status, done.stdout + done.stderr
    assert "\nskipped: 2 (2 no sea here)\n" in done.stdout
    assert ("\nnot to be skipped here: no sea here\n" in done.stdout) == (status == 6)
