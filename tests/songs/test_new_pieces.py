"""``generate tempo= meter= instruments=``: new pieces of model=song as they are asked for."""

import numpy as np
import pytest

import musictx
from musictx.errors import UserError
from musictx.notes import DRUMS
from musictx.shipped import examples

TUNE = musictx.read(examples()["frere_jacques"])


@pytest.fixture(scope="module")
def song():
    return musictx.load("song")


def made(song, tmp_path, **options):
    """The piece that comes back from its file."""
    (piece,) = musictx.generate(song, seed=1, **options)
    musictx.write(piece, tmp_path / "piece.mid")
    return musictx.read(tmp_path / "piece.mid")


def places(score):
    return (score.beats.quarters(score.notes["start"]) * 24).round(3).tolist()


def test_tempo_and_meter_are_those_of_the_file(song, tmp_path):
    score = made(song, tmp_path, bars=3, tempo=90, meter="3/4")
    assert score.tempos["bpm"].tolist() == pytest.approx([90], rel=1e-6)
    assert score.meters[["numerator", "denominator"]].tolist() == [(3, 4)]
    assert 4 < score.notes["start"].max() < 6  # three bars of 2 s
    assert score.duration <= 6 + 1e-3
    assert places(score) == [round(place) for place in places(score)]


def test_a_tempo_changes_nothing_but_the_tempo(song, tmp_path):
    usual, slow = (made(song, tmp_path, bars=2, **one) for one in ({}, {"tempo": 60}))
    assert places(usual) == places(slow)
    assert usual.notes["pitch"].tolist() == slow.notes["pitch"].tolist()
    assert slow.notes["start"] == pytest.approx(2 * usual.notes["start"], abs=2e-3)


@pytest.mark.parametrize(
    ("names", "programs"),
    [("bass", {33}), ("piano,bass,drums", {0, 33, DRUMS}), ("strings, piano", {48, 0})],
)
def test_these_instruments_play_and_no_others(song, tmp_path, names, programs):
    notes = made(song, tmp_path, bars=8, instruments=names).notes
    assert set(np.where(notes["drum"], DRUMS, notes["program"]).tolist()) == programs


@pytest.mark.parametrize(
    ("option", "value"), [("tempo", 90), ("meter", "3/4"), ("instruments", "bass")]
)
def test_they_are_of_new_pieces_in_bars(song, option, value):
    with pytest.raises(UserError, match=option):
        musictx.generate("piano", seconds=1, **{option: value})
    with pytest.raises(UserError, match=option):
        musictx.generate(song, primer=TUNE, bars=1, **{option: value})
    with pytest.raises(UserError, match=option):
        musictx.generate(song, form="AB", **{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("meter", meter) for meter in ("33/4", "9/4", "3/5", "waltz")),
        *(("instruments", "banjo"), ("instruments", "bass,bass"), ("tempo", 5)),
    ],
)
def test_what_cannot_be_names_the_option(song, option, value):
    with pytest.raises(UserError, match=option):
        musictx.generate(song, bars=1, **{option: value})


def test_bars_count_in_the_meter_that_the_model_chooses(song):
    """A model that writes 3/4 alone, with no meter asked for."""
    table = song.tokenizer.vocabulary
    other = np.zeros((1, song.tokenizer.size))
    other[0, slice(*table.range("numerator"))] = np.inf
    other[0, table.id("numerator", 3)] = 0.0
    events = []
    (piece,) = musictx.generate(
        song, bars=4, seed=2, constraints=[lambda states, past: other],
        on_event=lambda _, event: events.append(event),
    )  # fmt: skip
    quarters = 4 * 3 * 4 / 2 ** song.tokenizer.read(piece.ids).bars["exponent"][0]
    assert piece.seconds == pytest.approx(quarters / 2)  # at 120 quarter notes a minute
    notes = piece.score.notes
    assert piece.seconds - 1.5 < notes["start"].max() < notes["end"].max() <= piece.seconds + 1e-6
    assert events[-1].seconds == pytest.approx(notes["end"].max())
