"""Which parameters decay, which Muon steps, how it steps, and the learning rates of a run."""

import copy
import dataclasses
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from musictx.compose import compose
from musictx.config import OptimConfig
from musictx.errors import ConfigError
from musictx.model.transformer import MusicTransformer
from musictx.training import muon
from musictx.training.muon import Muon, orthogonal
from musictx.training.optimizer import build_optimizer, parameter_groups, set_fused
from musictx.training.schedule import multiplier, multiplier_by_time


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
    model.table.requires_grad_(False)  # what is frozen rests
    assert all(p is not model.table for g in parameter_groups(model, 0.1) for p in g["params"])


@pytest.mark.parametrize("kind", [torch.optim.AdamW, Muon])
def test_steps_of_a_state_made_elsewhere_are_counted_where_the_fused_kernel_looks(kind):
    p = nn.Parameter(torch.zeros(2, 2, device="meta"))
    optimizer = kind([{"params": [p], "muon": kind is Muon}], lr=0.1)
    optimizer.state[p]["step"] = torch.ones(())  # as from a checkpoint of a CPU
    set_fused(optimizer, True)
    assert optimizer.state[p]["step"].device == p.device
    assert optimizer.param_groups[0]["fused"]


def test_tables_of_positions_and_intervals_can_learn_at_a_rate_of_their_own():
    position = {"name": "huang", "concat_sinusoids": 4, "periods": [4]}
    intervals = {"name": "intervals", "inputs": [1, 4], "outputs": [1, 4], "pitches": [[4, 12, 60]]}
    net = MusicTransformer(
        12, layers=2, width=8, heads=2, feedforward=8, context=8, position=position,
        features=[intervals],
    )  # fmt: skip
    names = {id(p): name for name, p in net.named_parameters()}
    apart = [g for g in parameter_groups(net, 0.1, table_lr=4.0) if g["lr_multiplier"] != 1.0]
    assert [g["lr_multiplier"] for g in apart] == [4.0]
    assert [names[id(p)] for p in apart[0]["params"]] == [
        "position.tables.0", "position.tables.1", "intervals.inputs.0", "intervals.inputs.1",
        "intervals.outputs.0", "intervals.outputs.1",
    ]  # fmt: skip
    assert apart[0]["weight_decay"] == 0.0
    everything = [id(p) for g in parameter_groups(net, 0.1, table_lr=4.0) for p in g["params"]]
    assert sorted(everything) == sorted(names)
    assert len(parameter_groups(net, 0.1)) == 2, "as ever where nothing is asked"


def test_every_parameter_is_in_one_group_and_only_hidden_maps_are_muons():
    net = model()
    found = parameter_groups(net, 0.1, muon=True)
    everything = [id(p) for group in found for p in group["params"]]
    assert sorted(everything) == sorted(id(p) for p in net.parameters())
    taken = {id(p): g["split"] for g in found if g["muon"] for p in g["params"]}
    for name, p in net.named_parameters():
        inside = name.startswith("blocks.") and p.dim() == 2
        assert (id(p) in taken) == inside, name
        assert taken.get(id(p), 1) == (3 if name.endswith("qkv.weight") else 1), name


def test_tables_of_distances_learn_at_a_share_of_the_share():
    net = model()
    tables = {id(p) for p in net.position.parameters()}
    assert tables
    for group in parameter_groups(net, 0.1, muon=True, adamw_lr=0.5, table_lr=4.0):
        inside = {id(p) in tables for p in group["params"]}
        assert group["lr_multiplier"] == (1.0 if group["muon"] else 2.0 if True in inside else 0.5)
        assert len(inside) == 1


class NoOptimizer:
    def __init__(self, groups, lr):
        self.groups = groups


def weights(optim, steps=5):
    """Of a small network after some steps with a rate that changes, by the options ``optim``."""
    torch.manual_seed(0)
    net = Everything(tied=False)
    optimizer = build_optimizer(net, dataclasses.asdict(optim), fused=False)
    set_fused(optimizer, False)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        optimizer.zero_grad()
        (
            net.output(net.norm(net.linear(net.embedding.weight))) * (step + 1)
        ).square().sum().backward()
        optimizer.step()
    return {name: p.detach().clone() for name, p in net.named_parameters()}


def test_the_same_optimizer_as_a_class_of_ones_own_takes_the_same_steps():
    ours = OptimConfig(lr=0.1, weight_decay=0.2, table_lr=1.0)
    theirs = {"betas": [0.9, 0.98], "eps": 1e-8}
    own = replace(ours, name="torch.optim:AdamW", params=theirs)
    other = replace(own, params=theirs | {"eps": 0.1})
    for name, value in weights(ours).items():
        assert torch.equal(value, weights(own)[name])
        assert name == "table" or not torch.equal(value, weights(other)[name])


def test_an_optimizer_of_ones_own_is_named_on_the_command_line():
    """A file of one is read as trainer=mine in test_trainer.py."""
    words = ["optim._target_=torch.optim.SGD", "optim.momentum=0.9", "optim.lr=0.5"]
    made = compose(words).optim
    assert made == OptimConfig(name="torch.optim:SGD", lr=0.5, params={"momentum": 0.9})
    assert weights(made).keys() == weights(OptimConfig(lr=0.5)).keys()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["optim.momentum=0.9"], "optim.momentum: "),
        (["optim.name=sgd"], "optim.name=sgd: "),
        (["optim.params.momentum=0.9"], "optim.momentum=0.9: "),
        (["optim._target_=torch.optim.SDG"], "optim.name=torch.optim:SDG: "),
        (["optim._target_=torch.optim.SGD", "optim.speed=1"], "optim.name=torch.optim:SGD: "),
        (["optim._target_=torch.nn.Linear", "optim.out_features=1", "optim.lr=1"],
         "optim.name=torch.nn:Linear: "),
        ([f"optim._target_={__name__}.NoOptimizer"], f"optim.name={__name__}:NoOptimizer: "),
    ],
)  # fmt: skip
def test_what_is_no_optimizer_is_one_sentence(words, sentence):
    with pytest.raises(ConfigError) as caught:
        weights(replace(compose(words).optim, lr=1.0))
    assert str(caught.value).startswith(sentence)


def model() -> MusicTransformer:
    torch.manual_seed(0)
    shape = {"layers": 2, "width": 16, "heads": 2, "feedforward": 32, "context": 8}
    return MusicTransformer(20, **shape, tied=False)


def losses(net, optimizer, steps: int) -> list[float]:
    found = []
    ids = torch.randint(4, 20, (3, 8), generator=torch.Generator().manual_seed(1))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_the_iteration_is_the_polynomial_of_the_singular_values(shape):
    given = torch.randn(3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    u, s, v = torch.linalg.svd(given, full_matrices=False)
    s = s / (s.norm(dim=-1, keepdim=True) + 1e-7)
    for _ in range(muon.STEPS):
        s = muon.A * s + muon.B * s**3 + muon.C * s**5
    torch.testing.assert_close(orthogonal(given), u @ torch.diag_embed(s) @ v, atol=1e-9, rtol=0)


def test_the_result_is_nearly_orthogonal_and_a_zero_matrix_stays_zero():
    given = torch.randn(1, 40, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    s = torch.linalg.svdvals(orthogonal(given))
    assert 0.6 < s.min() <= s.max() < 1.3
    assert not orthogonal(torch.zeros(1, 4, 3)).any()


@pytest.mark.parametrize("faster", [True, False], ids=["bfloat16", "float32"])
def test_float32_is_near_the_exact_result_on_every_device(faster, monkeypatch):
    monkeypatch.setattr(muon, "multiplies_bfloat16", lambda device: faster)
    given = torch.randn(2, 64, 48, generator=torch.Generator().manual_seed(4))
    exact = orthogonal(given.double())
    error = float((orthogonal(given).double() - exact).norm() / exact.norm())
    assert error < (0.03 if faster else 1e-5)
    assert error > (1e-4 if faster else 0), "bfloat16 was not used"


def test_a_step_is_the_formula_written_out():
    p = nn.Parameter(torch.randn(6, 4, dtype=torch.float64))
    before = p.detach().clone()
    optimizer = Muon(
        [{"params": [p], "muon": True, "split": 3, "weight_decay": 0.1}], lr=0.01, momentum=0.9
    )
    total = torch.zeros_like(p)
    for _ in range(2):
        gradient = torch.randn_like(p)
        p.grad = gradient.clone()
        optimizer.step()
        total = 0.9 * total + gradient
        ahead = gradient + 0.9 * total
        step = torch.cat([orthogonal(part[None])[0] for part in ahead.split(2)])
        before = before * (1 - 0.01 * 0.1) - 0.01 * 0.2 * 4**0.5 * step
    torch.testing.assert_close(p.detach(), before)


def test_without_matrices_it_is_adamw():
    one, other = model(), model()
    mine, theirs = parameter_groups(one, 0.1), parameter_groups(other, 0.1)
    assert losses(one, Muon(mine, lr=0.01), 4) == losses(
        other, torch.optim.AdamW(theirs, lr=0.01), 4
    )


def test_it_learns_and_a_saved_state_goes_on_bit_for_bit():
    net = model()
    optimizer = Muon(parameter_groups(net, 0.01, muon=True), lr=0.02)
    first = losses(net, optimizer, 10)
    assert first[-1] < first[0] - 0.3
    other = copy.deepcopy(net)
    again = Muon(parameter_groups(other, 0.01, muon=True), lr=0.02)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert losses(net, optimizer, 3) == losses(other, again, 3)


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
