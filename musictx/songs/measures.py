"""Measures of metre and harmony, for ``musictx compare`` on music in bars.

All measures use the tempo and meter marks of the piece (:class:`musictx.beats.Beats`), so
they are meaningful only for music whose marks are right. Where a formula would divide 0 by 0 the
value is nan.

In the harmonic measures the melody is the skyline (:func:`musictx.notes.skyline`), whatever
instrument plays it. The chord of a half bar is the major or minor triad whose tones sound longest
among the other notes. Notes are weighted by their durations, so passing notes count little.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from musictx.chords import CHORDS
from musictx.evaluate.measures import Distribution, Measure, top_line
from musictx.evaluate.sets import Excerpt
from musictx.keys import best_scale, key_of
from musictx.notes import Score, skyline
from musictx.tokens.controls import union_length

#: An onset is on a line of the grid if it is at most this far from the line, in seconds.
NEAR_SECONDS = 0.03
#: Lines of the grid per quarter note: sixteenths.
LINES_PER_QUARTER = 4
#: (24, 12) the pitch classes of the major triad on each root, then of the minor ones.
_TRIADS = np.array([[p in chord.classes for p in range(12)] for chord in CHORDS[1:25]])
#: Bars of a phrase.
PHRASE = 4
#: Distances in bars at which the similarity of two bars is measured.
BARS_APART = (4, 8, 16)
#: Bin edges of the sixteenths of a bar; the last bin holds all onsets after the first 16.
PLACE_EDGES = np.concatenate([np.arange(0, 17) - 0.5, [np.inf]])


# --------------------------------------------------------------------------------------- metre


def near_sixteenths(score: Score) -> float:
    """The share of onsets within :data:`NEAR_SECONDS` of a sixteenth; nan without notes.

    For random onsets it is 2 * NEAR_SECONDS / (length of a sixteenth)."""
    if not len(score):
        return np.nan
    distance = np.abs(score.beats.seconds(_sixteenths(score)) - score.notes["start"])
    return float((distance <= NEAR_SECONDS).mean())


def places(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """(n,) int64 each: the number of the bar of each onset, from 0, and its place in the bar, in
    sixteenths. Onsets are rounded to sixteenths."""
    bar, quarters = _in_bars(score, _sixteenths(score))
    return bar, np.round(quarters * LINES_PER_QUARTER).astype(np.int64)


def bass_changes_on_strong_beats(score: Score) -> float:
    """Of the moments at which the lowest sounding pitch changes, the share that lies on the first
    or third quarter of a bar; nan without pitched notes."""
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
    quarters = _in_bars(score, score.beats.quarters(moments[changed]))[1]
    strong = np.minimum(np.abs(quarters), np.abs(quarters - 2.0)) < 1 / 16
    return float(strong.mean())


def mean_bar_similarity(score: Score, bars: int) -> float:
    """The mean of :func:`bar_similarity` over all pairs of bars that are ``bars`` apart and both
    have notes; nan without such a pair."""
    similarity = bar_similarity(score)
    played = similarity.diagonal() > 0
    pairs = np.diagonal(similarity, bars)[played[: max(len(played) - bars, 0)] & played[bars:]]
    return float(pairs.mean()) if len(pairs) else np.nan


def similarity_to_given(score: Score, start: float, stop: float) -> np.ndarray:
    """(n,) the similarity of each new bar to the most similar given bar. A new bar has all its
    onsets in [start, stop), in seconds, a given bar all outside. Empty bars and drums do not count;
    without new or without given bars the result is empty."""
    notes = score.with_notes(score.notes[~score.notes["drum"]])
    bar, inside = places(notes)[0], (notes.notes["start"] >= start) & (notes.notes["start"] < stop)
    bars_inside, bars_outside = np.unique(bar[inside]), np.unique(bar[~inside])
    new = np.setdiff1d(bars_inside, bars_outside)
    given = np.setdiff1d(bars_outside, bars_inside)
    if not (len(new) and len(given)):
        return np.empty(0)
    nearest: np.ndarray = bar_similarity(notes)[np.ix_(new, given)].max(1)
    return nearest


def bar_similarity(score: Score, *, drums: bool = False) -> np.ndarray:
    """(B, B) the similarity of each pair of bars, 0 to 1, up to the last bar with an onset. It is
    the cosine similarity of their tables of onsets, by sixteenth and pitch class, of the pitched
    notes or, with ``drums``, of the drum strokes; 0 where a bar is empty."""
    counted = score.with_notes(score.notes[score.notes["drum"] == drums])
    if not len(counted):
        return np.zeros((0, 0))
    bar, place = places(counted)
    table = np.zeros((bar.max() + 1, place.max() + 1, 12))
    np.add.at(table, (bar, place, counted.notes["pitch"] % 12), 1.0)
    flat = table.reshape(len(table), -1)
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-9)
    return flat @ flat.T


def _sixteenths(score: Score) -> np.ndarray:
    """(n,) quarter notes from the start of the piece to the sixteenth nearest to each onset."""
    quarters = score.beats.quarters(score.notes["start"])
    return np.round(quarters * LINES_PER_QUARTER) / LINES_PER_QUARTER


def _in_bars(score: Score, quarters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each of ``quarters`` (n,) from the start of the piece: the number of its bar, from 0, and
    the quarter notes since its line. A moment less than 1/32 quarter note before a bar line
    belongs to the bar that begins there."""
    lines = score.beats.bar_lines(float(quarters.max(initial=0.0)) + 1.0)
    bar = np.maximum(np.searchsorted(lines, quarters + 1 / 32, side="right") - 1, 0)
    return bar, quarters - lines[bar]


# ------------------------------------------------------------------------------------- harmony


def triads(score: Score) -> np.ndarray:
    """(2 B,) int64: the triad under the melody in each half bar, as the pitch class of its root, +
    12 for minor; -1 where only the melody sounds. Of equally good triads the first is taken."""
    times = _times(score)
    accompaniment = ~skyline(score) & ~score.notes["drum"]
    seconds = _classes(score.notes[accompaniment]).T @ times[accompaniment]  # (12, 2 B)
    return np.where(seconds.any(0), (_TRIADS @ seconds).argmax(0), -1)


def melody_on_triads(score: Score) -> float:
    """The share of the melody's sounding time above triads that is spent on tones of the triad;
    nan if no melody sounds above triads."""
    numbers = triads(score)
    top = skyline(score)
    melody = _classes(score.notes[top]).T @ _times(score)[top]  # (12, 2 B) seconds
    total = melody[:, numbers >= 0].sum()
    on_tones = (melody.T * _TRIADS[numbers])[numbers >= 0].sum()
    return float(on_tones / total) if total > 0 else np.nan


def diatonic_chords(score: Score) -> float:
    """The share of triads, one in each half bar, that lie in the best scale of the piece
    (:func:`musictx.keys.best_scale`); nan without triads."""
    numbers = triads(score)
    scale = best_scale(score)
    inside = ~(_TRIADS[numbers[numbers >= 0]] & ~scale).any(1)
    return float(inside.mean()) if len(inside) else np.nan


def phrase_ends(score: Score) -> float:
    """The share of phrases whose last change of triad is a falling fifth to I or vi, or in minor to
    i or III. A phrase is four bars with a change of triad; nan without phrases."""
    numbers = triads(score)
    keynote, minor = key_of(score)
    goals = {keynote, (keynote + (3 if minor else 9)) % 12}
    ends = []
    for begin in range(0, len(numbers), 2 * PHRASE):
        roots = [root % 12 for root in numbers[begin : begin + 2 * PHRASE].tolist() if root >= 0]
        changes = [(root, following) for root, following in pairwise(roots) if root != following]
        if changes:
            previous, last = changes[-1]
            ends.append((last - previous) % 12 == 5 and last in goals)
    return float(np.mean(ends)) if ends else np.nan


def clashes(score: Score) -> float:
    """The share of the sounding time of the top line (:func:`musictx.evaluate.measures.top_line`)
    in which another note sounds whose pitch class is a semitone away; nan without a top line."""
    inside = top_line(score)
    others = score.notes[~inside & ~score.notes["drum"]]
    clashing = total = 0.0
    for note in score.notes[inside]:
        total += float(note["end"] - note["start"])
        interval = (others["pitch"].astype(int) - int(note["pitch"])) % 12
        neighbours = others[
            ((interval == 1) | (interval == 11))
            & (others["start"] < note["end"])
            & (others["end"] > note["start"])
        ]
        starts = np.maximum(neighbours["start"], note["start"])
        clashing += union_length(starts, np.minimum(neighbours["end"], note["end"]))
    return clashing / total if total else np.nan


def _times(score: Score) -> np.ndarray:
    """(n, 2 B): the seconds for which each note sounds in each half of every bar, from the bar of
    the first onset to the bar of the last end."""
    if not len(score):
        return np.zeros((0, 0))
    beats, starts, ends = score.beats, score.notes["start"], score.notes["end"]
    first = beats.quarters(float(starts.min()) + 1e-3)
    lines = beats.bar_lines(max(beats.quarters(float(ends.max())) - 1e-3, 1e-3))
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


# --------------------------------------------------------------------------------- the measures


def _in_place(function: Callable[[Score], float], unit: str) -> Measure:
    """The measure that applies ``function`` to an excerpt's notes at their times in the piece."""
    return Measure(lambda excerpt: function(excerpt.score_in_piece), unit)


def _summary_of_similarity(summary: Callable[[np.ndarray], float], unit: str) -> Measure:
    """The measure that applies ``summary`` to :func:`similarity_to_given` of an excerpt."""

    def measure(excerpt: Excerpt) -> float:
        values = similarity_to_given(excerpt.piece, excerpt.start, excerpt.end)
        return summary(values) if len(values) else np.nan

    return Measure(measure, unit)


#: Name -> measure.
MEASURES: dict[str, Measure] = {
    "onsets on sixteenths": _in_place(near_sixteenths, "share"),
    "bass changes on beats 1 or 3": _in_place(bass_changes_on_strong_beats, "share"),
    "melody on the triad below": _in_place(melody_on_triads, "share of time"),
    "diatonic chords": _in_place(diatonic_chords, "share"),
    "phrases that end on I or vi": _in_place(phrase_ends, "share"),
    "clashes with the top line": _in_place(clashes, "share of time"),
    **{
        f"bars alike, {bars} apart": _in_place(partial(mean_bar_similarity, bars=bars), "0 to 1")
        for bars in BARS_APART
    },
    "bars like the nearest given": _summary_of_similarity(lambda s: float(s.mean()), "0 to 1"),
    "bars copied": _summary_of_similarity(lambda s: float((s > 1 - 1e-6).mean()), "share"),
}
#: Name -> distribution.
DISTRIBUTIONS: dict[str, Distribution] = {
    "places in the bar": Distribution(lambda e: places(e.score_in_piece)[1], PLACE_EDGES),
}
