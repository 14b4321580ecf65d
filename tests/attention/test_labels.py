"""Axes with labels for keys, through a wider head. What they compute: test_conformance.py."""

from __future__ import annotations

import pytest
import torch

from musictx.attention import decode, sdpa
from musictx.attention.api import attend
from musictx.attention.terms import Axis, Span, Terms
from tests.attention import cases

WHERE = {"query_positions": cases.places(2, 0, 11), "key_positions": cases.places(2, 0, 11)}


def inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return cases.qkv({}, 2, 2, 11, 11, 4)


def test_a_key_with_no_label_gets_no_term():
    """Then plain attention is all there is to it."""
    q, k, v = inputs()
    (_, pitch, _) = cases.labelled({}, 2, 4).axes
    terms = Terms(0.5, (pitch,))
    where = WHERE | {"key_positions": (Span(0, 11), torch.full((2, 11), 12))}
    plain = attend(q, k, v, Terms(0.5))
    for implementation in ("reference", "chunked"):
        got = attend(q, k, v, terms, **where, implementation=implementation)
        torch.testing.assert_close(got, plain)


def test_decode_copies_no_keys():
    """A step of sampling reads the cache and writes numbers for each key only."""
    torch.manual_seed(0)
    q, k, v = cases.qkv({}, 1, 4, 1, 500, 32, dtype=torch.float32)
    terms = Terms(
        0.2,
        (Axis(torch.randn(4, 9, 32), low=-4, high=4, coordinate=1, labels=torch.arange(60)),),
    )
    at, over = (Span(499, 1), torch.tensor([[5]])), (Span(0, 500), torch.randint(60, (1, 500)))
    with torch.no_grad(), cases.Largest() as seen:
        cases.directly(decode)(q, k, v, terms, query_positions=at, key_positions=over)
    assert seen.numbers <= k.numel()  # the largest memory in sight is the cache itself


def test_labels_are_refused_where_they_have_no_meaning():
    table, three = torch.zeros(1, 3, 4), torch.arange(3)
    with pytest.raises(ValueError, match="labels are for further coordinates"):
        Axis(table, high=2, labels=three)
    with pytest.raises(ValueError, match=r"labels are torch.float32 \(3,\), expected int64"):
        Axis(table, high=2, coordinate=1, labels=three.float())
    axis = Axis(table, high=2, coordinate=1, labels=three)
    with pytest.raises(ValueError, match="value_table is for distances"):
        Terms(0.5, (axis,), value_table=table)
    where = (Span(0, 3), torch.zeros(3).long())
    reasons = cases.reasons(Terms(0.5, (axis,)), where, where)
    assert {name for name, reason in reasons.items() if reason} == {"skew", "sdpa"}
    assert cases.why_not(sdpa, Terms(0.5, (axis,)), where, where) == "it knows no relative terms"
