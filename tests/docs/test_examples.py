"""The notebooks of docs/ run from top to bottom, shortened, and docs/examples/export.py makes music
outside of PyTorch's eager mode."""

import json
import warnings
from pathlib import Path

import matplotlib  # music21 of the extra bach brings it
import pytest

import musictx
from tests import untrained

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
#: What is run instead: Jupyter brings IPython; a few steps and a second of music show the same.
INSTEAD = {
    "from IPython.display import Audio": "Audio = Path.read_bytes",
    'Audio("piano.wav")': 'Audio(Path("piano.wav"))',
    "STEPS = 60": "STEPS = 4",
    "seconds=8": "seconds=1",
}


@pytest.mark.slow
@pytest.mark.usefixtures("short_examples")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_run(notebook, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            for line, other in INSTEAD.items():
                source = source.replace(line, other)
            exec(compile(source, f"{notebook.name} {cell['id']}", "exec"), names)
    names["plt"].close("all")


@pytest.mark.slow
def test_the_exported_network_makes_music(tmp_path, monkeypatch):
    """Of a small model: what is exported of a large one differs in its numbers alone."""
    small = musictx.load(untrained.saved(tmp_path / "small", layers=2, context=96))
    monkeypatch.setattr(musictx, "load", lambda name: small, raising=False)
    monkeypatch.chdir(tmp_path)
    example = DOCS / "examples" / "export.py"
    with warnings.catch_warnings(action="ignore"):
        exec(compile(example.read_text("utf-8"), str(example), "exec"), {})
    assert (tmp_path / "piano.pt2").is_file()
    assert len(musictx.read(tmp_path / "exported.mid")) > 5
