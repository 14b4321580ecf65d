"""Distances of sets: their bounds, plain loops, and what they must tell apart."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.evaluate import distance as d
from musictx.evaluate.musical import METRICS, measure
from musictx.notes import Score
from tests.strategies import scores

VALUES = st.lists(st.floats(-50, 50) | st.just(math.nan), max_size=8)
DENSITY = st.lists(st.integers(0, 9), min_size=6, max_size=6).filter(any).map(np.array)


@given(DENSITY, DENSITY)
def test_distance_against_a_loop(p, q):
    p, q = p / p.sum(), q / q.sum()
    overlap = kl = 0.0
    for a, b in zip(p, q):
        overlap += min(a, b)
        a, b = ((1 - d.SMOOTHING) * x + d.SMOOTHING / 6 for x in (a, b))
        kl += a * math.log(a / b)
    found = d.distance(10 * p, 3 * q)
    assert found == pytest.approx((overlap, kl), abs=1e-9)
    assert 0 <= found.overlap <= 1
    assert 0 <= found.kl <= math.log(6 / d.SMOOTHING)


@given(VALUES, VALUES, st.booleans())
def test_laws_of_values(a, b, log):
    if log:
        a, b = np.abs(a), np.abs(b)
    found, back = d.of_values(a, b, log=log), d.of_values(b, a, log=log)
    if np.isnan(a).all() or np.isnan(b).all():
        assert math.isnan(found.overlap)
        assert math.isnan(found.kl)
        return
    assert 0 <= found.overlap <= 1
    assert found.overlap == pytest.approx(back.overlap), "symmetric"
    assert found.kl >= 0
    assert d.of_values(a, a, log=log) == pytest.approx((1, 0), abs=1e-9)
    doubled = d.of_values(np.repeat(a, 2), np.repeat(b, 2), log=log)
    assert doubled.overlap <= found.overlap + 0.02, "more values, narrower kernels"


@given(VALUES, st.integers(-20, 20), st.sampled_from([0.01, 1.0, 1000.0]))
def test_the_unit_of_a_metric_does_not_matter(a, shift, unit):
    other = [x + 3 for x in a]
    before = d.of_values(a, other)
    after = d.of_values([(x + shift) * unit for x in a], [(x + shift) * unit for x in other])
    assert after == pytest.approx(before, abs=1e-6, nan_ok=True)


def test_values_against_a_sum_of_kernels_in_a_loop():
    a, b = [1.0, 2.0, 4.0], [2.0, 8.0]
    width = 1.06 * float(np.std([*a, *b])) * 2.5**-0.2
    grid = np.linspace(1 - 3 * width, 8 + 3 * width, d.POINTS)

    def density(values):
        return np.array(
            [sum(math.exp(-(((x - v) / width) ** 2) / 2) for v in values) for x in grid]
        )

    assert d.of_values(a, b) == pytest.approx(d.distance(density(a), density(b)))


def test_far_sets_do_not_overlap_and_equal_constants_do():
    assert d.of_values([0, 0.01, 0.02] * 9, [100, 100.1] * 9).overlap < 0.35
    far = d.of_values(np.linspace(0, 1, 400), np.linspace(9, 10, 400))
    assert far.overlap < 0.02
    assert far.kl > 3
    assert d.of_values([7.0], [7.0, 7.0]) == (1, 0)


def test_two_samples_of_one_population_are_near_two_of_others_are_not():
    rng = np.random.default_rng(0)
    near = d.of_values(rng.normal(0, 1, 500), rng.normal(0, 1, 500))
    apart = d.of_values(rng.normal(0, 1, 500), rng.normal(2, 1, 500))
    assert near.overlap > 0.9
    # Two normals 2 s apart share 2 Phi(-1) = 0.317; the kernels widen both a little.
    assert 0.30 < apart.overlap < 0.42
    assert near.kl < 0.05 < 1 < apart.kl < 2.1  # 2 nats without kernels


@pytest.mark.parametrize("name", d.DISTRIBUTIONS)
@given(pieces=st.lists(scores(), max_size=4))
def test_histograms_against_loops(name, pieces):
    values_of, edges = d.DISTRIBUTIONS[name]
    wanted, counted = [0.0] * (len(edges) - 1), 0
    for piece in pieces:
        values = values_of(piece).tolist()
        counted += bool(values)
        for value in values:
            bins = [i for i in range(len(wanted)) if edges[i] <= value < edges[i + 1]]
            assert len(bins) == 1, "the grid has one bin for every value"
            wanted[bins[0]] += 1 / len(values)
    wanted = [x / max(1, counted) for x in wanted]
    assert d.histogram(pieces, name) == pytest.approx(wanted)
    assert sum(wanted) == pytest.approx(float(counted > 0))


def test_rounding_to_the_token_grid_moves_no_time_to_another_bin():
    times = np.random.default_rng(0).uniform(0, 12, 20000)
    times = times[np.abs(times * 100 % 1 - 0.5) > 1e-6]
    rounded = np.round(times * 100) / 100
    bins, of_rounded = (np.searchsorted(d.TIME_EDGES, t, side="right") for t in (times, rounded))
    assert (bins == of_rounded).all()
    assert set(of_rounded) == set(range(1, len(d.TIME_EDGES))), "every bin is reached"


def piece(seed, high):
    rng = np.random.default_rng(seed)
    starts = np.sort(rng.integers(0, 3000, 60)) / 100
    rows = [(s, s + 0.3, int(rng.integers(40, high)), 80, 0, False, 0) for s in starts.tolist()]
    return Score(notes=rows)


def test_the_table_compares_all_sets_with_the_reference():
    sets = {
        "real": [piece(i, 70) for i in range(12)],
        "like": [piece(100 + i, 70) for i in range(12)],
        "unlike": [piece(200 + i, 100) for i in range(12)] + [Score()],
    }
    measured = {name: [measure(s, 30.0) for s in some] for name, some in sets.items()}
    values = {
        s: {name: [row[name] for row in rows] for name in METRICS} for s, rows in measured.items()
    }
    rows = {row.name: row for row in d.table("real", sets, values)}
    assert list(rows) == [*METRICS, *d.DISTRIBUTIONS]
    for name in ("pitch range", "pitch entropy", "pitches"):
        near, far = (rows[name].distances[s] for s in ("like", "unlike"))
        assert near.overlap > far.overlap
        assert near.kl < far.kl
    assert rows["pitch range"].means["real"] == np.mean(values["real"]["pitch range"])
    assert set(rows["pitches"].distances) == {"like", "unlike"}
    assert math.isnan(rows["pitches"].means["real"])
    again = d.table(
        "real", {"real": sets["real"], "b": sets["real"]}, values | {"b": values["real"]}
    )
    for row in again:
        if row.name in METRICS and METRICS[row.name].flag:
            assert not row.distances, "shares of pieces are compared as they stand"
            continue
        overlap, kl = row.distances["b"]
        assert math.isnan(overlap) or (overlap, kl) == pytest.approx((1, 0), abs=1e-9)
