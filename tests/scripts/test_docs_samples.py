"""The README's music: MIDI and pictures where the README looks for them."""

import pytest
from PIL import Image

import musictx
from musictx.errors import UserError


@pytest.fixture
def samples(script, model, tmp_path, monkeypatch):
    """Run the script with a model that was never trained, a second a piece."""
    module = script("docs/samples.py")
    short = [asked | {"seconds": 1.0} for asked in module.PIECES["piano"]]
    monkeypatch.setattr(module, "PIECES", {"piano": short})
    return lambda *words: module.main([f"piano={model}", f"out={tmp_path}", *words])


def test_each_piece_is_there_as_midi_and_as_a_picture(samples, tmp_path):
    samples()
    names = {"piano-1", "piano-2", "piano-continued"}
    assert {path.stem for path in (tmp_path / "samples").glob("*.mid")} == names
    assert {path.stem for path in (tmp_path / "images").glob("*.png")} == names
    assert 7 < musictx.read(tmp_path / "samples" / "piano-continued.mid").duration < 9
    with Image.open(tmp_path / "images" / "piano-continued.png") as picture:
        assert picture.size[0] > 600


def test_an_unknown_option_is_told(samples):
    with pytest.raises(UserError, match="organ=x: expected name=value with out, piano"):
        samples("organ=x")
