"""A folder with the files that the pages speak of."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest

import musictx
from musictx import bundle, shipped
from musictx.apps import results
from musictx.notes import KEY, METER, NOTE, TEMPO, Score

#: Each model is read from its folder once.
LOAD = functools.cache(bundle.load)
TRAINING = Path(__file__).resolve().parents[2] / "docs" / "training.md"


def song() -> Score:
    """Twelve quarters in 96 bpm and 3/4, over a bass."""
    quarter = 60 / 96
    table = np.zeros(24, NOTE)
    table["start"] = np.repeat(np.arange(12) * quarter, 2)
    table["end"] = table["start"] + 0.9 * quarter
    table["pitch"] = np.ravel([(72 + step, 48 + step) for step in (0, 4, 7, 5, 4, 2) * 2])
    table["velocity"], table["track"] = 80, [0, 1] * 12
    marks = {"tempos": [(0.0, 96.0)], "meters": [(0.0, 3, 4)], "keys": [(0.0, 0, False)]}
    kinds = {"tempos": TEMPO, "meters": METER, "keys": KEY}
    arrays = {name: np.array(rows, kinds[name]) for name, rows in marks.items()}
    return Score(notes=table, names={0: "tune", 1: "bass"}, ticks_per_quarter=480, **arrays)


def chorale() -> Score:
    """Four bars in four tracks."""
    tracks = enumerate((72, 67, 64, 48))
    beats = [0.6 * n for n in range(16)]
    return Score().with_notes([(a, a + 0.5, p, 80, 0, False, t) for t, p in tracks for a in beats])


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current folder, and the home: the files that the pages name, and the reader's YAML."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    musictx.write(song(), tmp_path / "song.mid")
    musictx.write(chorale(), tmp_path / "chorale.mid")
    for folder in ("Music", "runs/mine/model", "my_conf/experiment", "midi", "generated"):
        (tmp_path / folder).mkdir(parents=True)
    for number in range(3):
        musictx.write(song(), tmp_path / "midi" / f"{number}.mid")
        musictx.write(song(), tmp_path / "generated" / f"{number}.mid")
    block = re.search(r"```yaml\n(.*?)```", TRAINING.read_text("utf-8"), re.DOTALL)
    assert block
    (tmp_path / "my_conf" / "experiment" / "mine.yaml").write_text(block[1])
    (tmp_path / "my_module.py").write_text(
        "import pytorch_lightning as pl\n\n\nclass MyCallback(pl.Callback):\n"
        "    def __init__(self, option=1):\n        self.option = option\n\n"
        "    def on_train_start(self, trainer, module):\n        print('option', self.option)\n"
    )
    return tmp_path


@pytest.fixture
def loaded_once(monkeypatch):
    """Commands that compose share the included models."""
    monkeypatch.setattr(results, "load", LOAD)


@pytest.fixture
def short_examples(tmp_path_factory, monkeypatch):
    """The first four bars of each example in its place."""
    folder, tunes = tmp_path_factory.mktemp("examples"), {}
    for name, path in shipped.examples().items():
        score = musictx.read(path)
        beginning = score.with_notes(score.notes[score.notes["start"] < 8.0])
        tunes[name] = musictx.write(beginning, folder / f"{name}.mid")
    monkeypatch.setattr(shipped, "examples", lambda: tunes)
