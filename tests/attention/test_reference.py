"""The specification against quadruple loops, for the whole family of schemes."""

from __future__ import annotations

import math

import pytest
import torch

from musictx.attention.terms import Axis, Span, Terms
from tests.attention import cases
from tests.oracles import attention as loops

MODES = {  # queries, keys, causal, where queries begin
    "causal self": (5, 5, True, 0),
    "causal, last queries of longer keys": (3, 6, True, 3),
    "full self": (5, 5, False, 0),
    "cross, fewer queries": (3, 6, False, 2),
    "cross, more queries": (6, 4, False, 0),
    "causal, keys that nobody sees": (3, 6, True, 1),
    "one query": (1, 5, True, 4),
}


#: Of each family and mode one, whole and packed in turn.
CASES = [
    (scheme, mode, (i + j) % 2 == 1)
    for i, scheme in enumerate(cases.FAMILY)
    for j, mode in enumerate(MODES)
]


@pytest.mark.parametrize(("scheme", "mode", "packed"), CASES)
def test_reference_equals_loops_in_output_and_every_gradient(scheme, mode, packed):
    torch.manual_seed(1)
    queries, keys, causal, start = MODES[mode]
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, queries, keys, 4)
    terms = cases.FAMILY[scheme](named, 2, 4)
    where = {
        "query_positions": cases.places(2, start, queries),
        "key_positions": cases.places(2, 0, keys),
    }
    if packed:
        key_pieces = torch.tensor([[0, 0, 1, 1, 1, 2], [3, 4, 4, 4, 4, 4]])
        where |= {
            "key_pieces": key_pieces[:, :keys],
            "query_pieces": key_pieces[:, start : start + queries],
        }
    got = cases.dense(q, k, v, terms, causal=causal, **where)
    want = loops.attend(q, k, v, terms, causal=causal, **where)
    errors = cases.differences(got, want, named, torch.randn_like(got))
    assert max(errors.values()) < 1e-12, errors


def test_positions_may_be_tensors_for_each_row_and_causality_goes_by_them():
    """Rows of a batch stand at different places, not in order: position decides, not the row."""
    torch.manual_seed(2)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, 5, 5, 4)
    terms = cases.transformer_xl(named, 2, 4)
    positions = torch.stack([torch.tensor([4, 2, 0, 1, 3]), torch.tensor([10, 11, 13, 13, 17])])
    where = {"query_positions": positions, "key_positions": positions}
    got = cases.dense(q, k, v, terms, **where)
    want = loops.attend(q, k, v, terms, **where)
    assert max(cases.differences(got, want, named, torch.randn_like(got)).values()) < 1e-12
    weights = cases.weights(q, k, terms, **where)
    assert (weights[0, :, 2, [0, 1, 3, 4]] == 0).all(), "position 0 sees itself only"


def test_a_query_that_sees_no_key_gives_zeros_and_finite_gradients():
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, 3, 3, 4)
    terms = cases.shaw(named, 2, 4)
    pieces = torch.tensor([[0, 7, 0]])
    where = {"query_positions": Span(0, 3), "key_positions": Span(0, 3)}
    out = cases.dense(
        q, k, v, terms, query_pieces=pieces, key_pieces=torch.zeros(1, 3, dtype=torch.long), **where
    )
    assert (out[:, :, 1] == 0).all()
    assert (out[:, :, 2] != 0).any()
    found = cases.gradients(out, named, torch.ones_like(out))
    assert all(torch.isfinite(g).all() for g in found.values())
    assert (found["q"][:, :, 1] == 0).all()


def test_dropout_keeps_the_mean():
    torch.manual_seed(3)
    q, k, v = (torch.randn(1, 1, 6, 4) for _ in range(3))
    terms = Terms(scale=0.5)
    where = {"query_positions": Span(0, 6), "key_positions": Span(0, 6), "causal": False}
    many = (torch.cat([x] * 4000) for x in (q, k, v))
    dropped = cases.dense(*many, terms, dropout=0.3, **where)
    exact = cases.dense(q, k, v, terms, **where)
    standard_error = dropped.std(0) / math.sqrt(4000)
    assert ((dropped.mean(0) - exact[0]).abs() < 5 * standard_error).all()
    assert dropped.std() > 0


def test_softmax_is_in_float32_for_bfloat16_inputs():
    """The only error is the rounding of inputs and of the result."""
    torch.manual_seed(4)
    q, k, v = (torch.randn(1, 2, 40, 16).bfloat16() * 2 for _ in range(3))
    terms = Terms(0.25, (Axis(table=torch.randn(2, 40, 16), high=39),))
    where = {"query_positions": Span(0, 40), "key_positions": Span(0, 40)}
    out = cases.dense(q, k, v, terms, **where)
    exact = cases.dense(q.double(), k.double(), v.double(), terms, **where)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), exact, rtol=2**-8, atol=1e-5)
