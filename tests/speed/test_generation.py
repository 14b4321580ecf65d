"""Generation by steps in C++ draws the ids of generation over a growing cache."""

from __future__ import annotations

import pytest
import torch

from musictx.sampling import engine
from musictx.sampling.processors import Temperature, TopP
from musictx.speed.step import NativeStep
from musictx.tokens.vocab import BOS
from tests import compiler
from tests.sampling.engines import GREEDY, make
from tests.speed import steps


def both(model, prompt, **more):
    """Ids over a growing cache and by steps in C++, (rows, tokens)."""
    return [
        torch.stack(list(engine.generate(model, prompt, cache=cache, **more)), dim=1).tolist()
        for cache in ("growing", "native")
    ]


@pytest.mark.parametrize("rules", [GREEDY, [Temperature(2.0), TopP(0.8)]], ids=["greedy", "drawn"])
@pytest.mark.parametrize("scheme", ["huang", "rotary", "learned"])
@compiler.needed
def test_the_same_ids_within_the_context(scheme, rules):
    model = make(context=40, scheme=scheme)
    wanted, got = both(model, [BOS, 4, 5, 9], max_tokens=36, seeds=[3, (1, 5), 9], processors=rules)
    assert got == wanted
    assert len({tuple(row) for row in got}) == (1 if rules == GREEDY else 3)


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned"])
@compiler.needed
def test_absolute_positions_are_read_again_where_the_window_is_full(scheme):
    model = make(context=10, scheme=scheme)
    wanted, got = both(model, [BOS, 4], max_tokens=30, seeds=[0, 1])
    assert got == wanted


def test_an_unknown_cache_is_named():
    with pytest.raises(ValueError, match="cache=static: expected one of auto, native"):
        next(engine.generate(make(), [BOS], max_tokens=1, seeds=[0], cache="static"))


@pytest.mark.parametrize(("scheme", "capacity"), [("huang", 6), ("two_d", 13)])
@compiler.needed
@torch.no_grad()
def test_a_cache_that_has_slid_is_taken_over_where_another_was(scheme, capacity):
    """Its tokens go to the slots of their positions; of too many the last remain."""
    model = steps.make(scheme)
    ids = torch.randint(steps.V, (2, 20))
    taken = NativeStep(model, steps.prefilled(model, ids[:1, :9], 9), rows=2, capacity=capacity)
    cache = steps.prefilled(model, ids[:, :15], 20)
    cache.slide(4)  # positions 4..14
    taken.load(cache)
    for token in ids[:, 15:].split(1, dim=1):
        cache.slide(max(0, cache.length - capacity + 1))
        wanted = model(token, cache=cache)[:, 0]
        torch.testing.assert_close(taken(token[:, 0]), wanted, rtol=1e-4, atol=1e-4)
