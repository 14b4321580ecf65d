"""``loop=true``: the end leads to the beginning, and nothing new crosses it."""

import mido
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import musictx
from musictx.apps.tasks import gap
from musictx.config import InfillConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.songs.loops import LOOP_END, Loop

BAR = 2.0  # seconds, in 4/4 at 120


@pytest.fixture(scope="module")
def song():
    return musictx.load("song")


def loop_of(bars, seed=0):
    """Four notes in each bar on two tracks."""
    random = np.random.default_rng(seed)
    rows = [
        (BAR * bar + 0.5 * beat, BAR * bar + 0.5 * beat + 0.4, int(random.integers(48, 80)), 80, t)
        for bar in range(bars)
        for beat in range(4)
        for t in range(2)
    ]
    notes = [(start, end, pitch, velocity, 0, False, t) for start, end, pitch, velocity, t in rows]
    return Score(notes, tempos=[(0.0, 120.0)], meters=[(0.0, 4, 4)], ticks_per_quarter=480)


def rows(notes):
    columns = (notes[name].round(4).tolist() for name in ("start", "end", "pitch", "track"))
    return sorted(zip(*columns))


@given(st.integers(2, 5), st.data())
@settings(max_examples=20, deadline=None)
def test_what_is_laid_out_is_the_loop_turned(song, bars, data):
    """All that is given once before the gap and once after it, in the order of the loop."""
    first = data.draw(st.integers(1, bars - 1))
    last = data.draw(st.integers(first, bars - 1))
    score = loop_of(bars)
    task = gap(score, InfillConfig(begin=str(first), end=str(last)))
    loop = Loop.of(task)
    assert loop.seconds == pytest.approx(BAR * bars)
    laid, missing = loop.laid_out(), BAR * (last - first + 1)
    assert (laid.begin, laid.end) == pytest.approx((loop.seconds - missing, loop.seconds))
    notes = laid.given.notes
    assert not ((notes["start"] > laid.begin - 1e-3) & (notes["start"] < laid.end - 1e-3)).any()
    before, after = notes[notes["start"] < laid.begin - 1e-3], notes[notes["start"] > laid.begin]
    assert rows(loop.taken(before)) == rows(task.given.notes)
    after = after.copy()
    for name in ("start", "end"):
        after[name] -= loop.seconds
    assert rows(after) == rows(before)


@pytest.mark.parametrize(("bars", "meter"), [(2, "4/4"), (3, "3/4")])
def test_a_new_loop_has_its_exact_length(song, bars, meter, tmp_path):
    (piece,) = musictx.generate(song, bars=bars, meter=meter, tempo=120, loop=True, seed=4)
    length = bars * 0.5 * int(meter[0])
    assert piece.score.markers[-1] == (pytest.approx(length), LOOP_END)
    assert piece.score.duration <= length + 1e-6
    assert (piece.score.notes["start"] > length - 0.5 * int(meter[0])).any()  # its last bar plays
    musictx.write(piece, tmp_path / "loop.mid")
    assert mido.MidiFile(tmp_path / "loop.mid").length == pytest.approx(length, abs=2e-3)


@pytest.mark.parametrize("bar", ["1", "2", "4"])
def test_a_gap_of_a_loop_is_filled_and_nothing_else(song, bar):
    score = loop_of(4)
    (piece,) = musictx.infill(score, song, begin=bar, end=bar, loop=True, seed=2)
    begin = BAR * (int(bar) - 1)
    notes = piece.score.notes
    inside = (notes["start"] > begin - 1e-3) & (notes["start"] < begin + BAR - 1e-3)
    kept = score.notes[(score.notes["start"] < begin) | (score.notes["start"] >= begin + BAR)]
    assert rows(notes[~inside]) == rows(kept)
    assert inside.any()
    assert notes["end"].max() <= 4 * BAR + 1e-6


def test_the_file_is_as_long_as_the_loop_where_its_last_note_ends_before(song, tmp_path):
    (piece,) = musictx.infill(loop_of(4), song, begin="2", end="2", loop=True, seed=2)
    assert piece.score.duration < 4 * BAR - 0.05
    musictx.write(piece, tmp_path / "loop.mid")
    assert mido.MidiFile(tmp_path / "loop.mid").length == pytest.approx(4 * BAR, abs=2e-3)


def test_an_accompaniment_is_as_long_as_the_loop(song):
    tune = loop_of(2).with_notes(loop_of(2).notes[::2])
    (piece,) = musictx.accompany(tune, song, loop=True, seed=1)
    new = piece.score.notes[piece.score.notes["track"] > 0]
    assert rows(piece.score.notes[piece.score.notes["track"] == 0]) == rows(tune.notes)
    assert len(new) > 4
    assert new["end"].max() <= 2 * BAR + 1e-6
    assert all(at < 2 * BAR or text == LOOP_END for at, text in piece.score.markers)


def test_what_cannot_loop_is_refused(song):
    for model, options in [
        ("piano", {"bars": 2}),
        (song, {"seconds": 4}),
        (song, {"form": "AB", "bars": 2}),
    ]:
        with pytest.raises(UserError, match="loop"):
            musictx.generate(model, loop=True, **options)
    with pytest.raises(UserError, match="loop"):
        musictx.generate(song, primer=loop_of(2), bars=2, loop=True)
    with pytest.raises(UserError, match="loop"):
        musictx.infill(loop_of(2), "piano", begin="1", end="1", loop=True)
    voices = [(0.0, 2 * BAR, pitch, 80, 0, False, t) for t, pitch in enumerate((72, 67, 60, 48))]
    four = Score(voices, tempos=[(0.0, 120.0)], meters=[(0.0, 4, 4)])
    with pytest.raises(UserError, match="loop"):
        musictx.infill(four, "chorale", begin="1", end="1", loop=True)
