"""The textbook's skew: its picture, and what breaks it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from musictx.attention import skew
from tests.attention import cases


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


def wrong_side(product: Tensor) -> Tensor:
    *batch, queries, keys = product.shape
    padded = torch.nn.functional.pad(product, (0, 1))
    return padded.reshape(*batch, keys + 1, queries)[..., 1:, :].reshape(product.shape)


@pytest.mark.parametrize("broken", [skew.skewed, wrong_side])
def test_a_broken_skew_is_noticed(broken, monkeypatch):
    """By the comparison with the specification, which the right one passes."""
    right = broken is skew.skewed
    monkeypatch.setattr(skew, "skewed", broken)
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, 9, 9, 4)
    terms = cases.huang(named, 2, 4)
    got, want = (how(q, k, v, terms) for how in (cases.directly(skew), cases.dense))
    errors = cases.differences(got, want, named, torch.randn_like(got))
    assert max(errors.values()) < 1e-12 if right else min(errors.values()) > 1e-3, errors
