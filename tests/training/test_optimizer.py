"""Which parameters decay, which Muon steps, how it steps, and the learning rates of a run."""

import copy
import dataclasses
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from musictx.config import OptimConfig
from musictx.errors import ConfigError
from musictx.hydra_config import compose
from musictx.model.transformer import MusicTransformer
from musictx.training import muon
from musictx.training.muon import Muon, orthogonalise
from musictx.training.optimizer import build_optimizer, lr_factor, parameter_groups
from tests.untrained import network


def options(**given) -> dict:
    return dataclasses.asdict(OptimConfig(**{"lr": 0.01, "weight_decay": 0.1} | given))


@pytest.mark.parametrize(("muon", "tied"), [(False, True), (True, False), (True, True)])
def test_each_parameter_is_in_one_group_by_what_it_is(muon, tied):
    intervals = {"name": "intervals", "inputs": [1, 4], "outputs": [1, 4], "pitches": [[4, 12, 60]]}
    position = {"name": "huang", "concat_sinusoids": 4, "periods": [4]}
    net = network(12, layers=2, tied=tied, features=[intervals], position=position)
    net.blocks[1].attention.out.weight.requires_grad_(False)  # what is frozen rests
    more = {"name": "muon" if muon else "adamw", "adamw_lr": 0.5, "table_lr": 4.0}
    share = 0.5 if muon else 1.0
    groups = parameter_groups(net, options(lr=1.0, **more))
    group_of = {id(p): group for group in groups for p in group["params"]}
    assert len(group_of) == sum(len(group["params"]) for group in groups)
    maps = {f"{name}.weight" for name, m in net.named_modules() if isinstance(m, nn.Linear)}
    for name, p in net.named_parameters():
        if p.requires_grad:
            group = group_of.pop(id(p))
            table = name.startswith(("position.tables", "intervals.inputs", "intervals.outputs"))
            is_muons = muon and name in maps and name != "output.weight"
            assert group["weight_decay"] == (0.1 if name in maps else 0.0), name
            split = 3 if name.endswith("qkv.weight") else 1
            assert group["split"] == (split if is_muons else 0), name
            assert group["lr"] == (1.0 if is_muons else share * (4.0 if table else 1.0)), name
    assert not group_of
    assert len(parameter_groups(net, options())) == 2, "as ever where nothing is asked"


def weights(optim, steps=5):
    """Of a small network after some steps with a rate that changes, by the options ``optim``."""
    net = model()
    optimizer = build_optimizer(net, dataclasses.asdict(optim), fused=False)
    for _ in range(steps):
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        losses(net, optimizer, 1)
    return {name: p.detach().clone() for name, p in net.named_parameters()}


def test_the_same_optimizer_as_a_class_of_ones_own_takes_the_same_steps():
    ours = OptimConfig(lr=0.1, weight_decay=0.2, table_lr=1.0)
    chosen = ["optim=noam", "optim._target_=torch.optim.AdamW", "optim.eps=1e-8"]
    assert compose(chosen).optim.params == {"eps": 1e-8}, "without the betas of the preset"
    own = compose([*chosen, "optim.betas=[0.9,0.98]"]).optim
    own = replace(ours, name=own.name, params=own.params)
    same, other = weights(own), weights(replace(own, params=own.params | {"eps": 0.1}))
    for name, value in weights(ours).items():
        assert torch.equal(value, same[name])
        assert not torch.equal(value, other[name])
    with pytest.raises(ConfigError, match=r"^optim\.momentum: "):
        compose(["optim.momentum=0.9"])


@pytest.mark.parametrize(
    ("name", "params", "sentence"),
    [
        ("sgd", {}, "optim.name=sgd: "),
        ("torch.optim:SDG", {}, "optim.name=torch.optim:SDG: "),
        ("torch.optim:SGD", {"speed": 1}, "optim.name=torch.optim:SGD: "),
        ("torch.nn:Linear", {"out_features": 1}, "optim.name=torch.nn:Linear: "),
        ("unittest.mock:Mock", {}, "optim.name=unittest.mock:Mock: expected a torch.optim."),
    ],
)
def test_what_is_no_optimizer_is_one_sentence(name, params, sentence):
    with pytest.raises(ConfigError) as caught:
        weights(OptimConfig(lr=1.0, name=name, params=params))
    assert str(caught.value).startswith(sentence)


def model() -> MusicTransformer:
    return network(20, layers=2, width=16, feedforward=32, context=8, tied=False).train()


def losses(net, optimizer, steps: int) -> list[float]:
    """The losses of some steps, on the same music in each."""
    values = []
    ids = torch.randint(4, 20, (3, 8), generator=torch.Generator().manual_seed(1))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    return values


@pytest.mark.parametrize("shape", [(40, 64), (64, 40)])
def test_singular_vectors_stay_and_their_values_come_near_one(shape):
    given = torch.randn(3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    u, _, v = torch.linalg.svd(given, full_matrices=False)
    rotated = u.mT @ orthogonalise(given) @ v.mT
    values = rotated.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(rotated, torch.diag_embed(values), atol=1e-9, rtol=0)
    assert 0.6 < values.min() <= values.max() < 1.3
    assert not orthogonalise(torch.zeros(1, *shape)).any()


@pytest.mark.parametrize("faster", [True, False], ids=["bfloat16", "float32"])
def test_float32_is_near_the_exact_result_on_every_device(faster, monkeypatch):
    monkeypatch.setattr(muon, "multiplies_bfloat16", lambda device: faster)
    given = torch.randn(2, 64, 48, generator=torch.Generator().manual_seed(4))
    exact = orthogonalise(given.double())
    error = float((orthogonalise(given).double() - exact).norm() / exact.norm())
    assert error < (0.03 if faster else 1e-5)
    assert error > (1e-4 if faster else 0), "bfloat16 was not used"


def test_a_step_is_the_formula_written_out():
    p = nn.Parameter(torch.randn(6, 4, dtype=torch.float64))
    before = p.detach().clone()
    optimizer = Muon([{"params": [p], "split": 3, "weight_decay": 0.1}], lr=0.01, momentum=0.9)
    total = torch.zeros_like(p)
    for _ in range(2):
        gradient = torch.randn_like(p)
        p.grad = gradient.clone()
        optimizer.step()
        total = 0.9 * total + gradient
        ahead = gradient + 0.9 * total
        step = torch.cat([orthogonalise(part[None])[0] for part in ahead.split(2)])
        before = before * (1 - 0.01 * 0.1) - 0.01 * 0.2 * 4**0.5 * step
    torch.testing.assert_close(p.detach(), before)


def test_without_matrices_it_is_adamw():
    of_muon, of_adamw = (model(), model())
    groups, same_groups = (parameter_groups(net, options()) for net in (of_muon, of_adamw))
    adamw = torch.optim.AdamW(same_groups)
    assert losses(of_muon, Muon(groups), 4) == losses(of_adamw, adamw, 4)


def test_it_learns_and_a_saved_state_continues_bit_for_bit():
    net, settings = model(), options(name="muon", lr=0.02, weight_decay=0.01)
    optimizer = Muon(parameter_groups(net, settings))
    first = losses(net, optimizer, 10)
    assert first[-1] < first[0] - 0.3
    other = copy.deepcopy(net)
    resumed = Muon(parameter_groups(other, settings))
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert losses(net, optimizer, 3) == losses(other, resumed, 3)


@settings(max_examples=60)
@given(st.integers(1, 400), st.integers(0, 500), st.sampled_from(["cosine", "rsqrt", "constant"]))
def test_the_rate_rises_and_then_follows_its_formula(total, warmup, kind):
    peak = max(warmup, 1)
    for done in range(1, total + 6):
        share = min(max(done - peak, 0) / max(total + 1 - peak, 1), 1.0)
        fall = {"cosine": 0.5 + 0.5 * math.cos(math.pi * share), "rsqrt": (peak / done) ** 0.5}
        want = done / peak if done < peak else fall.get(kind, 1.0)
        assert lr_factor(done - 1, total=total, warmup=warmup, kind=kind) == pytest.approx(want)


def test_by_the_clock_the_rise_ends_after_its_steps_or_a_tenth_of_the_time():
    def rate(step, time_used, warmup=100, kind="cosine"):
        return lr_factor(step, total=-1, warmup=warmup, kind=kind, time_used=time_used)

    assert rate(0, 0.0) == pytest.approx(0.01)
    for step, share in ((99, 0.001), (3, 0.1)):
        assert rate(step, share, kind="constant") == 1.0
    for share, expected in ((0.5, 0.5), (1.0, 0.0), (7.0, 0.0)):
        assert rate(500, share, warmup=10) == pytest.approx(expected)
