"""Models, and steps over a cache that grows, for the tests of the step in C++."""

from __future__ import annotations

from typing import Any

import torch

from musictx.model import KVCache, MusicTransformer
from tests.model.schemes import GRID, position

V = 24
SCHEMES: dict[str, dict[str, Any]] = {
    "huang": {},
    "huang_shared": {"name": "huang", "shared": True},
    "huang_clipped": {"name": "huang", "max_distance": 5},
    "huang_local": {"block": 4},
    "shaw": {"max_distance": 6},
    "transformer_xl": {},
    "rotary": {},
    "sinusoidal": {},
    "learned": {},
    "alibi": {},
    "t5": {"max_distance": 32},
    "none": {},
    "two_d": {},
    GRID: {},
}
INTERVALS = {"name": "intervals", "inputs": [1, 4], "outputs": [1, 3], "pitches": [[6, 12, 60]]}


def make(scheme: str, *, context: int = 32, tied: bool = True, heads: int = 4) -> MusicTransformer:
    torch.manual_seed(0)
    where = position(**{"name": scheme, "vocab": V} | SCHEMES.get(scheme, {}))
    model = MusicTransformer(
        V, layers=2, width=32, heads=heads, feedforward=48, context=context, dropout=0.4, tied=tied,
        position=where, features=[INTERVALS] if scheme in ("none", GRID) else [],
    ).eval()  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(0.02 * torch.randn_like(parameter))
    return model


def ordinary(model: MusicTransformer, ids: torch.Tensor, prompt: int, window: int) -> torch.Tensor:
    """Logits after ids prompt - 1, prompt, ...: the cache slides by one where it is full."""
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=window)
        found = [model(ids[:, :prompt], cache=cache)[:, -1]]
        for token in ids[:, prompt:].split(1, dim=1):
            if cache.length == window:
                cache.slide(1)
            found.append(model(token, cache=cache)[:, -1])
    return torch.stack(found, dim=1)


def prefilled(model: MusicTransformer, ids: torch.Tensor, window: int) -> KVCache:
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=window)
        model(ids, cache=cache)
    return cache
