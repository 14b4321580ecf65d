"""What ``musictx compare`` measures: of each piece a number, of a set of pieces distributions.

Measures of one value a piece are compared by their means. A quantity with a value a note is counted
in a histogram on the fixed edges below, made for each piece and averaged over the pieces, so that a
dense piece does not dominate the set; two sets are compared by the overlap of these, as Yang and
Lerch do (On the evaluation of generative models in music, 2020).

Two samples of one population differ too. What is attainable is the difference of two sets of real
pieces of the same number and length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from musictx.evaluate import harmony, metre, musical
from musictx.evaluate.musical import pitched
from musictx.grid import grid_of
from musictx.notes import Score

#: A silence longer than this is dead air, a pattern repeated for longer is stuck, seconds.
DEAD_AIR_SECONDS, STUCK_SECONDS = 5.0, 5.0
#: Bars so far apart are laid on each other.
BARS_APART = (1, 2, 4, 8, 16)
#: Seconds apart at which themes of performances return; up to twice as many are looked at.
LAG_SECONDS = 8.0

#: Ten bins a decade from 10 ms to 10 s, none narrower than 10 ms, one below and one above. What is
#: rounded to hundredths of a second stays in its bin: music on the grid of tokens fills them all.
_HUNDREDTHS = np.unique(np.floor(10 ** np.linspace(0, 3, 31) + 1e-9))
TIME_EDGES = np.concatenate([[-np.inf, 0.005], (_HUNDREDTHS + 0.5) / 100, [np.inf]])
#: Magenta's 32 velocity bins: 1-4, 5-8, ..., 125-127.
VELOCITY_EDGES = np.arange(0, 33) * 4 + 0.5
PITCH_EDGES = np.arange(0, 129) - 0.5
#: The sixteenths of a bar; the last bin holds what lies beyond the sixteenth of them.
PLACE_EDGES = np.concatenate([np.arange(0, 17) - 0.5, [np.inf]])


class Measure(NamedTuple):
    """``of(score, seconds)`` is the value of an excerpt of so many seconds, in ``unit``."""

    of: Callable[[Score, float], float]
    unit: str


class Distribution(NamedTuple):
    """``of(score)`` are the values of a piece, one a note or so; ``edges`` those of the bins."""

    of: Callable[[Score], np.ndarray]
    edges: np.ndarray


def _of(measure: Callable[[Score], float], unit: str) -> Measure:
    return Measure(lambda score, seconds: measure(score), unit)


def _silent(score: Score, seconds: float) -> float:
    return float(musical.longest_silence(score, seconds) >= DEAD_AIR_SECONDS - musical.ROUNDING)


def _stuck(score: Score) -> float:
    return float(musical.stuck_seconds(score) >= STUCK_SECONDS - musical.ROUNDING)


def _lengths(score: Score) -> np.ndarray:
    notes = pitched(score)
    return notes["end"] - notes["start"]


def _alike(bars: int) -> Measure:
    return _of(lambda score: metre.bar_likeness(score, bars), "0 to 1")


#: Of any music: name -> measure of the notes of an excerpt, counted from its beginning.
MEASURES: dict[str, Measure] = {
    "notes a second": Measure(musical.density, "notes/s"),
    "polyphony": _of(musical.polyphony, "notes"),
    "re-struck notes": _of(musical.restruck, "share"),
    "in scale": _of(musical.scale_consistency, "share"),
    f"self-similarity {LAG_SECONDS:g}-{2 * LAG_SECONDS:g} s": _of(
        lambda score: musical.self_similarity(score, LAG_SECONDS), "0 to 1"
    ),
    "returning runs": _of(musical.returning_runs, "share of notes"),
    f"dead air of {DEAD_AIR_SECONDS:g} s": Measure(_silent, "share of pieces"),
    f"stuck for {STUCK_SECONDS:g} s": _of(_stuck, "share of pieces"),
}
#: Of any music: name -> distribution.
DISTRIBUTIONS: dict[str, Distribution] = {
    "onset intervals": Distribution(lambda score: np.diff(pitched(score)["start"]), TIME_EDGES),
    "note lengths": Distribution(_lengths, TIME_EDGES),
    "velocities": Distribution(lambda score: pitched(score)["velocity"], VELOCITY_EDGES),
    "pitches": Distribution(lambda score: pitched(score)["pitch"], PITCH_EDGES),
}
#: Of music on a grid: name -> measure of the notes of an excerpt where they stand in the piece.
IN_BARS: dict[str, Measure] = {
    "onsets on sixteenths": _of(metre.near_sixteenths, "share"),
    "bass changes on beats 1 or 3": _of(metre.bass_changes_on_strong_beats, "share"),
    "chord tones": _of(harmony.chord_tones, "share of time"),
    "clashes with the top line": _of(harmony.clashes, "share of time"),
    **{f"bars alike, {bars} apart": _alike(bars) for bars in BARS_APART},
}
#: Of music on a grid: name -> distribution.
DISTRIBUTIONS_IN_BARS: dict[str, Distribution] = {
    "places in the bar": Distribution(metre.bar_places, PLACE_EDGES),
}


def on_a_grid(pieces: Sequence[Score]) -> bool:
    """Whether most of ``pieces`` keep to the beats of their files (:mod:`musictx.grid`)."""
    return sum(grid_of(score).kind == "grid" for score in pieces) > len(pieces) / 2


def measure(score: Score, seconds: float, measures: Mapping[str, Measure]) -> dict[str, float]:
    """Every one of ``measures`` of an excerpt of ``seconds``; nan where it has no value."""
    return {name: one.of(score, seconds) for name, one in measures.items()}


def histogram(pieces: Sequence[Score], distribution: Distribution) -> np.ndarray:
    """The mean of the pieces' histograms, each of sum 1.

    Pieces without a value are left out; zeros if none has any."""
    total, counted = np.zeros(len(distribution.edges) - 1), 0
    for piece in pieces:
        values = distribution.of(piece)
        if len(values):
            bins = np.searchsorted(distribution.edges, values, side="right") - 1
            total += np.bincount(bins, minlength=len(total)) / len(values)
            counted += 1
    return total / max(1, counted)


def overlap(p: np.ndarray, q: np.ndarray) -> float:
    """The sum of min(p, q) of two histograms (n,), each divided by its sum: 1 where they are equal,
    0 where they share nothing; nan if one is empty."""
    if not (p.sum() > 0 and q.sum() > 0):
        return np.nan
    return min(1.0, float(np.minimum(p / p.sum(), q / q.sum()).sum()))
