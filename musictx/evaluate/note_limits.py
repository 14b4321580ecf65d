"""What is usual in a corpus: how long notes sound, how many at once, how dense, how often again.

A model in its first hours holds notes that its corpus would have let go, and strikes too many.
Sampling keeps it to what is usual unless told otherwise (:mod:`musictx.sampling.soft`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from musictx.evaluate.musical import restruck
from musictx.notes import Score

#: The share of notes (of strikes) that lie within a limit; the rest are taken for exceptions.
SHARE = 0.95
#: A register is an octave, from C, and goes on into the next until it has so many notes.
NOTES = 100


def note_limits(scores: Iterable[Score]) -> dict[str, Any]:
    """The note limits of ``scores``; empty without a pitched note. Drums do not count.

    longest_note  [[lowest pitch, seconds], ...] by register: the first from pitch 0, each up to the
                  next; seconds that :data:`SHARE` of its notes do not exceed
    most_notes    notes that sound at once, the one just struck included, at that share of strikes
    density       notes a second, the median of the pieces; left out where nothing has a length
    restruck      the share of notes whose pitch was struck less than half a second before
    """
    pitches, lengths, together = [np.empty(0, int)], [np.empty(0)], [np.empty(0, int)]
    densities, again = [], 0.0
    for score in scores:
        notes = score.notes[~score.notes["drum"]]
        if not len(notes):
            continue
        pitches.append(notes["pitch"].astype(int))
        lengths.append(notes["end"] - notes["start"])
        # At each strike: struck so far, itself included, less those that have ended by then.
        struck = np.arange(1, len(notes) + 1)
        together.append(struck - np.searchsorted(np.sort(notes["end"]), notes["start"], "right"))
        span = float(notes["end"].max() - notes["start"].min())
        if span > 0:
            densities.append(len(notes) / span)
        again += restruck(score) * len(notes)
    pitch, length, at_once = map(np.concatenate, (pitches, lengths, together))
    if not len(pitch):
        return {}
    found: dict[str, Any] = {
        "longest_note": [
            [low, _usual(length[(pitch >= low) & (pitch < high)])]
            for low, high in registers(np.bincount(pitch, minlength=128))
        ],
        "most_notes": max(1, int(np.quantile(at_once, SHARE, method="higher"))),
        "restruck": round(again / len(pitch), 4),
    }
    if densities:
        found["density"] = round(float(np.median(densities)), 3)
    return found


def registers(counts: np.ndarray) -> list[tuple[int, int]]:
    """(lowest pitch, the first above) of each register, all pitches in one; ``counts`` (128,) are
    the notes of each pitch. What is left at the top goes to the last register."""
    lows, notes = [0], 0
    for octave in range(12, 128, 12):
        notes += int(counts[octave - 12 : octave].sum())
        if notes >= NOTES and counts[octave:].sum() >= NOTES:
            lows.append(octave)
            notes = 0
    return list(zip(lows, [*lows[1:], 128]))


def _usual(lengths: np.ndarray) -> float:
    return round(float(np.quantile(lengths, SHARE, method="higher")), 3)
