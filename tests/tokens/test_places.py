"""Every note is written near where it was, wherever the music lies on the beats of its file."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.beats import Beats
from musictx.chorale.grid import Grid
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.grid import in_time
from musictx.notes import Pulse, Score
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import PER_SECOND
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.stream import BAR, CHORD, DRUM_PART, NOTE, STEPS, NoteStream
from tests.strategies import scores
from tests.tokens.grids import gridded

quick = settings(deadline=None, max_examples=100)
BARS = BarTokenizer()
EVENTS = [
    PerformanceTokenizer(tracks="programs"),
    PerformanceTokenizer(low=21, high=108, step_ms=20),
]
#: Half of the way between the two places that lie farthest apart.
NEAR_STEPS = 1.5 + 1e-5


@st.composite
def moved(draw: st.DrawFn) -> Score:
    """Music whose beats come later or earlier than the marks of its file, by up to some bars; its
    first notes may stand before them, and it may swing."""
    piece = draw(st.one_of(scores(pedals=False), gridded()))
    late = draw(st.one_of(st.floats(-0.3, 0.3), st.floats(-1.0, 8.0)))
    swing = draw(st.sampled_from([0.5, 0.6]))
    return dataclasses.replace(piece, pulse=Pulse(piece.tempos, piece.meters, late, swing))


@st.composite
def late_files(draw: st.DrawFn) -> Score:
    """Files as sequencers and LilyPond write them: all notes a few ticks off the grid but the first
    ones, or grace notes before the first beat, after a pick-up or none."""
    ticks, bpm = draw(st.sampled_from([384, 480])), draw(st.integers(40, 200))
    meter = draw(st.sampled_from([(4, 4), (3, 4), (6, 8), (2, 2)]))
    pickup = draw(st.integers(0, 3))
    shift = draw(st.integers(-70, 70))
    early = draw(st.integers(0, 3))
    rows = []
    for n in range(draw(st.integers(20, 64))):
        start = max(pickup * ticks + n * ticks // 2 + shift, 0)
        rows.append((start, start + ticks // 3, 60 + n * 5 % 24))
    rows = [(tick, tick + 20, 80 + tick) for tick in range(early)] + rows
    marks = [(0.0, 1, 4), (pickup * 60 / bpm, *meter)] if pickup else [(0.0, *meter)]
    second = ticks * bpm / 60
    return Score(
        notes=[(a / second, b / second, pitch, 64, 0, False, 0) for a, b, pitch in rows],
        tempos=[(0.0, float(bpm))],
        meters=marks,
        ticks_per_quarter=ticks,
    )


def by_pitch(notes: np.ndarray, starts: np.ndarray) -> dict[tuple, list[float]]:
    """(program, drum or not, pitch) -> when it begins, in order."""
    found: dict[tuple, list[float]] = defaultdict(list)
    for note, start in zip(notes, starts):
        found[note["program"] * ~note["drum"], note["drum"], note["pitch"]].append(float(start))
    return {key: sorted(values) for key, values in found.items()}


def check_round_trip(tokenizer: BarTokenizer, score: Score) -> None:
    """All notes come back, at most half a line of the grid from where they were."""
    back = tokenizer.decode(tokenizer.encode(score)).notes
    clock = Beats(score)
    begins = (
        round(float(clock.quarters(tokenizer.clock(score).begins)) * STEPS, 5) if len(back) else 0
    )
    were = by_pitch(score.notes, clock.quarters(score.notes["start"]) * STEPS)
    are = by_pitch(back, back["start"] * PER_SECOND + begins)
    assert {key: len(values) for key, values in are.items()} == {
        key: len(values) for key, values in were.items()
    }
    for key, values in were.items():
        assert np.abs(np.array(values) - are[key]).max() <= NEAR_STEPS


@quick
@given(moved())
def test_notes_stay_on_their_beats_however_late_these_are(score):
    check_round_trip(BARS, score)
    back = BARS.decode(BARS.encode(score))
    assert back == BARS.quantise(score)


@quick
@given(late_files())
def test_notes_before_the_first_beat_of_late_music_are_a_pick_up(score):
    check_round_trip(BARS, in_time(score))


@quick
@given(scores(), st.sampled_from(EVENTS))
def test_events_stay_within_half_a_step(score, tokenizer):
    score = dataclasses.replace(score, pedals=score.pedals[:0])
    inside = (score.notes["pitch"] >= tokenizer.low) & (score.notes["pitch"] <= tokenizer.high)
    drum = score.notes["drum"]
    kept = score.notes[drum | inside if tokenizer.tracks == "programs" else inside & ~drum].copy()
    if tokenizer.tracks == "piano":
        kept["program"] = 0
    back = tokenizer.decode(tokenizer.encode(score)).notes
    were = by_pitch(kept, kept["start"])
    are = by_pitch(back, back["start"] + tokenizer.clock(score).begins)
    assert list(map(len, were.values())) == [len(are[key]) for key in were]
    for key, values in were.items():
        assert np.abs(np.array(values) - are[key]).max() <= tokenizer.step_seconds / 2 + 1e-9


#: A bar of four and a note in it; and what no vocabulary has instead of one value or two.
RIGHT = {"numerator": 4, "exponent": 2, "cut": 0}
RIGHT |= {"start": 0, "part": 0, "pitch": 60, "length": 24, "velocity_bin": 3}
WRONG = [
    *({name: -1} for name in ("start", "pitch", "length", "velocity_bin", "exponent")),
    *({"start": 96}, {"start": 2**16}, {"part": 129}, {"part": -2}, {"pitch": 128}),
    *({"length": 0}, {"length": 193}, {"velocity_bin": 9}),
    *({"part": CHORD, "pitch": 13}, {"part": CHORD, "length": 99}),
    *({"part": DRUM_PART, "pitch": 200}, {"part": DRUM_PART, "velocity_bin": 0}),
    *({"numerator": 0}, {"numerator": 33}, {"exponent": 6}, {"cut": 192}),
]


def stream_of(**changed: int) -> NoteStream:
    """One note in one bar."""
    bars, notes = (
        np.array([tuple((RIGHT | changed)[name] for name in table.names)], table)
        for table in (BAR, NOTE)
    )
    return NoteStream(bars, notes)


def test_what_is_outside_the_vocabulary_is_nothing_else():
    assert BARS.decode(BARS.write(stream_of())).notes["pitch"].tolist() == [60]
    for wrong in WRONG:
        with pytest.raises(ValueError, match="expected"):
            BARS.write(stream_of(**wrong))
    for wrong in ({"pitch": -1}, {"pitch": 128}, {"velocity_bin": 0}, {"velocity_bin": 33},
                  {"part": 129}, {"start": -1}):  # fmt: skip
        with pytest.raises(ValueError, match="expected"):
            EVENTS[0].write(NoteStream(notes=stream_of(**wrong).notes))


def test_voices_out_of_range_are_silent():
    tokenizer = ChoraleTokenizer()
    pitches = np.array([[300, 60, -5, tokenizer.low - 1]])
    ids = tokenizer.encode_grid(Grid.joined(pitches))
    assert tokenizer.decode_grid(ids).pitches.tolist() == [[-1, 60, -1, -1]]
