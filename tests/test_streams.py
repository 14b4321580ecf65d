"""stdout and stderr that are full, closed or gone: the work is done, the status is right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from musictx import midi
from musictx.notes import Score

CHECKOUT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
COMMAND = f"{sys.executable} -m musictx render tune.mid out=x.png"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    midi.write(Score([(0.0, 1.0, 60, 80, 0, False, 0)]), tmp_path / "tune.mid")
    return tmp_path


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("streams", [">/dev/full", ">&- 2>&- <&-", "| true"])
def test_the_file_is_written_whatever_becomes_of_what_is_printed(folder, streams) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{COMMAND} {streams}; exit ${{PIPESTATUS[0]}}"],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert (folder / "x.png").stat().st_size > 100
    assert done.stderr == ""


def test_a_mistake_keeps_its_status_where_nobody_listens(folder) -> None:
    done = subprocess.run(["bash", "-c", f"{COMMAND} wrong=1 2>&-"], cwd=folder, env=ENVIRONMENT)
    assert done.returncode == 2
