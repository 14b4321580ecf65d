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
    def rate(step):
        return multiplier(step, total=100, warmup=10, kind=kind)

    assert rate(0) == pytest.approx(0.1)
    assert rate(9) == 1.0
    assert rate(8) == pytest.approx(0.9)
    assert rate(10) <= 1.0
    assert multiplier(0, total=100, warmup=0, kind=kind) == 1.0


def test_cosine_ends_at_zero_right_after_the_last_step():
    def rate(step):
        return multiplier(step, total=100, warmup=10, kind="cosine")

    assert rate(100) == pytest.approx(0)
    assert rate(99) > 0
    assert rate(10_000) == pytest.approx(0)
    middle = 9 + (100 - 9) / 2
    assert (rate(math.floor(middle)) + rate(math.ceil(middle))) / 2 == pytest.approx(0.5, abs=1e-3)


def test_rsqrt_is_the_inverse_square_root_of_the_step():
    assert multiplier(399, total=10**6, warmup=100, kind="rsqrt") == pytest.approx(0.5)


def test_by_the_clock_the_rise_ends_after_its_steps_or_a_tenth_of_the_time():
    assert multiplier_by_time(0, 0.0, warmup=100) == pytest.approx(0.01)
    by_steps = multiplier_by_time(99, 0.001, warmup=100, kind="constant")
    by_time = multiplier_by_time(3, 0.1, warmup=100, kind="constant")
    assert by_steps == by_time == 1.0


def test_by_the_clock_the_cosine_follows_the_share_of_time_used():
    assert multiplier_by_time(500, 0.5, warmup=10) == pytest.approx(0.5)
    assert multiplier_by_time(500, 1.0, warmup=10) == pytest.approx(0)
    assert multiplier_by_time(500, 7.0, warmup=10) == pytest.approx(0)
