"""Submodules are called, so that what replaces them, wraps them or hooks into them has its effect:
low-rank adaptation and hooks here, and so pruning, parametrizations, quantised layers, sharding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from musictx import bundle, shipped
from musictx.attention import RelativeAttention
from musictx.model.cache import KVCache
from musictx.model.transformer import MusicTransformer
from musictx.sampling import engine
from musictx.speed import step
from tests import compiler
from tests.model.models import VOCAB, random_ids

#: Computes something of a fixed input with a network.
Run = Callable[[nn.Module], Tensor]


def layer() -> tuple[nn.Module, Run]:
    torch.manual_seed(0)
    x, memory = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    return RelativeAttention(16, 2, causal=False), lambda made: made(x, memory)


def network() -> tuple[nn.Module, Run]:
    """With every kind of submodule: an output matrix of its own, vectors added to embeddings."""
    torch.manual_seed(0)
    position = {"name": "huang", "concat_sinusoids": 4, "periods": [3]}
    model = MusicTransformer(
        VOCAB, layers=2, width=16, heads=2, feedforward=32, context=24, tied=False,
        position=position, gates=True, first_values=True,
    ).eval()  # fmt: skip
    ids = random_ids(2, 7)
    return model, lambda made: made(ids)


MADE = {"layer over memory": layer, "network": network}


class LowRank(nn.Module):
    """``base`` and a product of two thin matrices beside it (Hu et al. 2021); it has no weight."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(0.2 * torch.randn(2, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + x @ self.down.T @ self.up.T
        return out


def wrap(model: nn.Module) -> None:
    for name, linear in list(model.named_modules()):
        if isinstance(linear, nn.Linear):
            model.set_submodule(name, wrapped := LowRank(linear))
            nn.init.normal_(wrapped.up, std=0.1)


def included(name: str) -> tuple[nn.Module, Run]:
    model = bundle.load(shipped.models()[name]).model
    ids = torch.randint(model.config.vocab_size, (1, 10))
    return model, lambda made: made(ids)


@pytest.mark.parametrize("name", [*MADE, *shipped.models()])
def test_hooks_run_for_each_submodule(name: str) -> None:
    model, run = MADE[name]() if name in MADE else included(name)
    called: list[str] = []
    kinds = nn.Linear | nn.Embedding | nn.LayerNorm
    parts = {name: m for name, m in model.named_modules() if isinstance(m, kinds)}
    for part, module in parts.items():
        module.register_forward_hook(lambda *_, part=part: called.append(part))
    with torch.no_grad():
        run(model)
    assert set(called) == set(parts)
    assert name not in MADE or len(called) == len(parts), "once"


def test_thin_matrices_beside_each_layer_count_and_no_cache_asks_a_wrapper_for_weights() -> None:
    model, run = network()
    assert isinstance(model, MusicTransformer)
    before = run(model)
    wrap(model)
    assert not torch.allclose(run(model), before, atol=1e-3)
    ids = random_ids(2, 7)
    cache = model.new_cache(2, 9)
    assert isinstance(cache, KVCache)
    with torch.no_grad():
        parts = [model(ids[:, at], cache=cache) for at in (slice(0, 4), slice(4, 7))]
    torch.testing.assert_close(torch.cat(parts, 1), run(model), rtol=1e-4, atol=1e-5)


ALTERED: dict[str, Callable[[Any], object]] = {
    "wrapped": wrap,
    "hooked": lambda m: m.blocks[1].register_forward_hook(lambda _module, _inputs, out: -out),
    "pruned": lambda m: prune.random_unstructured(m.blocks[0].attention.qkv, "weight", amount=0.9),
    "parametrized": lambda m: parametrizations.spectral_norm(m.output),
    "replaced": lambda m: m.blocks[0].feedforward.__setitem__(1, nn.ReLU()),
    "another forward": lambda m: setattr(m.blocks[1], "forward", m.blocks[0].forward),
}


@compiler.needed
@pytest.mark.parametrize("way", ALTERED)
def test_the_step_in_cpp_leaves_altered_networks_to_torch(way: str) -> None:
    """It reads weights and calls nothing: it would compose with another network."""
    model, _ = network()
    assert isinstance(model, MusicTransformer)
    assert step.why_not(model) is None
    ALTERED[way](model)
    assert step.why_not(model)
    assert engine.chosen("auto", model) == "growing"
