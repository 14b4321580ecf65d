"""What ``musictx compare`` measures of music on a grid: see :mod:`musictx.evaluate.measures`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from musictx.evaluate.measures import Distribution, Measure
from musictx.evaluate.sets import Excerpt
from musictx.notes import Score
from musictx.songs import harmony, metre

#: Bars so far apart are laid on each other.
BARS_APART = (4, 8, 16)
#: The sixteenths of a bar; the last bin holds what lies beyond the sixteenth of them.
PLACE_EDGES = np.concatenate([np.arange(0, 17) - 0.5, [np.inf]])


def _in_place(of: Callable[[Score], float], unit: str) -> Measure:
    """Of all notes of an excerpt, where they stand in its piece."""
    return Measure(lambda excerpt: of(excerpt.in_place), unit)


def _alike(bars: int) -> Measure:
    return _in_place(lambda score: metre.bar_likeness(score, bars), "0 to 1")


def _like_given(of: Callable[[np.ndarray], float], unit: str) -> Measure:
    """``of`` the likeness of each bar of an excerpt to the likest one of those that were given."""

    def measured(excerpt: Excerpt) -> float:
        values = metre.nearest_bars(excerpt.piece, excerpt.start, excerpt.stop)
        return of(values) if len(values) else np.nan

    return Measure(measured, unit)


#: Name -> measure.
MEASURES: dict[str, Measure] = {
    "onsets on sixteenths": _in_place(metre.near_sixteenths, "share"),
    "bass changes on beats 1 or 3": _in_place(metre.bass_changes_on_strong_beats, "share"),
    "melody on the triad below": _in_place(harmony.melody_on_triads, "share of time"),
    "diatonic chords": _in_place(harmony.diatonic_chords, "share"),
    "phrases that end on I or vi": _in_place(harmony.phrase_ends, "share"),
    "clashes with the top line": _in_place(harmony.clashes, "share of time"),
    **{f"bars alike, {bars} apart": _alike(bars) for bars in BARS_APART},
    "bars like the nearest given": _like_given(lambda near: float(near.mean()), "0 to 1"),
    "bars copied": _like_given(lambda near: float((near > 1 - 1e-6).mean()), "share"),
}
#: Name -> distribution.
DISTRIBUTIONS: dict[str, Distribution] = {
    "places in the bar": Distribution(metre.bar_places, PLACE_EDGES),
}
