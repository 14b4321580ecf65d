"""The step of fixed shapes equals the ordinary cached one, for every scheme that has it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.model import static
from musictx.model.static import StaticDecoder
from musictx.model.transformer import MusicTransformer
from tests.model.schemes import position

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
    "t5": {"max_distance": 12, "buckets": 8},
    "none": {},
}


def make(scheme: str, *, context: int = 32, tied: bool = True, heads: int = 4) -> MusicTransformer:
    torch.manual_seed(0)
    where = position(**{"name": scheme, "vocab": V} | SCHEMES.get(scheme, {}))
    model = MusicTransformer(
        V, layers=2, width=32, heads=heads, feedforward=48, context=context, dropout=0.4, tied=tied,
        position=where,
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


def stepped(model: MusicTransformer, ids: torch.Tensor, prompt: int, window: int) -> torch.Tensor:
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=window)
        found = [model(ids[:, :prompt], cache=cache)[:, -1]]
    decoder = StaticDecoder(model, rows=len(ids), capacity=window)
    decoder.load(cache)
    for token in ids[:, prompt:].split(1, dim=1):
        found.append(decoder.step(token))
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_equals_the_ordinary_step(scheme: str, tied: bool) -> None:
    model = make(scheme, tied=tied)
    ids = torch.randint(V, (3, 30))
    got, want = stepped(model, ids, 7, 32), ordinary(model, ids, 7, 32)
    assert (got - want).norm() < 1e-6 * want.norm()
    assert torch.equal(got.argmax(-1), want.argmax(-1))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_full_ring_is_a_window_that_slides_by_one(scheme: str) -> None:
    """Far past the capacity: each slot has been written over several times."""
    model = make(scheme, context=64).double()
    ids = torch.randint(V, (2, 50))
    torch.testing.assert_close(
        stepped(model, ids, 5, 11), ordinary(model, ids, 5, 11), rtol=1e-6, atol=1e-6
    )


@settings(max_examples=25, deadline=None)
@given(
    scheme=st.sampled_from(sorted(SCHEMES)),
    prompt=st.integers(1, 12),
    more=st.integers(1, 20),
    spare=st.integers(0, 9),
    rows=st.integers(1, 3),
)
def test_any_prompt_and_capacity(
    scheme: str, prompt: int, more: int, spare: int, rows: int
) -> None:
    model = make(scheme).double()
    ids = torch.randint(V, (rows, prompt + more))
    window = prompt + spare
    got, want = (how(model, ids, prompt, window) for how in (stepped, ordinary))
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_a_cache_that_has_slid_is_taken_over() -> None:
    """Its tokens go to the slots of their positions; of too many the last remain."""
    model = make("huang").double()
    ids = torch.randint(V, (2, 20))
    with torch.no_grad():
        cache = model.new_cache(rows=2, capacity=20)
        model(ids[:, :15], cache=cache)
        cache.slide(4)  # positions 4..14
        decoder = StaticDecoder(model, rows=2, capacity=13)
        decoder.load(cache)
        assert decoder.position.item() == 15
        small = StaticDecoder(model, rows=2, capacity=6)
        small.load(cache)
        again = model.new_cache(rows=2, capacity=20)
        model(ids[:, :15], cache=again)
        for token in ids[:, 15:17].split(1, dim=1):
            cache.slide(0)
            wide = model(token, cache=cache)[:, -1]
            again.slide(again.length - 5)
            torch.testing.assert_close(small.step(token), model(token, cache=again)[:, -1])
            torch.testing.assert_close(decoder.step(token), wide)


def test_one_prompt_serves_all_rows_and_a_decoder_begins_anew() -> None:
    model = make("huang")
    ids = torch.randint(V, (1, 6))
    with torch.no_grad():
        cache = model.new_cache(rows=1, capacity=16)
        model(ids, cache=cache)
        alone, three = (StaticDecoder(model, rows=n, capacity=16) for n in (1, 3))
        for _ in range(2):
            for decoder in (alone, three):
                decoder.load(cache)
            one, many = alone.step(ids[:, :1]), three.step(ids[:, :1].expand(3, 1))
            torch.testing.assert_close(many, one.expand(3, -1), rtol=1e-5, atol=1e-5)
            assert alone.position.item() == 7


def test_half_precision_stays_within_its_rounding() -> None:
    model = make("huang").bfloat16()
    ids = torch.randint(V, (2, 20))
    got, want = stepped(model, ids, 4, 32), ordinary(model, ids, 4, 32)
    exact = ordinary(make("huang").double(), ids, 4, 32)
    assert got.dtype == torch.float32
    assert (got - exact).norm() < 1.5 * (want - exact).norm()


def test_what_has_no_static_step_is_named() -> None:
    with pytest.raises(ValueError, match="position=two_d reads time and pitch"):
        StaticDecoder(make("two_d"), rows=1, capacity=8)
    with pytest.raises(ValueError, match=r"kernel=True: it knows heads of 16, .* not 8"):
        StaticDecoder(make("huang"), rows=1, capacity=8, kernel=True)
    assert static.why_not(make("huang")) is None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("scheme", ["huang", "rotary", "sinusoidal", "shaw"])
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

    decoder, plain = (StaticDecoder(model, rows=2, capacity=9) for _ in range(2))
    step = torch.compile(decoder.step, fullgraph=True, backend=counting, dynamic=False)
    for token in ids.split(1, dim=1):
        torch.testing.assert_close(step(token), plain.step(token), rtol=1e-6, atol=1e-6)
    assert len(traced) == 1
