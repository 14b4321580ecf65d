"""Musical metrics of one piece: a few lines each, with the formula and the values at the edges.

All of them read pitched notes only (drums are left out), take notes to sound as long as they are
written (fold the pedal first: :func:`musictx.pedal.fold_sustain`), and suppose nothing about bars:
performances have none. ``seconds`` is the length of the piece that was asked for, which may be more
than its notes fill. Where a formula would divide 0 by 0 the value is nan, and sets leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from musictx.notes import Score

#: Steps in which onset differences are compared, seconds: the grid of performance tokens.
STEP = 0.01
#: Frames of :func:`self_similarity`, seconds.
FRAME = 0.25
#: Shortest lags of the bands of :func:`self_similarity`, seconds; each band reaches to its double.
LAGS = (1.0, 2.0, 4.0, 8.0, 16.0)
#: A silence longer than this is dead air, a pattern repeated for longer is stuck, seconds.
DEAD_AIR, STUCK = 5.0, 5.0
#: A pattern is stuck only after so many turns: trills and accompaniments repeat a few times.
TURNS = 4
#: A note struck again within so many seconds on its pitch; one shorter than this; one that hangs.
RESTRUCK, SHORT, HUNG = 0.5, 0.06, 4.9
#: Differences of times that ought to be equal differ by less, so that it does not matter when a
#: piece begins.
ROUNDING = 1e-6

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


def best_scale(score: Score) -> np.ndarray:
    """(12,) bool: the pitch classes of the scale that holds most notes, as :func:`scale_of`."""
    return scale_of(np.bincount(pitched(score)["pitch"] % 12, minlength=12))


def scale_of(counts: np.ndarray) -> np.ndarray:
    """(12,) bool: the scale, of 12 major and 12 harmonic minor ones, that holds most of the notes
    of each pitch class, ``counts`` (12,); of equal ones the first, so C major without a note."""
    return _SCALES[int((_SCALES @ counts).argmax())]


def scale_consistency(score: Score, scale: np.ndarray | None = None) -> float:
    """The share of notes within ``scale`` (12,) bool, by default :func:`best_scale`. Empty: nan;
    one note: 1; all pitch classes equally often: 7/12."""
    counts = np.bincount(pitched(score)["pitch"] % 12, minlength=12)
    inside = counts[best_scale(score) if scale is None else scale].sum()
    return float(inside / counts.sum()) if counts.sum() else np.nan


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


def short_notes(score: Score) -> float:
    """The share of notes shorter than :data:`SHORT` seconds. Empty: nan."""
    notes = pitched(score)
    lengths = notes["end"] - notes["start"]
    return float((lengths < SHORT - ROUNDING).mean()) if len(notes) else np.nan


def hung(score: Score) -> float:
    """The share of all notes' lengths, added up, that is in notes of :data:`HUNG` seconds or more:
    a forgotten note-off holds a note to the longest that tokens or sampling allow. Without a
    length: nan."""
    notes = pitched(score)
    lengths = notes["end"] - notes["start"]
    total = lengths.sum()
    return float(lengths[lengths >= HUNG - ROUNDING].sum() / total) if total else np.nan


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


def restruck(score: Score) -> float:
    """The share of notes whose pitch was struck less than :data:`RESTRUCK` seconds before. Empty:
    nan; one note: 0."""
    notes = pitched(score)
    if not len(notes):
        return np.nan
    order = np.lexsort((notes["start"], notes["pitch"]))
    pitch, start = notes["pitch"][order], notes["start"][order]
    again = (pitch[1:] == pitch[:-1]) & (np.diff(start) < RESTRUCK - ROUNDING)
    return float(again.sum() / len(notes))


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
    return float(max((stop - start for start, stop in _repeats(events, 2)), default=0))


def stuck_seconds(score: Score) -> float:
    """The longest time, from first to last onset, in which one pattern of pitches is repeated at
    least :data:`TURNS` times in direct succession, seconds. None: 0."""
    notes = pitched(score)
    start = notes["start"]
    found = _repeats(notes["pitch"].astype(np.int64), TURNS)
    return float(max((start[stop - 1] - start[first] for first, stop in found), default=0.0))


def _repeats(events: np.ndarray, turns: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of every stretch that is one pattern of any length, ``turns`` times or more."""
    for period in range(1, len(events) // turns + 1):
        equal = events[period:] == events[:-period]
        breaks = np.flatnonzero(np.concatenate([[True], ~equal, [True]]))
        runs = np.diff(breaks) - 1
        for i in np.flatnonzero(runs >= period * (turns - 1)).tolist():
            yield int(breaks[i]), int(breaks[i] + runs[i] + period)


def steps(seconds: np.ndarray, step: float) -> np.ndarray:
    """Times -> the nearest whole number of ``step``, halves upwards, int64.

    What lies a millionth of a step below a half goes up too: that much rounding moves differences
    of times, and a piece that begins later must not be another one."""
    return np.floor(seconds / step + 0.5 + 1e-6).astype(np.int64)


# ----------------------------------------------------------------------------------------- together


class Metric(NamedTuple):
    """``of(score, seconds)`` is the value, in ``unit``. ``log``: of many sizes, so that sets are
    compared by log(1 + value). ``flag``: 1 or 0, whose mean is the share of pieces."""

    of: Callable[[Score, float], float]
    unit: str
    log: bool = False
    flag: bool = False


def _of(measure: Callable[[Score], float], unit: str, log: bool = False) -> Metric:
    return Metric(lambda score, seconds: measure(score), unit, log)


def _similarity(lag: float) -> Metric:
    return _of(lambda score: self_similarity(score, lag), "0 to 1")


#: Name -> metric of one piece.
METRICS: dict[str, Metric] = {
    "notes a second": Metric(density, "notes/s"),
    "polyphony": _of(polyphony, "notes"),
    "re-struck notes": _of(restruck, "share"),
    "short notes": _of(short_notes, "share"),
    "hanging time": _of(hung, "share"),
    "in scale": _of(scale_consistency, "share"),
    "pitch-class entropy": _of(pitch_class_entropy, "bits"),
    "pitch entropy": _of(pitch_entropy, "bits"),
    "pitch range": _of(pitch_range, "semitones"),
    **{f"self-similarity {lag:g}-{2 * lag:g} s": _similarity(lag) for lag in LAGS},
    "longest repeat": _of(longest_repeat, "notes", log=True),
    "longest repeat of pitches": _of(
        lambda score: longest_repeat(score, timing=False), "notes", log=True
    ),
    "longest silence": Metric(longest_silence, "s", log=True),
    f"dead air of {DEAD_AIR:g} s": Metric(
        lambda score, seconds: float(longest_silence(score, seconds) >= DEAD_AIR - ROUNDING),
        "share of pieces",
        flag=True,
    ),
    f"stuck for {STUCK:g} s": Metric(
        lambda score, seconds: float(stuck_seconds(score) >= STUCK - ROUNDING),
        "share of pieces",
        flag=True,
    ),
}


def measure(score: Score, seconds: float) -> dict[str, float]:
    """Every metric of a piece of ``seconds``; nan where it has no value."""
    return {name: metric.of(score, seconds) for name, metric in METRICS.items()}
