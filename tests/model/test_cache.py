"""The cache against a plain list of tensors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musictx.model.cache import KVCache

LAYERS, HEADS, SIZE, FURTHER = 2, 2, 3, 2


def make(rows: int = 2, capacity: int = 10) -> KVCache:
    return KVCache(
        layers=LAYERS,
        rows=rows,
        heads=HEADS,
        capacity=capacity,
        head_dim=SIZE,
        coordinates=FURTHER,
    )


def fresh(rows: int, count: int) -> Tensor:
    return torch.randn(rows, HEADS, count, SIZE)


def put(cache: KVCache, count: int) -> list[tuple[Tensor, Tensor]]:
    """Append ``count`` random tokens to all layers: what came back for each."""
    return [
        cache.append(layer, fresh(cache.rows, count), fresh(cache.rows, count))
        for layer in range(LAYERS)
    ]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_course_of_appends_slides_and_forks_equals_a_plain_list(data):
    capacity = data.draw(st.integers(1, 12), "capacity")
    cache = make(1, capacity)
    held = [[torch.empty(1, HEADS, 0, SIZE)] * 2 for _ in range(LAYERS)]
    places = torch.empty(1, FURTHER, 0, dtype=torch.int64)
    ids = torch.empty(1, 0, dtype=torch.int64)
    start = 0
    for _ in range(data.draw(st.integers(1, 25), "steps")):
        length = held[0][0].shape[2]
        action = data.draw(st.sampled_from(["append", "append", "slide", "fork"]))
        if action == "append" and length < capacity:
            count = data.draw(st.integers(1, capacity - length), "tokens")
            new_places = torch.randint(100, (cache.rows, FURTHER, count))
            places = torch.cat([places, new_places], dim=2)
            new_ids = torch.randint(100, (cache.rows, count))
            ids = torch.cat([ids, new_ids], dim=1)
            assert torch.equal(cache.note(new_ids, new_places), places)
            for layer in range(LAYERS):
                new = [fresh(cache.rows, count) for _ in range(2)]
                held[layer] = [torch.cat(pair, dim=2) for pair in zip(held[layer], new)]
                keys, values = cache.append(layer, *new)
                assert torch.equal(keys, held[layer][0])
                assert torch.equal(values, held[layer][1])
        elif action == "slide":
            count = data.draw(st.integers(0, length), "drop")
            cache.slide(count)
            held = [[x[:, :, count:] for x in layer] for layer in held]
            places, ids = places[:, :, count:], ids[:, count:]
            start += count
        elif action == "fork" and cache.rows == 1:
            cache = cache.fork(3)
            held = [[x.repeat(3, 1, 1, 1) for x in layer] for layer in held]
            places, ids = places.repeat(3, 1, 1), ids.repeat(3, 1)
        assert torch.equal(cache.coordinates, places)
        assert torch.equal(cache.earlier(5), ids[:, max(0, ids.shape[1] - 5) :])
        assert cache.length == held[0][0].shape[2]
        assert cache.start == start
        assert cache.next_position == start + cache.length


def test_length_grows_once_a_pass_and_a_broken_pass_leaves_nothing():
    cache = make()
    cache.append(0, fresh(2, 4), fresh(2, 4))
    assert cache.length == 0
    put(cache, 3)  # the pass above broke off; this one starts again
    assert cache.length == 3


def test_gradients_flow_to_the_tokens_of_this_pass_and_not_to_earlier_ones():
    cache = make()
    put(cache, 2)
    k, v = fresh(2, 3).requires_grad_(), fresh(2, 3).requires_grad_()
    keys, values = cache.append(0, k, v)
    (keys.sum() + 2 * values.sum()).backward()
    assert (k.grad == 1).all()
    assert (v.grad == 2).all()
    with torch.no_grad():
        cache.append(1, k, v)
    assert not cache.append(0, fresh(2, 1), fresh(2, 1))[0].requires_grad


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: c.append(1, fresh(2, 1), fresh(2, 1)),  # a layer before the first
        lambda c: [c.append(layer, *[fresh(2, 1 + layer)] * 2) for layer in (0, 1)],
        lambda c: c.append(0, fresh(3, 1), fresh(3, 1)),
        lambda c: c.append(0, fresh(2, 1), fresh(2, 2)),
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
    assert (cache.start, cache.length) == (1, 4)
