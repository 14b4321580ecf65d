"""Harmony in itself: whether a melody fits the chords under it, whether these belong to a key and
close phrases, and whether notes clash.

The melody is the skyline (:func:`musictx.notes.skyline`), whatever plays it; its chord
is the major or minor triad that holds most of the other notes' time in a half bar. What is measured
weighs by time, so a passing note counts for what it lasts.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from musictx.keys import key_of, scale_of
from musictx.notes import Score, skyline, top_line

#: Pitch classes of the major and the minor triad on each root: (24, 12), majors first.
_TRIADS = np.array(
    [[(p - root) % 12 in triad for p in range(12)] for triad in ((0, 4, 7), (0, 3, 7))
     for root in range(12)]
)  # fmt: skip
#: Bars of a phrase.
PHRASE = 4


def triads(score: Score) -> np.ndarray:
    """(2 B,) int64: the triad under the melody in each half of every bar: the pitch class of its
    root, + 12 for minor; of equal ones the first; -1 where nothing sounds."""
    times = _times(score)
    below = ~skyline(score) & ~score.notes["drum"]
    held = _classes(score.notes[below]).T @ times[below]  # (12, 2 B) seconds
    return np.where(held.any(0), (_TRIADS @ held).argmax(0), -1)


def melody_on_triads(score: Score) -> float:
    """The share of the time of the melody, where there is a triad under it, that is spent on its
    tones. None: nan."""
    under = triads(score)
    top = skyline(score)
    sung = _classes(score.notes[top]).T @ _times(score)[top]
    total = sung[:, under >= 0].sum()
    on = (sung.T * _TRIADS[under])[under >= 0].sum()
    return float(on / total) if total > 0 else np.nan


def diatonic_chords(score: Score) -> float:
    """The share of the half bars with a triad whose triad lies in the scale that holds most notes
    (:func:`musictx.keys.scale_of`). None: nan."""
    under = triads(score)
    scale = scale_of(_counts(score))
    inside = ~(_TRIADS[under[under >= 0]] & ~scale).any(1)
    return float(inside.mean()) if len(inside) else np.nan


def phrase_ends(score: Score) -> float:
    """Of the phrases of four bars in which the triads change, the share whose last change is by a
    falling fifth to I or vi, or in minor to i or III. None: nan."""
    under = triads(score)
    keynote, minor = key_of(_counts(score))
    goals = {keynote, (keynote + (3 if minor else 9)) % 12}
    ends = []
    for begin in range(0, len(under), 2 * PHRASE):
        roots = [root % 12 for root in under[begin : begin + 2 * PHRASE].tolist() if root >= 0]
        changes = [(one, other) for one, other in pairwise(roots) if one != other]
        if changes:
            before, last = changes[-1]
            ends.append((last - before) % 12 == 5 and last in goals)
    return float(np.mean(ends)) if ends else np.nan


def clashes(score: Score, melody: np.ndarray | None = None) -> float:
    """The share of the sounding time of the notes ``melody`` (n,) bool in which another one sounds
    a semitone, or eleven, from them in pitch class; by default of the top line
    (:func:`musictx.notes.top_line`). Silence: nan."""
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


def _times(score: Score) -> np.ndarray:
    """(n, 2 B): the seconds for which each note sounds in each half of the bars that have notes,
    from the first to the last of them."""
    if not len(score):
        return np.zeros((0, 0))
    beats, starts, ends = score.beats, score.notes["start"], score.notes["end"]
    first = beats.quarters(float(starts.min()) + 1e-3)
    lines = beats.bar_lines(max(float(beats.quarters(float(ends.max()))) - 1e-3, 1e-3))
    lines = lines[max(int(np.searchsorted(lines, first, side="right")) - 1, 0) :]
    lines = np.append(lines, beats.bar_line(float(lines[-1]), 1))
    middles = (lines[:-1] + lines[1:]) / 2
    edges = beats.seconds(np.sort(np.append(lines, middles)))
    sounding = np.minimum(ends[:, None], edges[1:]) - np.maximum(starts[:, None], edges[:-1])
    times: np.ndarray = np.maximum(sounding, 0.0)
    return times


def _classes(notes: np.ndarray) -> np.ndarray:
    """(n, 12): 1 at the pitch class of each note."""
    classes: np.ndarray = np.eye(12)[notes["pitch"].astype(int) % 12]
    return classes


def _counts(score: Score) -> np.ndarray:
    return np.bincount(score.notes["pitch"][~score.notes["drum"]] % 12, minlength=12)


def _union(starts: np.ndarray, ends: np.ndarray) -> float:
    """The length of the union of intervals."""
    order = np.argsort(starts, kind="stable")
    length, reached = 0.0, -np.inf
    for start, end in zip(starts[order], ends[order]):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return float(length)
