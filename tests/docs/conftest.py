"""A folder with the files that the pages name."""

import functools
import re
from pathlib import Path

import pytest

import musictx
from musictx import bundle, shipped
from musictx.apps import results
from musictx.notes import Score
from tests.pieces import waltz

#: Each model is read from its folder once.
LOAD = functools.cache(bundle.load)
TRAINING = Path(__file__).resolve().parents[2] / "docs" / "training.md"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """Change to a folder with the files that the pages name, which is the user's home, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    musictx.write(waltz(), tmp_path / "song.mid")
    voices = enumerate((72, 67, 64, 48))
    beats = [0.6 * n for n in range(16)]
    rows = [(a, a + 0.5, p, 80, 0, False, track) for track, p in voices for a in beats]
    musictx.write(Score(rows), tmp_path / "chorale.mid")
    for folder in ("Music", "runs/mine/model", "my_conf/experiment", "midi", "generated"):
        (tmp_path / folder).mkdir(parents=True)
    for number in range(3):
        musictx.write(waltz(), tmp_path / "midi" / f"{number}.mid")
        musictx.write(waltz(), tmp_path / "generated" / f"{number}.mid")
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
