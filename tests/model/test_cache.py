"""Misuse of the cache, passes that break off, gradients; what it gives: test_laws.py."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from musictx.model.cache import KVCache


def make(capacity: int = 10) -> KVCache:
    return KVCache(layers=2, rows=2, heads=2, capacity=capacity, head_dim=3, coordinates=2)


def fresh(count: int, rows: int = 2) -> Tensor:
    return torch.randn(rows, 2, count, 3)


def put(cache: KVCache, count: int) -> None:
    """Append ``count`` random tokens to all layers."""
    for layer in range(2):
        cache.append(layer, fresh(count), fresh(count))


def test_length_grows_once_a_pass_and_a_broken_pass_leaves_nothing():
    cache = make()
    cache.append(0, fresh(4), fresh(4))
    assert cache.length == 0
    put(cache, 3)  # the pass above broke off; this one starts again
    assert cache.length == 3


def test_gradients_flow_to_the_tokens_of_this_pass_and_not_to_earlier_ones():
    cache = make()
    put(cache, 2)
    k, v = fresh(3).requires_grad_(), fresh(3).requires_grad_()
    keys, values = cache.append(0, k, v)
    (keys.sum() + 2 * values.sum()).backward()
    assert (k.grad == 1).all()
    assert (v.grad == 2).all()
    with torch.no_grad():
        cache.append(1, k, v)
    assert not cache.append(0, fresh(1), fresh(1))[0].requires_grad


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: c.append(1, fresh(1), fresh(1)),  # a layer before the first
        lambda c: [c.append(layer, *[fresh(1 + layer)] * 2) for layer in (0, 1)],
        lambda c: c.append(0, fresh(1, rows=3), fresh(1, rows=3)),
        lambda c: c.append(0, fresh(1), fresh(2)),
        lambda c: put(c, 3),  # more than fit
        lambda c: c.note(torch.zeros(2, 1).long(), torch.zeros(2, 3, 1).long()),
        lambda c: c.slide(3),
        lambda c: c.fork(2),
        lambda c: make(capacity=0),
    ],
)
def test_misuse_is_refused_and_changes_nothing(wrong):
    cache = make(capacity=4)
    put(cache, 2)
    with pytest.raises(ValueError, match=r"expected|fit a capacity of 4"):
        wrong(cache)
    assert cache.length == 2
    cache.slide(1)
    put(cache, 3)
    assert (cache.start, cache.length, cache.next_position) == (1, 4, 5)
