"""Learning rates at the edges."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.training.schedule import multiplier, multiplier_by_time

KINDS = ("cosine", "rsqrt", "constant")
RUNS = st.tuples(st.integers(1, 400), st.integers(0, 500), st.sampled_from(KINDS))


@settings(max_examples=60, deadline=None)
@given(RUNS)
def test_the_rate_rises_then_never_rises_again_and_stays_between_0_and_1(run):
    total, warmup, kind = run
    rates = [multiplier(s, total=total, warmup=warmup, kind=kind) for s in range(total + 5)]
    peak = max(warmup, 1) - 1
    assert all(0 <= r <= 1 for r in rates)
    assert all(a < b for a, b in pairwise(rates[: peak + 1]))
    assert all(a >= b for a, b in pairwise(rates[peak:]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_step_is_not_wasted_and_the_peak_is_where_the_warmup_ends(kind):
    rates = [multiplier(step, total=100, warmup=10, kind=kind) for step in (0, 8, 9)]
    assert rates == pytest.approx([0.1, 0.9, 1.0])
    assert multiplier(0, total=100, warmup=0, kind=kind) == 1.0


def test_after_the_peak_the_rate_follows_its_formula():
    for step in (10, 50, 99, 100, 10_000):
        rate = multiplier(step, total=100, warmup=10, kind="cosine")
        share = min((step - 9) / 91, 1.0)
        assert rate == pytest.approx(0.5 + 0.5 * math.cos(math.pi * share))
    assert multiplier(399, total=10**6, warmup=100, kind="rsqrt") == pytest.approx(0.5)


def test_by_the_clock_the_rise_ends_after_its_steps_or_a_tenth_of_the_time():
    assert multiplier_by_time(0, 0.0, warmup=100) == pytest.approx(0.01)
    for step, share in ((99, 0.001), (3, 0.1)):
        assert multiplier_by_time(step, share, warmup=100, kind="constant") == 1.0
    for share, rate in ((0.5, 0.5), (1.0, 0.0), (7.0, 0.0)):
        assert multiplier_by_time(500, share, warmup=10) == pytest.approx(rate)
