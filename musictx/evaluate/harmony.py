"""Measures of harmony: whether notes belong to the chords in force, and whether they clash.

Chords are those that the file names in markers; where it names none, those that the notes
themselves imply (:mod:`musictx.chords`). The measures weigh by time, so a passing note counts for
what it lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from musictx import chords
from musictx.evaluate.musical import top_line
from musictx.notes import Score


class ChordSpan(NamedTuple):
    """A chord from ``start`` to before ``end``, seconds, and its pitch classes, 0 to 11."""

    start: float
    end: float
    classes: frozenset[int]


def chords_of(score: Score) -> list[ChordSpan]:
    """The chords of ``score``, one after another up to its end."""
    changes = chords.annotated(score) or chords.recognised(score)
    ends = [*(time for time, _ in changes[1:]), score.duration]
    return [ChordSpan(time, end, chord.classes) for (time, chord), end in zip(changes, ends)]


def chord_tones(score: Score, spans: Sequence[ChordSpan] | None = None) -> float:
    """The share of the sounding time of the notes that is tones of the chord in force, one of
    ``spans``, by default :func:`chords_of` the score.

    Counted is the time in which a note sounds within a chord. None of it: nan."""
    spans = chords_of(score) if spans is None else spans
    inside = total = 0.0
    for note in score.notes[~score.notes["drum"]]:
        for span in spans:
            time = min(note["end"], span.end) - max(note["start"], span.start)
            if time > 0 and span.classes:
                total += time
                inside += time * (int(note["pitch"]) % 12 in span.classes)
    return inside / total if total else np.nan


def clashes(score: Score, melody: np.ndarray | None = None) -> float:
    """The share of the sounding time of the notes ``melody`` (n,) bool in which another one sounds
    a semitone, or eleven, from them in pitch class; by default of the top line
    (:func:`musictx.evaluate.musical.top_line`). Silence: nan."""
    inside = top_line(score) if melody is None else melody
    others = score.notes[~inside & ~score.notes["drum"]]
    clashing = total = 0.0
    for tone in score.notes[inside]:
        total += float(tone["end"] - tone["start"])
        apart = (others["pitch"].astype(int) - int(tone["pitch"])) % 12
        near = others[
            ((apart == 1) | (apart == 11))
            & (others["start"] < tone["end"])
            & (others["end"] > tone["start"])
        ]
        starts = np.maximum(near["start"], tone["start"])
        clashing += _union(starts, np.minimum(near["end"], tone["end"]))
    return clashing / total if total else np.nan


def _union(starts: np.ndarray, ends: np.ndarray) -> float:
    """The length of the union of intervals."""
    order = np.argsort(starts, kind="stable")
    length, reached = 0.0, -np.inf
    for start, end in zip(starts[order], ends[order]):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return float(length)
