"""Dropout of the chunked attention: one mask forward and backward, scaled exactly."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from musictx.attention import chunked
from musictx.attention.chunked import plan
from musictx.attention.terms import Axis, Terms
from tests.attention import cases


def dropped(
    q: Tensor, k: Tensor, v: Tensor, terms: Terms, share: float, seed: int = 5, **pieces: Tensor
) -> Tensor:
    torch.manual_seed(seed)
    return cases.directly(chunked)(q, k, v, terms, dropout=share, **pieces)


@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
def test_dropout_drops_the_same_weights_forward_and_backward(packed, small_blocks):
    """Finite differences with the seed held: a gradient of another mask would not match."""
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, 12, 13, 2)
    table = cases.learned(named, "table", 2, 5, 2)
    pieces = {}
    if packed:
        ids = torch.tensor([[0] * 7 + [1] * 6])
        pieces = {"key_pieces": ids, "query_pieces": ids[:, 1:]}

    def run(*tensors: Tensor) -> Tensor:
        q, k, v, table = tensors
        return dropped(q, k, v, Terms(0.7, (Axis(table, high=4),)), 0.4, **pieces)

    assert torch.autograd.gradcheck(run, (q, k, v, table))


@pytest.mark.parametrize("causal_", [True, False], ids=["causal", "full"])
def test_dropout_drops_the_same_weights_for_values_and_their_table(causal_, small_blocks):
    torch.manual_seed(0)
    named: cases.Named = {}
    cases.qkv(named, 1, 2, 10, 10, 2)
    cases.learned(named, "table", 2, 5, 2)
    cases.learned(named, "V", 2, 5, 2)

    def run(*tensors: Tensor) -> Tensor:
        q, k, v, table, values = tensors
        terms = Terms(0.7, (Axis(table, low=-2, high=2),), value_table=values)
        torch.manual_seed(5)
        return cases.directly(chunked)(q, k, v, terms, dropout=0.4, causal=causal_)

    assert torch.autograd.gradcheck(run, tuple(named.values()))
    out = run(*named.values())
    named["V"].data.zero_()
    assert not torch.equal(out, run(*named.values())), "the table of values counts"


def test_dropout_zeroes_its_share_and_scales_the_others_exactly():
    """With v = 1 for one key at a time the output is the weights: each is 0 or weight / kept."""
    torch.manual_seed(0)
    length, share = 200, 0.3
    q, k = (torch.randn(8, 2, length, 4, dtype=torch.float64) for _ in range(2))
    v = torch.eye(length, dtype=torch.float64).expand(8, 2, -1, -1)
    q, k = (torch.cat([x, x.new_zeros(8, 2, length, length - 4)], -1) for x in (q, k))
    terms = Terms(0.5)
    weights = cases.weights(q, k, terms)
    got = dropped(q, k, v, terms, share)
    kept = got != 0
    torch.testing.assert_close(got[kept], weights[kept] / (1 - share), rtol=1e-4, atol=0.0)
    count = int((weights != 0).sum())
    observed = 1 - int(kept.sum()) / count
    assert abs(observed - share) < 5 * math.sqrt(share * (1 - share) / count)
    assert not torch.equal(kept[0], kept[1]), "batch rows drop different weights"
    assert not torch.equal(kept[:, 0], kept[:, 1]), "heads drop different weights"
    assert not torch.equal(kept[:, :, 60:128, :60], kept[:, :, 128:196, :60]), "and so do blocks"


def test_dropout_keeps_the_mean():
    torch.manual_seed(3)
    q, k, v = (torch.randn(1, 1, 6, 4, dtype=torch.float64) for _ in range(3))
    terms = Terms(0.5)
    many = (torch.cat([x] * 4000) for x in (q, k, v))
    got = cases.directly(chunked)(*many, terms, dropout=0.3)
    exact = cases.dense(q, k, v, terms)
    standard_error = got.std(0) / math.sqrt(4000)
    assert ((got.mean(0) - exact[0]).abs() < 5 * standard_error + 1e-12).all()


def test_another_seed_drops_other_weights():
    q, k, v = (torch.randn(1, 1, 20, 4) for _ in range(3))
    terms = Terms(0.5)
    first, again = dropped(q, k, v, terms, 0.5, seed=1), dropped(q, k, v, terms, 0.5, seed=1)
    assert torch.equal(first, again)
    assert not torch.equal(first, dropped(q, k, v, terms, 0.5, seed=2))


def test_groups_of_heads_drop_different_weights(monkeypatch):
    """Equal heads must not become equal noise: each group draws its own."""
    monkeypatch.setattr(plan, "heads_at_once", lambda q, keys: 1)
    one = torch.randn(1, 1, 40, 6, generator=torch.Generator().manual_seed(1))
    same = one.expand(1, 2, 40, 6)
    first, second = cases.directly(chunked)(same, same, same, Terms(0.4), dropout=0.5)[0]
    assert not torch.allclose(first, second)
