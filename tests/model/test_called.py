"""Submodules are called as modules, so that wrappers and hooks have an effect, and thus pruning,
parametrizations, quantised layers and sharding, too."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from musictx import bundle, shipped
from musictx.attention import RelativeAttention
from musictx.attention.positions import PositionScheme
from musictx.model.transformer import MusicTransformer
from musictx.sampling import engine
from musictx.speed import step
from tests import compiler, untrained
from tests.model.models import VOCAB, in_parts, random_ids

#: Runs a network on a fixed input.
Run = Callable[[nn.Module], Tensor]


def layer() -> tuple[nn.Module, Run]:
    torch.manual_seed(0)
    x, memory = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    return RelativeAttention(16, 2, causal=False), lambda built: built(x, memory)


def network() -> tuple[nn.Module, Run]:
    """With every kind of submodule: an untied output matrix, positions added to embeddings, etc."""
    position = {"name": "huang", "concat_sinusoids": 4, "periods": [3]}
    more = {"position": position, "tied": False, "gates": True, "first_values": True}
    model = untrained.network(VOCAB, layers=2, width=16, feedforward=32, context=24, **more)
    ids = random_ids(2, 7)
    return model, lambda built: built(ids)


BUILDERS = {"layer over memory": layer, "network": network}


class Wrapper(nn.Sequential):
    """Has no weight itself, like the layers of low-rank adaptation."""


def wrap(model: nn.Module) -> None:
    for name, linear in list(model.named_modules()):
        if isinstance(linear, nn.Linear):
            model.set_submodule(name, Wrapper(linear))


class Negated(PositionScheme):
    def rotate(self, q, k, query_positions, key_positions):
        return -q, -k


def shipped_model(name: str) -> tuple[nn.Module, Run]:
    model = bundle.load(shipped.models()[name]).model
    ids = torch.randint(model.config.vocab_size, (1, 10))
    return model, lambda built: built(ids)


@pytest.mark.parametrize("name", [*BUILDERS, *shipped.models()])
def test_hooks_run_for_each_submodule(name: str) -> None:
    model, run = BUILDERS[name]() if name in BUILDERS else shipped_model(name)
    wrap(model)
    called: list[str] = []
    kinds = nn.Linear | nn.Embedding | nn.LayerNorm
    parts = {name: m for name, m in model.named_modules() if isinstance(m, kinds)}
    for part, module in parts.items():
        module.register_forward_hook(lambda *_, part=part: called.append(part))
    with torch.no_grad():
        out = run(model)
    assert set(called) == set(parts)
    assert name not in BUILDERS or len(called) == len(parts), "once"
    if name == "network":
        torch.testing.assert_close(in_parts(model, random_ids(2, 7), [4]), out)


ALTERED: dict[str, Callable[[Any], object]] = {
    "wrapped": wrap,
    "hooked": lambda m: m.blocks[1].register_forward_hook(lambda _module, _inputs, out: -out),
    "pruned": lambda m: prune.random_unstructured(m.blocks[0].attention.qkv, "weight", amount=0.9),
    "parametrized": lambda m: parametrizations.spectral_norm(m.output),
    "replaced": lambda m: m.blocks[0].feedforward.__setitem__(1, nn.ReLU()),
    "another forward": lambda m: setattr(m.blocks[1], "forward", m.blocks[0].forward),
    "another class": lambda m: setattr(m, "__class__", type("Wider", (MusicTransformer,), {})),
    "another scheme": lambda m: setattr(m, "position", Negated(m.position.sizes)),
    "float64": lambda m: m.double(),
}


@compiler.needed
@pytest.mark.parametrize("way", ALTERED)
def test_altered_networks_do_not_use_the_step_in_cpp(way: str) -> None:
    """The step only reads weights and calls no modules, so it would ignore the change."""
    model, _ = network()
    assert isinstance(model, MusicTransformer)
    assert step.why_not(model) is None
    ALTERED[way](model)
    assert step.why_not(model)
    with pytest.raises(ValueError, match="NativeStep"):
        step.NativeStep(model, model.new_cache(1, 4), rows=1, capacity=4)
    assert engine.cache_name("auto", model) == "growing"
