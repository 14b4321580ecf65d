"""docs/examples/export.py makes music outside of PyTorch's eager mode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import musictx

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "export.py"


@pytest.mark.slow
def test_the_exported_network_makes_music(tmp_path):
    subprocess.run([sys.executable, "-W", "ignore", str(EXAMPLE)], cwd=tmp_path, check=True)
    assert (tmp_path / "piano.pt2").stat().st_size > 1e6
    assert len(musictx.read(tmp_path / "exported.mid")) > 5
