"""Where new notes stand in the piece they continue, against plain loops."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.grid import in_time
from musictx.notes import NOTE, Score
from musictx.sampling import timeline
from musictx.sampling.timeline import on_tracks

TEMPOS = st.lists(
    st.tuples(st.floats(0, 10), st.floats(30, 240)), max_size=3, unique_by=lambda mark: mark[0]
)


def tokens(kinds=("pitch", "velocity"), voices=0):
    return SimpleNamespace(kinds=kinds, voices=voices)


@settings(deadline=None)
@given(TEMPOS, st.sampled_from(["16", "8", "8t"]), st.data())
def test_quantised_notes_stand_on_the_nearest_lines(tempos, grid, data):
    clock = Score(tempos=tempos).beats
    start = data.draw(st.floats(0, 20))
    end = start + data.draw(st.floats(0, 3))
    (note,) = timeline.quantised(
        np.array([(start, end, 60, 80, 0, False, 0)], NOTE), Score(tempos=tempos), grid
    )
    lines = {"16": 4, "8": 2, "8t": 3}[grid]
    first, last = (clock.quarters(note[name]) * lines for name in ("start", "end"))
    assert first == pytest.approx(round(first), abs=1e-5)
    assert last == pytest.approx(round(last), abs=1e-5)
    assert abs(first - clock.quarters(start) * lines) <= 0.5 + 1e-5
    assert last >= first + 1 - 1e-5
    if last > first + 1.5:
        assert abs(last - clock.quarters(end) * lines) <= 0.5 + 1e-5


@pytest.mark.parametrize("late", [0.035, -0.03])
def test_music_that_is_late_is_quantised_to_its_own_beats(late):
    """All of it begins 35 ms after the lines of its file, or 30 ms before: so do new notes."""
    starts = late + 0.25 + 0.25 * np.arange(60) + np.where(np.arange(60) % 4 == 1, 0.125, 0)
    piece = in_time(Score([(t, t + 0.2, 60, 70, 0, False, 0) for t in starts]))
    drawn = np.array([(t, t + 0.3, 64, 80, 0, False, 0) for t in (1.01, 2.4, 3.19)], NOTE)
    placed = timeline.quantised(drawn, piece, "16")
    since = (placed["start"] - late) * 8  # sixteenths of 120 quarter notes a minute
    assert np.abs(since - np.round(since)).max() < 0.03
    assert (np.abs(placed["start"] - drawn["start"]) <= 0.0625 + 0.004).all()
    inside = timeline.within(placed, piece, "16", 1.5, 3.0)
    assert (inside["start"] >= 1.5).all()
    assert (inside["start"] < 3.0).all()


def given_on(*tracks):
    """A piece with a note for each (track, pitch, program, drum)."""
    return Score([(i, i + 1, p, 70, g, d, t) for i, (t, p, g, d) in enumerate(tracks)])


def new(*notes):
    """Notes of (pitch, program, drum, voice)."""
    return np.array([(9, 10, p, 90, g, d, v) for p, g, d, v in notes], NOTE)


def test_new_notes_go_to_the_track_whose_notes_lie_nearest():
    piece = given_on((2, 72, 0, False), (5, 48, 33, False), (7, 36, 0, True))
    notes = new((70, 0, False, 0), (50, 0, False, 0), (35, 0, True, 0))
    found = on_tracks(notes, piece, tokens())
    assert found["track"].tolist() == [2, 5, 7]
    assert found["program"].tolist() == [0, 33, 0]
    assert found["velocity"].tolist() == [90] * 3
    # Where tokens know programs a note stays with its own, however high; an unknown one is apart.
    kinds = ("pitch", "program")
    found = on_tracks(new((70, 33, False, 3), (50, 12, False, 4)), piece, tokens(kinds=kinds))
    assert found["track"].tolist() == [5, 9]
    assert found["program"].tolist() == [33, 12]
    assert found["velocity"].tolist() == [70] * 2  # tokens without velocities
    # No drums there: they get a track of their own, and so does what has no track to go to.
    assert on_tracks(notes, given_on((4, 60, 0, False)), tokens())["track"].tolist() == [4, 4, 5]
    assert on_tracks(notes, Score(), tokens())["track"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(("tracks", "voices"), [(4, 4), (3, 4), (4, 0)])
def test_voices_in_turn_go_to_as_many_tracks_from_high_to_low(tracks, voices):
    """Not so for other tokens that count in beats, whose notes have no voice."""
    piece = given_on(*[(t, 48 + 7 * ((t * 3) % 4), 0, False) for t in range(tracks)])
    notes = new(*[(60, 0, False, voice) for voice in range(4)])
    found = on_tracks(notes, piece, tokens(voices=voices))["track"].tolist()
    height = {t: 48 + 7 * ((t * 3) % 4) for t in range(tracks)}
    if tracks == voices:
        assert found == sorted(range(4), key=lambda t: -height[t])
    else:
        assert found == [min(height, key=lambda t: abs(height[t] - 60))] * 4


@pytest.mark.parametrize(("notes", "there"), [(3, False), (4, True)])
def test_four_notes_tell_a_grid(notes, there):
    piece = Score(new(*[(60, 0, False, 0)] * notes), tempos=[(0, 60)])
    assert timeline.on_grid(piece) == there
    assert not timeline.on_grid(Score(piece.notes))
