"""Which parameters decay, which Muon steps, and which learn at a rate of their own."""

import dataclasses
from dataclasses import replace

import pytest
import torch
from torch import nn

from musictx.compose import compose
from musictx.config import OptimConfig
from musictx.errors import ConfigError
from musictx.model.transformer import MusicTransformer
from musictx.training.muon import Muon
from musictx.training.optimizer import build_optimizer, parameter_groups, set_fused
from tests.training.test_muon import model


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
