"""Musical metrics of one piece: a few lines each, with the formula and the values at the edges.

All of them read pitched notes only (drums are left out), take notes to sound as long as they are
written (fold the pedal first: :func:`musictx.pedal.fold_sustain`), and suppose nothing about bars:
performances have none. ``seconds`` is the length of the piece that was asked for, which may be more
than its notes fill. Where a formula would divide 0 by 0 the value is nan, and sets leave it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from musictx.notes import Score

#: Steps in which onset differences are compared, seconds: the grid of performance tokens.
STEP = 0.01
#: Frames of :func:`self_similarity`, seconds.
FRAME = 0.25
#: Shortest lags of the bands of :func:`self_similarity`, seconds; each band reaches to its double.
LAGS = (1.0, 2.0, 4.0, 8.0, 16.0)
#: A silence longer than this is dead air, seconds.
DEAD_AIR = 5.0

#: Semitones above the keynote: major, and harmonic minor (natural minor has the pitch classes of
#: its relative major, so that 24 scales would be 12).
_MAJOR, _MINOR = (0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 11)
_SCALES = np.array(
    [[(p - key) % 12 in mode for p in range(12)] for mode in (_MAJOR, _MINOR) for key in range(12)]
)


def excerpt(score: Score, start: float, seconds: float) -> Score:
    """The notes struck from ``start`` to before ``start + seconds``, told from ``start``.

    Their ends are cut at the end of the excerpt; a note struck before it is not in it, nor are
    drums, pedals and marks.
    """
    notes = score.notes
    inside = (notes["start"] >= start) & (notes["start"] < start + seconds) & ~notes["drum"]
    chosen = notes[inside].copy()
    chosen["end"] = np.minimum(chosen["end"], start + seconds) - start
    chosen["start"] -= start
    return Score(notes=chosen)


def pitched(score: Score) -> np.ndarray:
    """The notes that are no drums, by start and, where that is equal, by pitch (dtype NOTE)."""
    notes = score.notes[~score.notes["drum"]]
    return notes[np.lexsort((notes["pitch"], notes["start"]))]


# ------------------------------------------------------------------------------------------- pitch


def pitch_range(score: Score) -> float:
    """Highest less lowest pitch, semitones. Empty: nan; one note: 0."""
    pitch = pitched(score)["pitch"].astype(int)
    return float(np.ptp(pitch)) if len(pitch) else np.nan


def pitch_entropy(score: Score) -> float:
    """-sum p log2 p over the 128 pitches, p their shares of the notes: bits, 0 to 7.

    Empty: nan; one note: 0."""
    return _entropy(np.bincount(pitched(score)["pitch"], minlength=128))


def pitch_class_entropy(score: Score) -> float:
    """The same over the 12 pitch classes: bits, 0 to log2 12 = 3.585. Empty: nan; one note: 0."""
    return _entropy(np.bincount(pitched(score)["pitch"] % 12, minlength=12))


def _entropy(counts: np.ndarray) -> float:
    if not counts.sum():
        return np.nan
    p = counts[counts > 0] / counts.sum()
    return max(0.0, float(-(p * np.log2(p)).sum()))


def scale_consistency(score: Score) -> float:
    """The share of notes within the scale that holds most of them, of 12 major and 12 harmonic
    minor ones. Empty: nan; one note: 1; all pitch classes equally often: 7/12."""
    counts = np.bincount(pitched(score)["pitch"] % 12, minlength=12)
    return float((_SCALES @ counts).max() / counts.sum()) if counts.sum() else np.nan


# -------------------------------------------------------------------------------------------- time


def density(score: Score, seconds: float) -> float:
    """Notes a second of ``seconds``. Empty: 0; one note: 1 / seconds."""
    return len(pitched(score)) / seconds


def polyphony(score: Score) -> float:
    """Sum of all lengths / seconds in which anything sounds: the mean number of notes that sound
    together where any does. Empty, or no note with a length: nan; one note: 1."""
    notes = pitched(score)
    begins, stops = sounding(score)
    union = float((stops - begins).sum())
    return float((notes["end"] - notes["start"]).sum()) / union if union > 0 else np.nan


def sounding(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Begins and ends of the stretches in which something sounds, in order and apart, seconds."""
    notes = pitched(score)
    if not len(notes):
        return np.empty(0), np.empty(0)
    reached = np.maximum.accumulate(notes["end"])
    apart = notes["start"][1:] > reached[:-1]
    return notes["start"][np.append(True, apart)], reached[np.append(apart, True)]


def longest_silence(score: Score, seconds: float) -> float:
    """The longest stretch of 0 to ``seconds`` in which nothing sounds, its beginning and end
    included, seconds; a note without a length breaks it. Empty: ``seconds``; one note: the longer
    part before or after it."""
    begins, stops = (np.minimum(moments, seconds) for moments in sounding(score))
    gaps = np.append(begins, seconds) - np.append(0.0, stops)
    return max(0.0, float(gaps.max()))


def onset_intervals(score: Score) -> np.ndarray:
    """(n - 1,) seconds from each onset to the next, 0 within a chord. One note or none: empty."""
    return np.diff(pitched(score)["start"])


# -------------------------------------------------------------------------------------- repetition


def self_similarity(score: Score, lag: float) -> float:
    """How well the piece can be laid on itself ``lag`` to before ``2 lag`` seconds later: 0 to 1.

    With x_t the onsets of each of 128 pitches in frame t (:data:`FRAME` seconds, from the first
    onset), S(l) = sum_t x_t . x_(t+l) / sqrt(sum_t |x_t|^2 sum_t |x_(t+l)|^2) over the frames that
    have both; the value is the largest S(l) of the band, since a performance has no bar to tell l.
    Lags above half the piece are left out: too little is left to compare. 1: an exact repetition.
    Empty, one note, or too short for the lag: nan.
    """
    notes = pitched(score)
    if not len(notes):
        return np.nan
    frames = ((notes["start"] - notes["start"][0]) / FRAME + 1e-6).astype(int)
    onsets = np.zeros((frames[-1] + 1, 128))
    np.add.at(onsets, (frames, notes["pitch"]), 1.0)
    best = np.nan
    for shift in range(round(lag / FRAME), min(round(2 * lag / FRAME), len(onsets) // 2 + 1)):
        before, after = onsets[:-shift], onsets[shift:]
        norm = float(np.sqrt((before**2).sum() * (after**2).sum()))
        if norm > 0:
            best = np.fmax(best, min(1.0, float((before * after).sum()) / norm))
    return float(best)


def longest_repeat(score: Score, *, timing: bool = True) -> float:
    """Notes of the longest stretch that is one pattern, of any length, over and over.

    A note is its pitch and, with ``timing``, the time since the onset before in steps of
    :data:`STEP` (a piece's first note has none and is left out then). A pattern of p notes counts
    if it comes at least twice in direct succession; the turn that breaks off counts as far as it
    goes. So in a b c a b c a it is 7, in a a a 3. Nothing repeated, one note or none: 0.
    """
    notes = pitched(score)
    events = notes["pitch"].astype(np.int64)
    if timing:
        events = events[1:] + 128 * steps(np.diff(notes["start"]), STEP)
    longest = 0
    for period in range(1, len(events) // 2 + 1):
        equal = events[period:] == events[:-period]
        breaks = np.flatnonzero(np.concatenate([[True], ~equal, [True]]))
        run = int(np.diff(breaks).max()) - 1
        if run >= period:
            longest = max(longest, run + period)
    return float(longest)


def steps(seconds: np.ndarray, step: float) -> np.ndarray:
    """Times -> the nearest whole number of ``step``, halves upwards, int64.

    What lies a millionth of a step below a half goes up too: that much rounding moves differences
    of times, and a piece that begins later must not be another one."""
    return np.floor(seconds / step + 0.5 + 1e-6).astype(np.int64)


# ----------------------------------------------------------------------------------------- together


class Metric(NamedTuple):
    """``of(score, seconds)`` is the value, in ``unit``. ``log``: of many sizes, so that sets are
    compared by log(1 + value)."""

    of: Callable[[Score, float], float]
    unit: str
    log: bool = False


def _similarity(lag: float) -> Metric:
    return Metric(lambda score, seconds: self_similarity(score, lag), "0 to 1")


#: Name -> metric of one piece.
METRICS: dict[str, Metric] = {
    "pitch range": Metric(lambda score, seconds: pitch_range(score), "semitones"),
    "pitch entropy": Metric(lambda score, seconds: pitch_entropy(score), "bits"),
    "pitch-class entropy": Metric(lambda score, seconds: pitch_class_entropy(score), "bits"),
    "scale consistency": Metric(lambda score, seconds: scale_consistency(score), "share"),
    "note density": Metric(density, "notes/s"),
    "polyphony": Metric(lambda score, seconds: polyphony(score), "notes"),
    **{f"self-similarity {lag:g}-{2 * lag:g} s": _similarity(lag) for lag in LAGS},
    "longest silence": Metric(longest_silence, "s", log=True),
    "longest repeat": Metric(lambda score, seconds: longest_repeat(score), "notes", log=True),
    "longest repeat of pitches": Metric(
        lambda score, seconds: longest_repeat(score, timing=False), "notes", log=True
    ),
}


def measure(score: Score, seconds: float) -> dict[str, float]:
    """Every metric of a piece of ``seconds``; nan where it has no value."""
    return {name: metric.of(score, seconds) for name, metric in METRICS.items()}
