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


def by_pitch(notes: np.ndarray, starts: np.ndarray) -> dict[tuple, list[float]]:
    """(program, drum or not, pitch) -> when it begins, in order."""
    begins: dict[tuple, list[float]] = defaultdict(list)
    for note, start in zip(notes, starts):
        begins[note["program"] * ~note["drum"], note["drum"], note["pitch"]].append(float(start))
    return {key: sorted(values) for key, values in begins.items()}


def check_near(were: dict[tuple, list[float]], are: dict[tuple, list[float]], most: float) -> None:
    """All notes came back, and none farther than ``most`` from where it was."""
    assert {key: len(values) for key, values in are.items()} == {
        key: len(values) for key, values in were.items()
    }
    for key, values in were.items():
        assert np.abs(np.array(values) - are[key]).max() <= most


@quick
@given(moved())
def test_notes_stay_on_their_beats_however_late_these_are(score):
    back, clock = BARS.decode(BARS.encode(score)), Beats(score)
    assert back == BARS.quantise(score)
    begins = round(float(clock.quarters(BARS.clock(score).begins)) * STEPS, 5) if len(back) else 0
    were = by_pitch(score.notes, clock.quarters(score.notes["start"]) * STEPS)
    check_near(were, by_pitch(back.notes, back.notes["start"] * PER_SECOND + begins), NEAR_STEPS)


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
    check_near(were, are, tokenizer.step_seconds / 2 + 1e-9)


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
