"""The notebooks of docs/ run from top to bottom."""

import json
from pathlib import Path

import matplotlib  # music21 of the extra bach brings it
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "docs" / "notebooks").glob("*.ipynb"))
#: Jupyter brings IPython.
PLAYER = ("from IPython.display import Audio", "Audio = Path.read_bytes")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_cells_run(notebook, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"]).replace(*PLAYER)
            source = source.replace('Audio("piano.wav")', 'Audio(Path("piano.wav"))')
            exec(compile(source, f"{notebook.name} {cell['id']}", "exec"), names)
    names["plt"].close("all")
