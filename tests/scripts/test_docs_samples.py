"""The README's music: MIDI and pictures where the README looks for them."""

from pathlib import Path

import pytest
from PIL import Image

from musictx import midi
from musictx.errors import UserError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def samples(script, models, tmp_path, monkeypatch):
    """Run the script with a model that was never trained, a second a piece."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "docs"))
    module = script("samples")
    short = [asked | {"seconds": 1.0} for asked in module.PIECES["piano"]]
    monkeypatch.setitem(module.PIECES, "piano", short)
    return lambda *words: module.main([f"piano={models / 'huang'}", f"out={tmp_path}", *words])


def test_each_piece_is_there_as_midi_and_as_a_picture(samples, tmp_path):
    samples("only=piano")
    names = {"piano-1", "piano-2", "piano-continued"}
    assert {path.stem for path in (tmp_path / "samples").glob("*.mid")} == names
    assert {path.stem for path in (tmp_path / "images").glob("*.png")} == names
    assert 7 < midi.read(tmp_path / "samples" / "piano-continued.mid").duration < 9
    with Image.open(tmp_path / "images" / "piano-continued.png") as picture:
        assert picture.size[0] > 600


def test_an_unknown_model_is_told(samples):
    with pytest.raises(UserError, match="only=organ: expected one of piano, chorale"):
        samples("only=organ")
