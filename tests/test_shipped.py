"""What comes along: it is there, small, described, and makes music."""

from __future__ import annotations

import re

import numpy as np
import pytest

from musictx import bundle, midi, shipped
from musictx.apps.generate import read_music
from musictx.apps.harmonise import harmonisations
from musictx.config import GenerateConfig
from musictx.errors import UserError
from musictx.tokens import grid as four

MODELS = sorted(shipped.models())


def test_there_is_a_default():
    assert shipped.DEFAULT in MODELS


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_small_described_and_names_no_private_place(name):
    folder = shipped.models()[name]
    assert (folder / "model.safetensors").stat().st_size < 16e6
    loaded = bundle.load(name)  # by its name
    assert loaded.folder == folder
    assert loaded.model.config["attention"] == "auto"  # no compiler, no GPU needed
    for key in ("title", "summary", "corpus", "training", "numbers", "licence", "command"):
        assert loaded.card.get(key), key
    for file in ("CARD.md", "config.yaml"):
        text = (folder / file).read_text()
        assert not re.search(r"(?<![\w.])/(?!min\b)\w+/\w+", text), "an absolute path"


def test_without_a_trained_model_the_one_that_comes_along_is_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bundle.find_latest() == shipped.models()[shipped.DEFAULT]
    with pytest.raises(UserError, match="nor a model that comes with musictx"):
        bundle.locate("nothing-of-the-kind")


def test_a_folder_of_ones_own_goes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chorale").mkdir()
    with pytest.raises(UserError, match="missing"):
        bundle.locate("chorale")


@pytest.mark.parametrize("name", sorted(shipped.examples()))
def test_an_example_is_a_melody_in_whole_sixteenths(name):
    score = read_music(name, "melody", "")
    assert score == midi.read(shipped.examples()[name])
    grid, lost = four.read(score)
    assert not lost
    assert (grid.pitches[:, 1:] == four.SILENCE).all() or (grid.pitches >= 0).sum(1).max() == 1
    assert len(grid) % 16 == 0  # whole bars


def test_the_model_of_chorales_harmonises_a_melody_better_than_chance():
    """Far more likely under itself than the same melody with the other voices shuffled in time."""
    loaded = bundle.load("chorale")
    melody = read_music("ode_to_joy", "melody", "")
    notes = melody.notes[melody.notes["end"] <= 4.8]
    ((harmony, sample),) = harmonisations(loaded, melody.with_notes(notes), particles=4)
    assert harmony.grid.pitches.shape == (32, 4)
    assert (harmony.grid.pitches >= 0).mean() > 0.9  # four voices sing
    assert harmony.nats_per_note < 0.8
    assert sample.notes == int((sample.score.notes["track"] > 0).sum())
    assert np.all(harmony.grid.pitches[:, 0] >= 60)


def test_a_melody_and_a_primer_are_not_given_together():
    with pytest.raises(UserError, match="nothing beside primer"):
        GenerateConfig(melody="a.mid", primer="b.mid")
