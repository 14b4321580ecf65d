"""How far two sets of pieces are apart: overlap and divergence of what they measure.

Two densities are compared on one grid that both share, by overlap and KL as Yang and Lerch do (On
the evaluation of generative models in music, 2020; their mgeval computes KL with each density on a
grid of its own, which compares different places):

- a metric with one value a piece: Gaussian kernels on :data:`POINTS` points over the values of both
  sets, of one bandwidth h = 1.06 s n^(-1/5) (Silverman 1986), s the standard deviation and n the
  mean number of values of the two sets;
- a quantity with a value a note: histograms on the fixed edges below, made for each piece and
  averaged over the pieces, so that a dense piece does not speak for the set.

overlap   sum of min(p, q): 1 for equal densities, 0 for apart ones
kl        sum of p log(p / q), nats, p the first set, after (1 - e) p + e / points with
          e = :data:`SMOOTHING` on both: finite, 0 only for equal densities

Two samples of one population are not at 1 and 0 either. What is attainable is the distance of two
sets of real pieces of the same number and length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from musictx.evaluate.musical import METRICS, Metric, onset_intervals, pitched
from musictx.notes import Score

#: Points of the grid of kernel densities.
POINTS = 256
#: The share of the even distribution mixed in before KL.
SMOOTHING = 1e-3

#: Ten bins a decade from 10 ms to 10 s, none narrower than 10 ms, one below and one above. What is
#: rounded to hundredths of a second stays in its bin: music on the grid of tokens fills them all.
_HUNDREDTHS = np.unique(np.floor(10 ** np.linspace(0, 3, 31) + 1e-9))
TIME_EDGES = np.concatenate([[-np.inf, 0.005], (_HUNDREDTHS + 0.5) / 100, [np.inf]])
#: Magenta's 32 velocity bins: 1-4, 5-8, ..., 125-127.
VELOCITY_EDGES = np.arange(0, 33) * 4 + 0.5
PITCH_EDGES = np.arange(0, 129) - 0.5
#: Semitones from each note to the next, by onset, then pitch; the outer bins hold the rest.
INTERVAL_EDGES = np.concatenate([[-np.inf], np.arange(-36, 38) - 0.5, [np.inf]])


def _intervals(score: Score) -> np.ndarray:
    return np.diff(pitched(score)["pitch"].astype(int))


def _lengths(score: Score) -> np.ndarray:
    notes = pitched(score)
    return notes["end"] - notes["start"]


#: Name -> (values of a piece, edges of the bins)
DISTRIBUTIONS: dict[str, tuple[Callable[[Score], np.ndarray], np.ndarray]] = {
    "onset intervals": (onset_intervals, TIME_EDGES),
    "note lengths": (_lengths, TIME_EDGES),
    "velocities": (lambda score: pitched(score)["velocity"], VELOCITY_EDGES),
    "pitches": (lambda score: pitched(score)["pitch"], PITCH_EDGES),
    "intervals": (_intervals, INTERVAL_EDGES),
}


class Distance(NamedTuple):
    """``overlap``, 0 to 1, and ``kl`` in nats (see the top of the file); nan if a set is empty."""

    overlap: float
    kl: float


def distance(p: np.ndarray, q: np.ndarray) -> Distance:
    """Of two densities on one grid, (n,) each, not negative; they are normalised first."""
    if not (p.sum() > 0 and q.sum() > 0):
        return Distance(np.nan, np.nan)
    p, q = p / p.sum(), q / q.sum()
    overlap = min(1.0, float(np.minimum(p, q).sum()))
    p, q = ((1 - SMOOTHING) * x + SMOOTHING / len(x) for x in (p, q))
    return Distance(overlap, max(0.0, float((p * np.log(p / q)).sum())))


def of_values(a: Sequence[float], b: Sequence[float], *, log: bool = False) -> Distance:
    """Of two sets of one value a piece (nan is left out); ``log``: of log(1 + value)."""
    first, second = (_finite(values, log) for values in (a, b))
    if not (len(first) and len(second)):
        return Distance(np.nan, np.nan)
    both = np.concatenate([first, second])
    width = 1.06 * float(both.std()) * (len(both) / 2) ** -0.2
    width = width if width > 1e-9 * (1 + float(np.abs(both).max())) else 1.0  # all of them equal
    grid = np.linspace(both.min() - 3 * width, both.max() + 3 * width, POINTS)
    p, q = (
        np.exp(-0.5 * ((grid[:, None] - x[None]) / width) ** 2).mean(1) for x in (first, second)
    )
    return distance(p, q)


def _finite(values: Sequence[float], log: bool) -> np.ndarray:
    array = np.asarray(values, float)
    array = array[np.isfinite(array)]
    return np.log1p(array) if log else array


def histogram(pieces: Sequence[Score], name: str) -> np.ndarray:
    """The mean of the pieces' histograms of :data:`DISTRIBUTIONS` ``name``, each of sum 1.

    Pieces without a value are left out; zeros if none has any."""
    values_of, edges = DISTRIBUTIONS[name]
    total, counted = np.zeros(len(edges) - 1), 0
    for piece in pieces:
        values = values_of(piece)
        if len(values):
            bins = np.searchsorted(edges, values, side="right") - 1
            total += np.bincount(bins, minlength=len(total)) / len(values)
            counted += 1
    return total / max(1, counted)


#: How a value counts that is no metric of :mod:`~musictx.evaluate.musical`: a number of notes.
_COUNT = Metric(lambda score, seconds: np.nan, "notes", log=True)


class Row(NamedTuple):
    """One line of the table. ``means`` by set, nan for distributions; ``distances`` from the
    reference by set, none for shares of pieces."""

    name: str
    unit: str
    means: dict[str, float]
    distances: dict[str, Distance]


def table(
    reference: str,
    pieces: Mapping[str, Sequence[Score]],
    values: Mapping[str, Mapping[str, Sequence[float]]],
) -> list[Row]:
    """Every metric and distribution: means of all sets, distances of the others from one.

    reference  the set that the others are compared with (it is p in KL)
    pieces     set -> excerpts of equal length;  values  set -> metric -> a value each piece
    """
    others = [name for name in pieces if name != reference]
    rows = []
    for metric, column in values[reference].items():
        known = METRICS.get(metric, _COUNT)
        finite = {name: _finite(values[name][metric], False) for name in pieces}
        means = {name: float(x.mean()) if len(x) else np.nan for name, x in finite.items()}
        distances = {
            name: of_values(column, values[name][metric], log=known.log)
            for name in others
            if not known.flag
        }
        rows.append(Row(metric, known.unit, means, distances))
    for kind in DISTRIBUTIONS:
        shapes = {name: histogram(scores, kind) for name, scores in pieces.items()}
        distances = {name: distance(shapes[reference], shapes[name]) for name in others}
        rows.append(Row(kind, "distribution", dict.fromkeys(pieces, np.nan), distances))
    return rows
