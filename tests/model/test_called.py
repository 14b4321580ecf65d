"""Submodules are called, so that what replaces them, wraps them or hooks into them has its effect:
low-rank adaptation and hooks here, and so pruning, parametrizations, quantised layers, sharding."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from musictx import bundle, shipped
from musictx.attention import RelativeAttention
from musictx.attention.terms import Span
from musictx.model.cache import KVCache
from musictx.model.transformer import MusicTransformer
from musictx.sampling import engine
from musictx.speed import step
from tests import compiler
from tests.model.models import VOCAB, random_ids

#: Computes something of a fixed input with a network.
Run = Callable[[nn.Module], Tensor]


def layer(memory: bool = False) -> tuple[nn.Module, Run]:
    torch.manual_seed(0)
    x, other = torch.randn(2, 7, 16), torch.randn(2, 5, 16) if memory else None
    return RelativeAttention(16, 2, causal=not memory), lambda made: made(x, other)


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


MADE = {"layer": layer, "layer over memory": lambda: layer(True), "network": network}


def linears(model: nn.Module) -> dict[str, nn.Linear]:
    return {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}


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


def adapted(model: nn.Module) -> list[LowRank]:
    """Wraps every linear layer of ``model``."""
    wrapped = []
    for name, linear in linears(model).items():
        wrapped.append(LowRank(linear))
        model.set_submodule(name, wrapped[-1])
    return wrapped


def disturb(wrapped: list[LowRank]) -> None:
    for one in wrapped:
        nn.init.normal_(one.up, std=0.1)


def included(name: str) -> tuple[nn.Module, Run]:
    model = bundle.load(shipped.models()[name]).model
    ids = torch.randint(model.config.vocab_size, (1, 10))
    return model, lambda made: made(ids)


@pytest.mark.parametrize("name", [*MADE, *shipped.models()])
def test_hooks_run_for_each_submodule(name: str) -> None:
    """Every part with parameters that is a layer of torch's, by the name that it has."""
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
    disturb(adapted(model))
    assert not torch.allclose(run(model), before, atol=1e-3)
    ids = random_ids(2, 7)
    cache = model.new_cache(2, 9)
    assert isinstance(cache, KVCache)
    with torch.no_grad():
        parts = [model(ids[:, at], cache=cache) for at in (slice(0, 4), slice(4, 7))]
    torch.testing.assert_close(torch.cat(parts, 1), run(model), rtol=1e-4, atol=1e-5)


def _wrap(model: MusicTransformer) -> None:
    disturb(adapted(model))


def _hook(model: MusicTransformer) -> None:
    model.blocks[1].register_forward_hook(lambda _module, _inputs, out: -out)


def _prune(model: MusicTransformer) -> None:
    prune.random_unstructured(model.blocks[0].attention.qkv, "weight", amount=0.9)


def _parametrize(model: MusicTransformer) -> None:
    parametrizations.spectral_norm(model.output)


def _replace(model: MusicTransformer) -> None:
    model.blocks[0].feedforward[1] = nn.ReLU()


def _compile(model: MusicTransformer) -> None:
    model.blocks[1] = nn.Sequential(model.blocks[1])
    model.blocks[1].forward = model.blocks[1][0].forward


@compiler.needed
@pytest.mark.parametrize("alter", [_wrap, _hook, _prune, _parametrize, _replace, _compile])
def test_the_step_in_cpp_leaves_altered_networks_to_torch(
    alter: Callable[[MusicTransformer], None],
) -> None:
    """It reads weights and calls nothing: it would compose with another network."""
    model, _ = network()
    assert isinstance(model, MusicTransformer)
    assert step.why_not(model) is None
    alter(model)
    assert step.why_not(model)
    assert engine.chosen("auto", model) == "growing"


@pytest.mark.parametrize(
    "shapes", [[(16,)], [(2, 3, 4, 16)], [(2, 5, 8)], [(3, 16), (3, 8)], [(2, 5, 16), (3, 16)]]
)
def test_other_shapes_are_named(shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=re.escape(str(shapes[-1]))):
        RelativeAttention(16, 2)(*(torch.zeros(shape) for shape in shapes))


@pytest.mark.parametrize("scheme", ["huang", "transformer_xl", "rotary", "alibi", "none"])
def test_a_network_computes_shapes_without_numbers(scheme: str) -> None:
    position = {"name": scheme}
    sizes = {"layers": 1, "width": 16, "heads": 2, "feedforward": 8, "context": 9}
    model = MusicTransformer(30, position=position, **sizes).to("meta")
    ids = torch.empty(2, 7, dtype=torch.int64, device="meta")
    assert model(ids).shape == (2, 7, 30)
    cache = model.new_cache(2, 9)
    model(ids, cache=cache)
    out = model(ids[:, :1], cache=cache)
    assert (out.shape, out.device.type) == ((2, 1, 30), "meta")
    assert model(ids, positions=Span(3, 7)).device.type == "meta"
