"""The sustain pedal folded into note ends: no note lost, added or moved, each end as it sounds."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from musictx.notes import Score
from musictx.pedal import fold_sustain
from tests.strategies import scores


def note(start: float, end: float, pitch: int = 60, track: int = 0, drum: bool = False) -> tuple:
    return (start, end, pitch, 80, 0, drum, track)


def ends(notes: list[tuple], pedals: list[tuple]) -> list[float]:
    return fold_sustain(Score(notes, pedals=pedals)).notes["end"].tolist()


def _end_by_walking(score: Score, i: int) -> float:
    """The end of note ``i``, by walking moment after moment from its start."""
    me = score.notes[i]
    if me["drum"]:
        return float(me["end"])
    pedals = [p for p in score.pedals if p["track"] == me["track"]]
    mates = [
        n
        for n in score.notes
        if (n["track"], n["pitch"]) == (me["track"], me["pitch"]) and not n["drum"]
    ]
    everything = [*score.notes["start"], *score.notes["end"], *score.pedals["time"]]
    down = False
    for moment in sorted({float(t) for t in everything}):
        values = [int(p["value"]) for p in pedals if p["time"] == moment]
        went_up = any(value < 64 for value in values)
        if went_up:
            down = False
        elif values:
            down = True
        if moment < me["start"]:
            continue
        if went_up and moment > me["end"]:
            return moment  # it sounded on under the pedal until now
        if down and moment > me["start"] and any(n["start"] == moment for n in mates):
            return moment  # struck again
        if moment == me["end"] and not down:
            return moment
    return max(float(t) for t in everything)


@settings(deadline=None, max_examples=150)
@given(scores(max_notes=14, max_seconds=3.0, grid=0.1, pitches=(60, 64), tracks=2))
def test_fold_equals_walking_through_the_piece_note_by_note(score: Score) -> None:
    folded = fold_sustain(score)
    assert folded.notes["end"].tolist() == [_end_by_walking(score, i) for i in range(len(score))]


@settings(deadline=None, max_examples=100)
@given(scores())
def test_no_note_is_lost_added_or_moved_and_no_pedal_is_left(score: Score) -> None:
    folded = fold_sustain(score)
    others = ["start", "pitch", "velocity", "program", "drum", "track"]
    assert np.array_equal(folded.notes[others], score.notes[others])
    assert len(folded.pedals) == 0
    assert np.array_equal(folded.tempos, score.tempos)
    assert np.array_equal(folded.meters, score.meters)
    assert fold_sustain(folded) == folded
