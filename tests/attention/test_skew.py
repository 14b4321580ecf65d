"""The textbook's skew: its picture, its equality with the specification, and what breaks it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from musictx.attention import skew
from musictx.attention.terms import Span
from tests.attention import cases
from tests.oracles import attention as loops


def test_the_picture_of_the_paper():
    """Digits are row and distance; columns in descending distance become columns for keys."""
    product = torch.tensor([[12, 11, 10], [22, 21, 20], [32, 31, 30]])
    found = skew.skewed(product)
    assert [found[i, : i + 1].tolist() for i in range(3)] == [[10], [21, 20], [32, 31, 30]]


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (1, 6), (3, 7), (8, 8)])
def test_every_past_cell_has_its_distance(queries, keys):
    distances = torch.arange(keys).flip(0).expand(2, queries, keys)  # what each column stands for
    found = skew.skewed(distances)
    for r in range(queries):
        i = keys - queries + r
        assert found[1, r, : i + 1].tolist() == [i - j for j in range(i + 1)]


def compare(named: cases.Named, queries: int, keys: int, packed: bool, oracle) -> dict[str, float]:
    q, k, v = cases.qkv(named, 2, 2, queries, keys, 4)
    terms = cases.huang(named, 2, 4)
    masks = {}
    if packed:
        ids = torch.arange(keys).expand(2, -1) // 5
        masks = {"key_pieces": ids, "query_pieces": ids[:, keys - queries :]}
    where = {"query_positions": Span(keys - queries, queries), "key_positions": Span(0, keys)}
    got = cases.directly(skew)(q, k, v, terms, **masks)
    want = oracle(q, k, v, terms, **where, **masks)
    silent = ("q", "k", "table") if keys == 1 else ()
    return cases.differences(got, want, named, torch.randn_like(got), silent=silent)


@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 3), (9, 9), (4, 9), (1, 9)])
def test_skew_equals_loops_in_output_and_every_gradient(queries, keys, packed):
    torch.manual_seed(0)
    assert max(compare({}, queries, keys, packed, loops.attend).values()) < 1e-12


def no_pad(product: Tensor) -> Tensor:
    return product


def wrong_side(product: Tensor) -> Tensor:
    *batch, queries, keys = product.shape
    padded = torch.nn.functional.pad(product, (0, 1))
    return padded.reshape(*batch, keys + 1, queries)[..., 1:, :].reshape(product.shape)


def last_row_dropped(product: Tensor) -> Tensor:
    *batch, queries, keys = product.shape
    padded = torch.nn.functional.pad(product, (1, 0))
    return padded.reshape(*batch, keys + 1, queries)[..., :-1, :].reshape(product.shape)


@pytest.mark.parametrize("broken", [no_pad, wrong_side, last_row_dropped])
def test_a_broken_skew_is_noticed(broken, monkeypatch):
    monkeypatch.setattr(skew, "skewed", broken)
    torch.manual_seed(0)
    errors = compare({}, 9, 9, False, cases.dense)
    assert min(errors.values()) > 1e-3, errors


def test_a_query_that_sees_no_key_gives_zeros():
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, 3, 3, 4)
    pieces = {"query_pieces": torch.tensor([[0, 7, 0]]), "key_pieces": torch.zeros(1, 3).long()}
    out = cases.directly(skew)(q, k, v, cases.huang(named, 2, 4), **pieces)
    assert (out[:, :, 1] == 0).all()
    found = cases.gradients(out, named, torch.ones_like(out))
    assert all(torch.isfinite(g).all() for g in found.values())
