"""Measures of music in bars: whether it keeps time, and whether its bars come again.

All of them count along the tempo and meter marks of the piece (:class:`musictx.beats.Beats`), so
they mean something only for music whose marks are right. Where a formula would divide 0 by 0 the
value is nan.
"""

from __future__ import annotations

import numpy as np

from musictx.notes import Score

#: An onset is near a line of the grid if it lies within so many seconds of it.
NEAR_SECONDS = 0.03
#: Lines of the grid in a quarter note: sixteenths.
LINES_A_QUARTER = 4


def near_sixteenths(score: Score) -> float:
    """The share of onsets within :data:`NEAR_SECONDS` of a sixteenth. Empty: nan.

    Onsets drawn at random reach 2 * NEAR_SECONDS / (length of a sixteenth)."""
    if not len(score):
        return np.nan
    beats = score.beats
    lines = np.round(beats.quarters(score.notes["start"]) * LINES_A_QUARTER) / LINES_A_QUARTER
    away = np.abs(beats.seconds(lines) - score.notes["start"])
    return float((away <= NEAR_SECONDS).mean())


def bar_places(score: Score) -> np.ndarray:
    """(n,) int64: at which sixteenth of its bar each onset lies, counted from the line; on the
    nearest one where it lies between two."""
    at = _in_bars(score, _sixteenths(score))[1]
    return np.round(at * LINES_A_QUARTER).astype(np.int64)


def bars_of(score: Score) -> np.ndarray:
    """(n,) int64: the number of the bar in which each onset lies, from 0, as :func:`bar_places`."""
    return _in_bars(score, _sixteenths(score))[0]


def bass_changes_on_strong_beats(score: Score) -> float:
    """Of the moments at which the lowest sounding pitch changes, the share that lies on the first
    or third quarter of a bar. Without a change: nan."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return np.nan
    moments = np.unique(notes["start"])
    first = np.searchsorted(notes["start"], moments)
    lowest, sounding = [], np.zeros(0, notes.dtype)
    for begin, end, moment in zip(first, [*first[1:], len(notes)], moments):
        sounding = np.concatenate([sounding[sounding["end"] > moment + 1e-3], notes[begin:end]])
        lowest.append(int(sounding["pitch"].min()))
    changed = np.append(True, np.diff(lowest) != 0)
    at = _in_bars(score, score.beats.quarters(moments[changed]))[1]
    strong = np.minimum(np.abs(at), np.abs(at - 2.0)) < 1 / 16
    return float(strong.mean())


def bar_likeness(score: Score, bars: int) -> float:
    """How alike bars are that stand ``bars`` apart: 0 to 1, the mean over pairs of bars of
    :func:`bars_alike`. Pairs of which one is empty are left out. No pair: nan."""
    alike = bars_alike(score)
    played = alike.diagonal() > 0
    pairs = np.diagonal(alike, bars)[played[: max(len(alike) - bars, 0)] & played[bars:]]
    return float(pairs.mean()) if len(pairs) else np.nan


def nearest_bars(score: Score, start: float, stop: float) -> np.ndarray:
    """(n,): of each bar whose onsets all lie from ``start`` to before ``stop`` seconds how alike it
    is to the one of the bars without such an onset that it is likest to. Empty bars and drums do
    not count; none if there are no others."""
    notes = score.with_notes(score.notes[~score.notes["drum"]])
    bar, inside = bars_of(notes), (notes.notes["start"] >= start) & (notes.notes["start"] < stop)
    some, others = np.unique(bar[inside]), np.unique(bar[~inside])
    whole, given = np.setdiff1d(some, others), np.setdiff1d(others, some)
    if not (len(whole) and len(given)):
        return np.empty(0)
    nearest: np.ndarray = bars_alike(notes)[np.ix_(whole, given)].max(1)
    return nearest


def bars_alike(score: Score, *, drums: bool = False) -> np.ndarray:
    """(B, B): how alike the bars are, each to each. A bar is a table of onsets by sixteenth and
    pitch class, drums left out, or of ``drums`` alone; alike is the cosine of two tables, 0 where
    one is empty."""
    pitched = score.with_notes(score.notes[score.notes["drum"] == drums])
    if not len(pitched):
        return np.zeros((0, 0))
    bar, place = bars_of(pitched), bar_places(pitched)
    table = np.zeros((bar.max() + 1, place.max() + 1, 12))
    np.add.at(table, (bar, place, pitched.notes["pitch"] % 12), 1.0)
    flat = table.reshape(len(table), -1)
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-9)
    return flat @ flat.T


def _sixteenths(score: Score) -> np.ndarray:
    """(n,) quarter notes from the start of the piece to the sixteenth nearest to each onset."""
    quarters = score.beats.quarters(score.notes["start"])
    return np.round(quarters * LINES_A_QUARTER) / LINES_A_QUARTER


def _in_bars(score: Score, quarters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each of ``quarters`` (n,) from the start of the piece: the number of its bar, from 0, and
    the quarter notes since the line of that bar; a moment just before a line belongs to it."""
    beats = score.beats
    quarters = quarters + 1 / 32
    mark = np.maximum(np.searchsorted(beats.meter_at, quarters, side="right") - 1, 0)
    length = beats.bar_quarters[mark]
    spans = np.ceil(np.diff(beats.meter_at) / beats.bar_quarters[:-1] - 1e-6)
    earlier = np.concatenate([[0.0], np.cumsum(spans)])[mark]
    since = quarters - beats.meter_at[mark]
    bar = np.floor(since / length)
    return (earlier + bar).astype(int), since - bar * length - 1 / 32
