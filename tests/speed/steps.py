"""Models, and steps over a cache that grows, for the tests of the step in C++."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from musictx import config
from musictx.model import KVCache, MusicTransformer
from musictx.model.rounding import restored, rounded
from musictx.speed.step import NativeStep
from tests.model.models import GRID, position_of

#: Relative to the norm of the logits: in float32; of bytes, whose inputs are rounded to 1 part in
#: 65,000 of the largest, so that of the keys and values that they make one in a hundred numbers
#: falls to the next whole one; and where what it is compared with does not round keys and values.
#: A wrong slot or scale is off by 0.1 and more.
CLOSE, CLOSE_IN_BYTES, ROUNDED = 1e-5, 3e-3, 2e-2
V = 24
SCHEMES: dict[str, dict[str, Any]] = {name: {} for name in (*config.SCHEMES, GRID)} | {
    "huang_shared": {"name": "huang", "shared": True},
    "huang_clipped": {"name": "huang", "max_distance": 5},
    "huang_local": {"block": 4},
    "shaw": {"max_distance": 6},
    "t5": {"max_distance": 32},
}
INTERVALS = {"name": "intervals", "inputs": [1, 4], "outputs": [1, 3], "pitches": [[6, 12, 60]]}


def make(scheme: str = "huang", **more: Any) -> MusicTransformer:
    """A model with random numbers everywhere; ``more`` are other arguments than those here."""
    torch.manual_seed(0)
    where = position_of(**{"name": scheme, "vocab": V} | SCHEMES.get(scheme, {}))
    shape = {"layers": 2, "width": 32, "heads": 4, "feedforward": 48, "context": 32, "dropout": 0.4}
    features = [INTERVALS] if scheme in ("none", GRID) else []
    model = MusicTransformer(
        **{"vocab_size": V, "position": where, "features": features} | shape | more
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(0.05 * torch.randn_like(parameter))
    return model


def stepped(model: MusicTransformer, ids: Tensor, prompt: int, window: int) -> Tensor:
    """Logits after ids prompt - 1, prompt, ..., by steps in C++."""
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=window)
        found = [model(ids[:, :prompt], cache=cache)[:, -1]]
        step = NativeStep(model, cache, rows=len(ids), capacity=window)
        found += [step(token).clone() for token in ids[:, prompt:].unbind(1)]
    return torch.stack(found, dim=1)


def same(got: Tensor, want: Tensor, close: float = CLOSE) -> None:
    assert (got - want).norm() < close * want.norm()


def of_bytes(model: MusicTransformer) -> MusicTransformer:
    """The model with the weights that a folder of bytes would give it."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(restored(*rounded(parameter)))
    return model


def ordinary(model: MusicTransformer, ids: Tensor, prompt: int, window: int) -> Tensor:
    """Logits after ids prompt - 1, prompt, ...: the cache slides by one where it is full."""
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=window)
        found = [model(ids[:, :prompt], cache=cache)[:, -1]]
        for token in ids[:, prompt:].split(1, dim=1):
            if cache.length == window:
                cache.slide(1)
            found.append(model(token, cache=cache)[:, -1])
    return torch.stack(found, dim=1)


def prefilled(model: MusicTransformer, ids: Tensor, window: int) -> KVCache:
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=window)
        model(ids, cache=cache)
    return cache
