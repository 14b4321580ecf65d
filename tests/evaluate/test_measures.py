"""What compare measures: histograms, their overlap against plain loops, what is in bars."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.evaluate import measures as m
from tests.strategies import scores

DENSITY = st.lists(st.integers(0, 9), min_size=6, max_size=6).filter(any).map(np.array)
DISTRIBUTIONS = m.DISTRIBUTIONS | m.in_bars()[1]


@given(DENSITY, DENSITY, st.integers(1, 5))
def test_overlap_against_a_loop(p, q, times):
    wanted = sum(min(a / p.sum(), b / q.sum()) for a, b in zip(p, q))
    assert m.overlap(p, q) == pytest.approx(wanted)
    assert m.overlap(p, times * q) == pytest.approx(m.overlap(q, p)), "shares count; symmetric"
    assert m.overlap(p, p) == pytest.approx(1)
    assert math.isnan(m.overlap(p, 0 * q))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@given(pieces=st.lists(scores(), max_size=4))
def test_histograms_against_loops(name, pieces):
    values_of, edges = DISTRIBUTIONS[name]
    wanted, counted = [0.0] * (len(edges) - 1), 0
    for piece in pieces:
        values = values_of(piece).tolist()
        counted += bool(values)
        for value in values:
            bins = [i for i in range(len(wanted)) if edges[i] <= value < edges[i + 1]]
            assert len(bins) == 1, "the grid has one bin for every value"
            wanted[bins[0]] += 1 / len(values)
    wanted = [x / max(1, counted) for x in wanted]
    assert m.histogram(pieces, DISTRIBUTIONS[name]) == pytest.approx(wanted)
    assert sum(wanted) == pytest.approx(float(counted > 0))


def test_rounding_to_the_token_grid_moves_no_time_to_another_bin():
    times = np.random.default_rng(0).uniform(0, 12, 20000)
    times = times[np.abs(times * 100 % 1 - 0.5) > 1e-6]
    rounded = np.round(times * 100) / 100
    bins, of_rounded = (np.searchsorted(m.TIME_EDGES, t, side="right") for t in (times, rounded))
    assert (bins == of_rounded).all()
    assert set(of_rounded) == set(range(1, len(m.TIME_EDGES))), "every bin is reached"
