"""Small models and random ids for the tests of the model."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from musictx.config.position import SCHEMES
from musictx.model.transformer import MusicTransformer
from tests.untrained import at_random, network, spread

VOCAB = 40
GRID = "two_d on a grid"
every_scheme = pytest.mark.parametrize("scheme", [*sorted(SCHEMES), GRID])


def position_of(name: str, vocab: int, **more: Any) -> dict[str, Any]:
    """The ``position`` of a model. For ``two_d``, a quarter of the ids takes time, another has a
    pitch; for :data:`GRID` it is on a grid of voices, in every layer."""
    if name == GRID:
        pitches = [[vocab // 4, vocab // 2, 60]]
        grid = {"kind": "grid", "voices": 4, "size": vocab, "pitches": pitches}
        return {"name": "two_d", "coordinates": grid, "first_layers": 99}
    found: dict[str, Any] = {"name": name} | more
    if name == "two_d":
        quarter = vocab // 4
        tokens = {"kind": "tokens", "size": vocab, "steps": [[0, quarter, 1]]}
        found["coordinates"] = tokens | {"pitches": [[quarter, 2 * quarter, 60]]}
        found["max_time"] = 20
    return found


def build(scheme: str | dict[str, Any] = "huang", seed: int = 0, **more: Any) -> MusicTransformer:
    position = position_of(scheme, VOCAB) if isinstance(scheme, str) else scheme
    sizes = {"layers": 2, "width": 16, "feedforward": 32, "context": 24} | more
    return spread(network(VOCAB, seed=seed, position=position, **sizes), 2)


def with_feature(vocab: int, name: str, **options: Any) -> MusicTransformer:
    features = [{"name": name} | options]
    model = network(vocab, seed=1, layers=2, width=16, context=64, features=features)
    at_random(getattr(model, name), std=0.3)
    return model.double()


def random_ids(rows: int, count: int, seed: int = 1) -> Tensor:
    return torch.randint(VOCAB, (rows, count), generator=torch.Generator().manual_seed(seed))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-5)


def in_parts(model: MusicTransformer, ids: Tensor, cuts: list[int]) -> Tensor:
    """Logits with a cache, from one forward pass for each part between ``cuts``."""
    cache = model.new_cache(ids.shape[0], ids.shape[1])
    edges = [0, *sorted(set(cuts)), ids.shape[1]]
    with torch.no_grad():
        parts = [model(ids[:, a:b], cache=cache) for a, b in pairwise(edges) if b > a]
    return torch.cat(parts, dim=1)
