""".ci/run and its list of accepted skips: what should run and does not fails CI by name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Programs of every system that .ci/run calls.
USUAL = ("bash", "cat", "cp", "dirname", "env", "git", "mktemp", "rm", "sed", "tail", "xargs")


def stub(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!{shutil.which('bash')}\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="CI is a shell script")
@pytest.mark.parametrize("apt", ["exit 100", 'echo "$@" >>"$LOG"'])
def test_on_a_bare_machine_browsers_are_installed_or_ci_fails_by_name(apt, tmp_path):
    """A machine with no browser, played by stubs; `make` fails so that no more is run."""
    programs, log = tmp_path / "bin", tmp_path / "log"
    programs.mkdir()
    for name in USUAL:
        (programs / name).symlink_to(str(shutil.which(name)))
    stub(programs, "apt-get", apt)
    stub(programs, "id", "echo 0")
    stub(programs, "make", "exit 2")
    environment = {"PATH": str(programs), "HOME": str(tmp_path), "LOG": str(log)}
    done = subprocess.run(
        [shutil.which("bash"), str(ROOT / ".ci" / "run")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    wanted = "chromium firefox-esr webkit2gtk-driver xvfb pulseaudio npm lua5.4"
    assert done.returncode == 1
    if apt == "exit 100":
        assert f"CI fails: install {wanted}\n" in done.stdout
    else:
        assert "CI fails: make .venv/.ready\n" in done.stdout
        asked = log.read_text().splitlines()
        assert asked == ["update", f"install --yes --no-install-recommends {wanted}"]


@pytest.mark.parametrize(
    ("accepted", "workers", "status"),
    [(None, 2, 0), ("no sea here\n", 0, 0), ("# no sea here\nno air\n", 2, 6)],
)
def test_a_skip_for_another_reason_than_those_accepted_fails(accepted, workers, status, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_sea.py").write_text(
        "import pytest\n\n\ndef test_land():\n    pass\n\n\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_sea(n):\n    pytest.skip('no sea here')\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("MUSICTX_SKIPS", None)
    if accepted is not None:
        (tmp_path / "accepted").write_text(accepted)
        environment["MUSICTX_SKIPS"] = str(tmp_path / "accepted")
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
