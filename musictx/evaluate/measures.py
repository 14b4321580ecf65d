"""What ``musictx compare`` measures: of each excerpt a number, of a set of them distributions.

Measures of one value an excerpt are compared by their means or, where a few pieces would decide the
mean, by the share of pieces that reach a value. A quantity with a value a note is counted in a
histogram on the fixed edges below, made for each piece and averaged over the pieces, so that a
dense piece does not dominate the set; two sets are compared by the overlap of these, as Yang and
Lerch do (On the evaluation of generative models in music, 2020).

Two samples of one population differ too. What is attainable is the difference of two sets of real
pieces of the same number and length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from musictx import registry
from musictx.data.statistics import ROUNDING, restruck
from musictx.evaluate import musical
from musictx.evaluate.sets import Excerpt
from musictx.grid import grid_of
from musictx.keys import scale_consistency
from musictx.notes import Score, pitched

#: A silence longer than this is dead air, a pattern repeated for longer is stuck, seconds.
DEAD_AIR_SECONDS, STUCK_SECONDS = 5.0, 5.0
#: A piece has runs from this share of the notes of its top line on.
HAS_RUNS = 0.02

#: Ten bins a decade from 10 ms to 10 s, none narrower than 10 ms, one below and one above. What is
#: rounded to hundredths of a second stays in its bin: music on the grid of tokens fills them all.
_HUNDREDTHS = np.unique(np.floor(10 ** np.linspace(0, 3, 31) + 1e-9))
TIME_EDGES = np.concatenate([[-np.inf, 0.005], (_HUNDREDTHS + 0.5) / 100, [np.inf]])
#: Magenta's 32 velocity bins: 1-4, 5-8, ..., 125-127.
VELOCITY_EDGES = np.arange(0, 33) * 4 + 0.5
PITCH_EDGES = np.arange(0, 129) - 0.5


class Measure(NamedTuple):
    """``of(excerpt)`` is the value of an excerpt, in ``unit``; nan where it has none. With
    ``reached`` a set has the share of its pieces whose value is at least that, else the mean."""

    of: Callable[[Excerpt], float]
    unit: str
    reached: float | None = None


class Distribution(NamedTuple):
    """``of(score)`` are the values of a piece, one a note or so; ``edges`` those of the bins."""

    of: Callable[[Score], np.ndarray]
    edges: np.ndarray


def _alone(of: Callable[[Score], float], unit: str, reached: float | None = None) -> Measure:
    """Of the pitched notes of an excerpt, from its beginning."""
    return Measure(lambda excerpt: of(excerpt.alone), unit, reached)


def _lengths(score: Score) -> np.ndarray:
    notes = pitched(score)
    return notes["end"] - notes["start"]


def _runs_given(excerpt: Excerpt) -> float:
    return musical.shared_runs(excerpt.alone, excerpt.given)


_PIECES = "share of pieces"
#: Of any music: name -> measure.
MEASURES: dict[str, Measure] = {
    "notes a second": Measure(lambda one: musical.density(one.alone, one.seconds), "notes/s"),
    "polyphony": _alone(musical.polyphony, "notes"),
    "re-struck notes": _alone(restruck, "share"),
    "in scale": _alone(scale_consistency, "share"),
    "runs of the music given": Measure(_runs_given, "share of notes"),
    "has runs of the music given": Measure(_runs_given, _PIECES, HAS_RUNS),
    "has runs that return": _alone(musical.returning_runs, _PIECES, HAS_RUNS),
    "has towers of 6 notes": _alone(musical.towers, _PIECES, 1),
    f"dead air of {DEAD_AIR_SECONDS:g} s": Measure(
        lambda one: musical.longest_silence(one.alone, one.seconds),
        _PIECES,
        DEAD_AIR_SECONDS - ROUNDING,
    ),
    f"stuck for {STUCK_SECONDS:g} s": _alone(
        musical.stuck_seconds, _PIECES, STUCK_SECONDS - ROUNDING
    ),
}
#: Of any music: name -> distribution.
DISTRIBUTIONS: dict[str, Distribution] = {
    "onset intervals": Distribution(lambda score: np.diff(pitched(score)["start"]), TIME_EDGES),
    "note lengths": Distribution(_lengths, TIME_EDGES),
    "velocities": Distribution(lambda score: pitched(score)["velocity"], VELOCITY_EDGES),
    "pitches": Distribution(lambda score: pitched(score)["pitch"], PITCH_EDGES),
}


def in_bars() -> tuple[dict[str, Measure], dict[str, Distribution]]:
    """The measures and the distributions of music on a grid, where the component that has them is
    there (``registry.IN_BARS``)."""
    if not registry.IN_BARS:
        return {}, {}
    names = ("measures", "distributions")
    measures, distributions = (registry.load(registry.IN_BARS[name]) for name in names)
    return measures, distributions


def on_a_grid(pieces: Sequence[Score]) -> bool:
    """Whether most of ``pieces`` keep to the beats of their files (:mod:`musictx.grid`)."""
    return sum(grid_of(score).kind == "grid" for score in pieces) > len(pieces) / 2


def measure(excerpt: Excerpt, measures: Mapping[str, Measure]) -> dict[str, float]:
    """Every one of ``measures`` of an excerpt; nan where it has no value."""
    return {name: one.of(excerpt) for name, one in measures.items()}


def of_set(values: np.ndarray, measure: Measure) -> float:
    """What a set has of a measure, of whose values nan does not count; nan if there is no other."""
    finite = values[np.isfinite(values)]
    if measure.reached is not None:
        finite = (finite >= measure.reached).astype(float)
    return float(finite.mean()) if len(finite) else np.nan


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
