"""A ring of slots instead of a growing cache: the same logits, for every scheme."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.model import KVCache, MusicTransformer
from musictx.speed.ring import RingCache
from tests.chorale.features import test_grid
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


def stepped(model: MusicTransformer, ids: torch.Tensor, prompt: int, window: int) -> torch.Tensor:
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=window)
        found = [model(ids[:, :prompt], cache=cache)[:, -1]]
        ring = RingCache(cache, rows=len(ids), capacity=window)
        for token in ids[:, prompt:].split(1, dim=1):
            found.append(model(token, cache=ring)[:, -1])
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=6, deadline=None)
@given(
    prompt=st.integers(1, 12),
    more=st.integers(1, 40),
    spare=st.integers(0, 9),
    rows=st.integers(1, 3),
    tied=st.booleans(),
)
def test_equals_the_ordinary_step(
    scheme: str, prompt: int, more: int, spare: int, rows: int, tied: bool
) -> None:
    """Also far past the capacity, where it is a window that slides by one: each slot has been
    written over several times."""
    model = make(scheme, context=64, tied=tied).double()
    ids = torch.randint(V, (rows, prompt + more))
    window = prompt + spare
    got, want = (how(model, ids, prompt, window) for how in (stepped, ordinary))
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_half_precision_stays_within_its_rounding() -> None:
    model = make("huang").bfloat16()
    ids = torch.randint(V, (2, 20))
    got, want = stepped(model, ids, 4, 32), ordinary(model, ids, 4, 32)
    exact = ordinary(make("huang").double(), ids, 4, 32)
    assert got.dtype == torch.float32
    assert (got - exact).norm() < 1.5 * (want - exact).norm()


@pytest.mark.parametrize("held", [3, 8, 20])
@pytest.mark.parametrize("count", [1, 4, 7])
def test_earlier_ids_are_those_that_are_held(held: int, count: int) -> None:
    """As from a plain list, with -1 for what no query of the next token looks back on."""
    model = make("none")
    ids = torch.randint(V, (2, 20))
    cache = prefilled(model, ids[:, :held], 20)
    ring = RingCache(cache, rows=2, capacity=6)
    window = ids[:, max(0, held - 5) : held]  # the next token takes the sixth slot
    wanted = torch.full((2, count), -1)
    wanted[:, max(0, count - window.shape[1]) :] = window[:, -count:]
    assert torch.equal(ring.earlier(count), wanted)


def test_misuse_is_named() -> None:
    model = make("huang")
    with pytest.raises(ValueError, match="holds tokens, not 2 rows of 0 tokens"):
        RingCache(model.new_cache(rows=2, capacity=4), rows=2, capacity=4)
    cache = prefilled(model, torch.randint(V, (2, 3)), 4)
    with pytest.raises(ValueError, match="a cache of 1 or 3 rows"):
        RingCache(cache, rows=3, capacity=4)
    with pytest.raises(ValueError, match="2 tokens at once, expected one"):
        model(torch.randint(V, (2, 2)), cache=RingCache(cache, rows=2, capacity=4))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("scheme", ["huang", "rotary", "shaw", "two_d", GRID])
def test_one_graph_holds_the_step(scheme: str, backend: str) -> None:
    """No break and nothing of the position in the graph: it is traced once for all positions."""
    torch._dynamo.reset()
    model = make(scheme)
    ids = torch.randint(V, (2, 30))
    traced = []

    def counting(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        traced.append(graph)
        from torch._dynamo.backends.debugging import aot_eager

        return graph if backend == "eager" else aot_eager(graph, inputs)

    cache = prefilled(model, ids[:, :3], 9)
    ring, plain = (RingCache(cache, rows=2, capacity=9) for _ in range(2))

    @torch.no_grad()
    def step(token: torch.Tensor) -> torch.Tensor:
        return model(token, cache=ring)

    compiled = torch.compile(step, fullgraph=True, backend=counting, dynamic=False)
    with torch.no_grad():
        for token in ids[:, 3:].split(1, dim=1):
            want = model(token, cache=plain)
            torch.testing.assert_close(compiled(token), want, rtol=1e-6, atol=1e-6)
    assert len(traced) == 1


def test_features_of_voices_are_told_the_same() -> None:
    found, ids = test_grid.model(), test_grid.music(2, 5)
    with torch.no_grad():
        whole = found(ids)
        cache = found.new_cache(2, 96)
        found(ids[:, :60], cache=cache)
        ring = RingCache(cache, rows=2, capacity=96)
        for at in range(60, ids.shape[1]):
            step = found(ids[:, at : at + 1], cache=ring)
            torch.testing.assert_close(step[:, 0], whole[:, at])
