"""Learning rates at the edges, and which parameters decay."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from musictx.model.transformer import MusicTransformer
from musictx.train.schedule import KINDS, multiplier, multiplier_by_time, parameter_groups

RUNS = st.tuples(st.integers(1, 400), st.integers(0, 500), st.sampled_from(KINDS))


@settings(max_examples=60, deadline=None)
@given(RUNS, st.floats(0, 1))
def test_the_rate_rises_then_never_rises_again_and_stays_between_0_and_1(run, low):
    total, warmup, kind = run
    rates = [
        multiplier(s, total=total, warmup=warmup, kind=kind, min_share=low)
        for s in range(total + 5)
    ]
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


def test_cosine_ends_at_its_lowest_share_right_after_the_last_step():
    def rate(step):
        return multiplier(step, total=100, warmup=10, kind="cosine", min_share=0.2)

    assert rate(100) == pytest.approx(0.2)
    assert rate(99) > 0.2
    assert rate(10_000) == pytest.approx(0.2)
    middle = 9 + (100 - 9) / 2
    assert (rate(math.floor(middle)) + rate(math.ceil(middle))) / 2 == pytest.approx(0.6, abs=1e-3)


def test_the_rate_makes_no_jump():
    for kind in KINDS:
        rates = [multiplier(s, total=1000, warmup=100, kind=kind) for s in range(1001)]
        assert max(abs(a - b) for a, b in pairwise(rates)) <= 0.0101


def test_rsqrt_is_the_inverse_square_root_of_the_step():
    assert multiplier(399, total=10**6, warmup=100, kind="rsqrt") == pytest.approx(0.5)


def test_by_the_clock_the_rise_ends_after_its_steps_or_a_tenth_of_the_time():
    assert multiplier_by_time(0, 0.0, warmup=100) == pytest.approx(0.01)
    by_steps = multiplier_by_time(99, 0.001, warmup=100, kind="constant")
    by_time = multiplier_by_time(3, 0.1, warmup=100, kind="constant")
    assert by_steps == by_time == 1.0


def test_by_the_clock_the_cosine_follows_the_share_of_time_used():
    assert multiplier_by_time(500, 0.5, warmup=10) == pytest.approx(0.5)
    assert multiplier_by_time(500, 1.0, warmup=10, min_share=0.1) == pytest.approx(0.1)
    assert multiplier_by_time(500, 7.0, warmup=10, min_share=0.1) == pytest.approx(0.1)


def test_an_unknown_schedule_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"linear.*cosine, rsqrt, constant"):
        multiplier(0, total=1, kind="linear")


class Everything(nn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.table = nn.Parameter(torch.zeros(2, 3, 4))  # as relative positions are
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.output = nn.Linear(4, 5, bias=False)
        if tied:
            self.output.weight = self.embedding.weight


@pytest.mark.parametrize("tied", [False, True])
def test_only_matrices_of_linear_layers_decay_and_each_parameter_is_in_one_group(tied):
    model = Everything(tied)
    decaying, fixed = parameter_groups(model, 0.1)
    matrices = [model.linear.weight] + ([] if tied else [model.output.weight])
    assert [id(p) for p in decaying["params"]] == [id(p) for p in matrices]
    assert (decaying["weight_decay"], fixed["weight_decay"]) == (0.1, 0.0)
    everything = [id(p) for p in decaying["params"] + fixed["params"]]
    assert sorted(everything) == sorted(id(p) for p in model.parameters())


def test_frozen_parameters_are_left_to_rest():
    model = Everything(tied=False)
    model.table.requires_grad_(False)
    groups = parameter_groups(model, 0.1)
    assert all(p is not model.table for g in groups for p in g["params"])


def test_tables_of_positions_and_intervals_can_learn_at_a_rate_of_their_own():
    position = {"name": "huang", "concat_sinusoids": 4, "periods": [4]}
    intervals = {"inputs": [1, 4], "outputs": [1, 4], "pitches": [[4, 12, 60]]}
    net = MusicTransformer(
        12, layers=2, width=8, heads=2, feedforward=8, context=8, position=position,
        intervals=intervals,
    )  # fmt: skip
    names = {id(p): name for name, p in net.named_parameters()}
    apart = [g for g in parameter_groups(net, 0.1, 4.0) if g.get("lr_multiplier", 1.0) != 1.0]
    assert [g["lr_multiplier"] for g in apart] == [4.0]
    assert [names[id(p)] for p in apart[0]["params"]] == [
        "position.tables.0", "position.tables.1", "intervals.inputs.0", "intervals.inputs.1",
        "intervals.outputs.0", "intervals.outputs.1",
    ]  # fmt: skip
    assert apart[0]["weight_decay"] == 0.0
    everything = [id(p) for g in parameter_groups(net, 0.1, 4.0) for p in g["params"]]
    assert sorted(everything) == sorted(names)
    assert len(parameter_groups(net, 0.1)) == 2, "as ever where nothing is asked"
