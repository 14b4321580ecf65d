"""What ``musictx compare`` measures of music on a grid: metre and harmony.

All measures count along the tempo and meter marks of the piece (:class:`musictx.beats.Beats`), so
they mean something only for music whose marks are right. Where a formula would divide 0 by 0 the
value is nan.

In harmony the melody is the skyline (:func:`musictx.notes.skyline`), whatever plays it;
its chord is the major or minor triad that holds most of the other notes' time in a half bar.
Harmonic measures weigh by time, so a passing note counts for what it lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from musictx.evaluate.measures import Distribution, Measure, top_line
from musictx.evaluate.sets import Excerpt
from musictx.keys import best_scale, key_of
from musictx.notes import Score, skyline

#: An onset is near a line of the grid if it lies within so many seconds of it.
NEAR_SECONDS = 0.03
#: Lines of the grid in a quarter note: sixteenths.
LINES_A_QUARTER = 4
#: Pitch classes of the major and the minor triad on each root: (24, 12), majors first.
_TRIADS = np.array(
    [[(p - root) % 12 in triad for p in range(12)] for triad in ((0, 4, 7), (0, 3, 7))
     for root in range(12)]
)  # fmt: skip
#: Bars of a phrase.
PHRASE = 4
#: Bars so far apart are laid on each other.
BARS_APART = (4, 8, 16)
#: The sixteenths of a bar; the last bin holds what lies beyond the sixteenth of them.
PLACE_EDGES = np.concatenate([np.arange(0, 17) - 0.5, [np.inf]])


# --------------------------------------------------------------------------------------- metre


def near_sixteenths(score: Score) -> float:
    """The share of onsets within :data:`NEAR_SECONDS` of a sixteenth. Empty: nan.

    Onsets drawn at random reach 2 * NEAR_SECONDS / (length of a sixteenth)."""
    if not len(score):
        return np.nan
    away = np.abs(score.beats.seconds(_sixteenths(score)) - score.notes["start"])
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
    lines = score.beats.bar_lines(float(quarters.max(initial=0.0)) + 1.0)
    bar = np.maximum(np.searchsorted(lines, quarters + 1 / 32, side="right") - 1, 0)
    return bar, quarters - lines[bar]


# ------------------------------------------------------------------------------------- harmony


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
    (:func:`musictx.keys.best_scale`). None: nan."""
    under = triads(score)
    scale = best_scale(score)
    inside = ~(_TRIADS[under[under >= 0]] & ~scale).any(1)
    return float(inside.mean()) if len(inside) else np.nan


def phrase_ends(score: Score) -> float:
    """Of the phrases of four bars in which the triads change, the share whose last change is by a
    falling fifth to I or vi, or in minor to i or III. None: nan."""
    under = triads(score)
    keynote, minor = key_of(score)
    goals = {keynote, (keynote + (3 if minor else 9)) % 12}
    ends = []
    for begin in range(0, len(under), 2 * PHRASE):
        roots = [root % 12 for root in under[begin : begin + 2 * PHRASE].tolist() if root >= 0]
        changes = [(one, other) for one, other in pairwise(roots) if one != other]
        if changes:
            before, last = changes[-1]
            ends.append((last - before) % 12 == 5 and last in goals)
    return float(np.mean(ends)) if ends else np.nan


def clashes(score: Score) -> float:
    """The share of the sounding time of the top line (:func:`musictx.evaluate.measures.top_line`)
    in which another note sounds a semitone, or eleven, from it in pitch class. Silence: nan."""
    inside = top_line(score)
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


def _union(starts: np.ndarray, ends: np.ndarray) -> float:
    """The length of the union of intervals."""
    order = np.argsort(starts, kind="stable")
    length, reached = 0.0, -np.inf
    for start, end in zip(starts[order], ends[order]):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return float(length)


# --------------------------------------------------------------------------------- the measures


def _in_place(of: Callable[[Score], float], unit: str) -> Measure:
    """Of all notes of an excerpt, where they stand in its piece."""
    return Measure(lambda excerpt: of(excerpt.in_place), unit)


def _alike(bars: int) -> Measure:
    return _in_place(lambda score: bar_likeness(score, bars), "0 to 1")


def _like_given(of: Callable[[np.ndarray], float], unit: str) -> Measure:
    """``of`` the likeness of each bar of an excerpt to the likest one of those that were given."""

    def measured(excerpt: Excerpt) -> float:
        values = nearest_bars(excerpt.piece, excerpt.start, excerpt.stop)
        return of(values) if len(values) else np.nan

    return Measure(measured, unit)


#: Name -> measure.
MEASURES: dict[str, Measure] = {
    "onsets on sixteenths": _in_place(near_sixteenths, "share"),
    "bass changes on beats 1 or 3": _in_place(bass_changes_on_strong_beats, "share"),
    "melody on the triad below": _in_place(melody_on_triads, "share of time"),
    "diatonic chords": _in_place(diatonic_chords, "share"),
    "phrases that end on I or vi": _in_place(phrase_ends, "share"),
    "clashes with the top line": _in_place(clashes, "share of time"),
    **{f"bars alike, {bars} apart": _alike(bars) for bars in BARS_APART},
    "bars like the nearest given": _like_given(lambda near: float(near.mean()), "0 to 1"),
    "bars copied": _like_given(lambda near: float((near > 1 - 1e-6).mean()), "share"),
}
#: Name -> distribution.
DISTRIBUTIONS: dict[str, Distribution] = {
    "places in the bar": Distribution(bar_places, PLACE_EDGES),
}
