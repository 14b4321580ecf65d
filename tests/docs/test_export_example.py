"""The example of docs/python.md that makes music outside of PyTorch's eager mode."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import musictx

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


@pytest.mark.slow
def test_the_exported_network_makes_music(tmp_path):
    (code,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, check=True)
    assert (tmp_path / "piano.pt2").stat().st_size > 1e6
    assert len(musictx.read(tmp_path / "exported.mid")) > 5
