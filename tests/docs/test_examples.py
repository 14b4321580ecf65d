"""The notebooks of docs/ run from top to bottom, and docs/examples/export.py makes music outside of
PyTorch's eager mode."""

import json
import subprocess
import sys
from pathlib import Path

import matplotlib  # music21 of the extra bach brings it
import pytest

import musictx

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
#: Jupyter brings IPython.
PLAYER = ("from IPython.display import Audio", "Audio = Path.read_bytes")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_run(notebook, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"]).replace(*PLAYER)
            source = source.replace('Audio("piano.wav")', 'Audio(Path("piano.wav"))')
            exec(compile(source, f"{notebook.name} {cell['id']}", "exec"), names)
    names["plt"].close("all")


@pytest.mark.slow
def test_the_exported_network_makes_music(tmp_path):
    example = DOCS / "examples" / "export.py"
    subprocess.run([sys.executable, "-W", "ignore", str(example)], cwd=tmp_path, check=True)
    assert (tmp_path / "piano.pt2").stat().st_size > 1e6
    assert len(musictx.read(tmp_path / "exported.mid")) > 5
