"""Measures of metre and harmony, for ``musictx compare`` on music in bars.

All measures use the tempo and meter marks of the piece (:class:`musictx.beats.Beats`), so they are
meaningful only for music that keeps to them. Where a formula would divide 0 by 0 the value is nan.

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


def near_sixteenths(score: Score) -> float:
    """The share of onsets within :data:`NEAR_SECONDS` of a sixteenth; nan without notes. For random
    onsets it is 2 * NEAR_SECONDS / (seconds of a sixteenth)."""
    if not len(score):
        return np.nan
    distance = np.abs(score.beats.seconds(_sixteenths(score)) - score.notes["start"])
    return float((distance <= NEAR_SECONDS).mean())


def onset_places(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """(n,) and (n,) int64: the number of the bar of each onset, from 0, and its place in the bar,
    rounded to sixteenths."""
    bar, quarters = _in_bars(score, _sixteenths(score))
    return bar, np.round(quarters * LINES_PER_QUARTER).astype(np.int64)


def bass_changes_on_strong_beats(score: Score) -> float:
    """Of the onsets at which the lowest sounding pitch changes, the share on the first or third
    quarter of a bar; nan without pitched notes."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return np.nan
    onsets, first = np.unique(notes["start"], return_index=True)
    lowest, sounding = [], notes[:0]
    for onset, new_notes in zip(onsets, np.split(notes, first[1:])):
        sounding = np.concatenate([sounding[sounding["end"] > onset + 1e-3], new_notes])
        lowest.append(int(sounding["pitch"].min()))
    changes = np.append(True, np.diff(lowest) != 0)
    _, quarters = _in_bars(score, score.beats.quarters(onsets[changes]))
    is_strong = np.minimum(np.abs(quarters), np.abs(quarters - 2.0)) < 1 / 16
    return float(is_strong.mean())


def mean_bar_similarity(score: Score, bars: int) -> float:
    """The mean of :func:`bar_similarity` over all pairs of bars that are ``bars`` apart and both
    have notes; nan without such a pair."""
    similarity = bar_similarity(score)
    has_notes = similarity.diagonal() > 0
    both_have_notes = np.diagonal(np.outer(has_notes, has_notes), bars)
    pairs = np.diagonal(similarity, bars)[both_have_notes]
    return float(pairs.mean()) if len(pairs) else np.nan


def similarity_to_given(score: Score, start: float, stop: float) -> np.ndarray:
    """(n,) the similarity of each new bar to the most similar given bar; empty without new or given
    bars. All onsets of a new bar are in [start, stop), in seconds, those of a given bar outside.
    Empty bars and drums do not count."""
    pitched = score.with_notes(score.notes[~score.notes["drum"]])
    bar, onset = onset_places(pitched)[0], pitched.notes["start"]
    is_new = (onset >= start) & (onset < stop)
    new, given = np.setdiff1d(bar[is_new], bar[~is_new]), np.setdiff1d(bar[~is_new], bar[is_new])
    if not (len(new) and len(given)):
        return np.empty(0)
    nearest: np.ndarray = bar_similarity(pitched)[np.ix_(new, given)].max(1)
    return nearest


def bar_similarity(score: Score) -> np.ndarray:
    """(B, B) the similarity of each pair of bars, 0 to 1, up to the last bar with an onset. It is
    the cosine similarity of their tables of onsets of pitched notes, by sixteenth and pitch class;
    0 where a bar is empty."""
    counted = score.with_notes(score.notes[~score.notes["drum"]])
    if not len(counted):
        return np.zeros((0, 0))
    bar, place = onset_places(counted)
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


def triads(score: Score) -> np.ndarray:
    """(2 B,) int64: the triad under the melody in each half bar: the pitch class of its root, plus
    12 if minor; -1 where only the melody sounds. Ties go to the smallest number."""
    accompaniment = ~skyline(score) & ~score.notes["drum"]
    seconds = _pitch_class_seconds(score, accompaniment)
    return np.where(seconds.any(0), (_TRIADS @ seconds).argmax(0), -1)


def melody_on_triads(score: Score) -> float:
    """The share of the melody's sounding time above triads that is spent on tones of the triad;
    nan if no melody sounds above triads."""
    numbers = triads(score)
    melody = _pitch_class_seconds(score, skyline(score))
    total = melody[:, numbers >= 0].sum()
    on_tones = (melody.T * _TRIADS[numbers])[numbers >= 0].sum()
    return float(on_tones / total) if total > 0 else np.nan


def diatonic_chords(score: Score) -> float:
    """The share of triads, one in each half bar, that lie in the best scale of the piece
    (:func:`musictx.keys.best_scale`); nan without triads."""
    numbers = triads(score)
    in_scale = ~(_TRIADS[numbers[numbers >= 0]] & ~best_scale(score)).any(1)
    return float(in_scale.mean()) if len(in_scale) else np.nan


def phrase_ends(score: Score) -> float:
    """The share of phrases whose last change of triad is a falling fifth to I or vi, or in minor to
    i or III. A phrase is four bars with a change of triad; nan without phrases."""
    numbers = triads(score)
    keynote, is_minor = key_of(score)
    goals = {keynote, (keynote + (3 if is_minor else 9)) % 12}
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
    is_top = top_line(score)
    others = score.notes[~is_top & ~score.notes["drum"]]
    clashing = total = 0.0
    for note in score.notes[is_top]:
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


def _pitch_class_seconds(score: Score, mask: np.ndarray) -> np.ndarray:
    """(12, 2 B): the seconds for which the notes in ``mask`` (n,) sound, by pitch class and half
    bar, from the bar of the first onset of ``score`` to the bar of its last end."""
    if not len(score):
        return np.zeros((12, 0))
    beats, starts, ends = score.beats, score.notes["start"], score.notes["end"]
    first = beats.quarters(float(starts.min()) + 1e-3)
    lines = beats.bar_lines(max(beats.quarters(float(ends.max())) - 1e-3, 1e-3))
    lines = lines[max(int(np.searchsorted(lines, first, side="right")) - 1, 0) :]
    lines = np.append(lines, beats.bar_line(float(lines[-1]), 1))
    middles = (lines[:-1] + lines[1:]) / 2
    edges = beats.seconds(np.sort(np.append(lines, middles)))
    overlaps = np.minimum(ends[:, None], edges[1:]) - np.maximum(starts[:, None], edges[:-1])
    is_class = np.eye(12)[score.notes["pitch"][mask].astype(int) % 12]  # (notes in the mask, 12)
    seconds: np.ndarray = is_class.T @ np.maximum(overlaps, 0.0)[mask]
    return seconds


def _piece_measure(function: Callable[[Score], float], unit: str) -> Measure:
    """The measure that applies ``function`` to :attr:`.Excerpt.score_in_piece`."""
    return Measure(lambda excerpt: function(excerpt.score_in_piece), unit)


def _similarity_measure(summary: Callable[[np.ndarray], float], unit: str) -> Measure:
    """The measure that applies ``summary`` to :func:`similarity_to_given` of an excerpt."""

    def measure(excerpt: Excerpt) -> float:
        values = similarity_to_given(excerpt.piece, excerpt.start, excerpt.end)
        return summary(values) if len(values) else np.nan

    return Measure(measure, unit)


#: Name -> measure.
MEASURES: dict[str, Measure] = {
    "onsets on sixteenths": _piece_measure(near_sixteenths, "share"),
    "bass changes on beats 1 or 3": _piece_measure(bass_changes_on_strong_beats, "share"),
    "melody on the triad below": _piece_measure(melody_on_triads, "share of time"),
    "diatonic chords": _piece_measure(diatonic_chords, "share"),
    "phrases that end on I or vi": _piece_measure(phrase_ends, "share"),
    "clashes with the top line": _piece_measure(clashes, "share of time"),
    **{
        f"bars alike, {bars} apart": _piece_measure(
            partial(mean_bar_similarity, bars=bars), "0 to 1"
        )
        for bars in BARS_APART
    },
    "bars like the nearest given": _similarity_measure(lambda s: float(s.mean()), "0 to 1"),
    "bars copied": _similarity_measure(lambda s: float((s > 1 - 1e-6).mean()), "share"),
}
#: Name -> distribution.
DISTRIBUTIONS: dict[str, Distribution] = {
    "places in the bar": Distribution(lambda e: onset_places(e.score_in_piece)[1], PLACE_EDGES),
}
