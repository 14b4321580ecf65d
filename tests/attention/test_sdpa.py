"""torch's kernels: plain attention, and relative attention through a wider head."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.attention import positions, sdpa
from musictx.attention.api import attend
from musictx.attention.terms import Span, Terms
from tests.attention import cases


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_wider_head_equals_the_reference_in_output_and_every_gradient(data):
    draw = data.draw
    torch.manual_seed(draw(st.integers(0, 99)))
    causal = draw(st.booleans(), "causal")
    queries = draw(st.integers(1, 12), "queries")
    keys = queries if causal else draw(st.integers(1, 12), "keys")
    start = 0 if causal else draw(st.integers(-3, 3), "queries begin")
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, queries, keys, 4)
    terms = draw(st.sampled_from([cases.by_waves, cases.plain]))(named, 2, 4)
    where = {"query_positions": Span(50 + start, queries), "key_positions": Span(50, keys)}
    packed = {}
    if draw(st.booleans(), "packed"):
        ids = torch.randint(2, (2, 30))
        packed = {"query_pieces": ids[:, 5 : 5 + queries], "key_pieces": ids[:, 5 : 5 + keys]}
    assert cases.why_not(sdpa, terms, *where.values(), causal) is None
    got = cases.directly(sdpa)(q, k, v, terms, **where, causal=causal, **packed)
    want = cases.dense(q, k, v, terms, **where, causal=causal, **packed)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)
    up = torch.randn_like(got)
    found, wanted = cases.gradients(got, named, up), cases.gradients(want, named, up)
    for name in named:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-9, atol=1e-10, msg=name)


def test_one_query_over_a_cache():
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, 1, 9, 4)
    terms = cases.by_waves(named, 2, 4)
    where = {"query_positions": Span(28, 1), "key_positions": Span(20, 9)}
    got = attend(q, k, v, terms, **where, implementation="sdpa")
    want = cases.dense(q, k, v, terms, **where)
    assert max(cases.differences(got, want, named, torch.randn_like(got)).values()) < 1e-11


@pytest.mark.parametrize("queries", [1, 5])
def test_plain_attention_agrees_with_the_reference(queries):
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, queries, 5, 4)
    terms = Terms(0.5, content_bias=cases.learned(named, "u", 2, 4))
    for causal in (True, False):
        where = {"query_positions": Span(5 - queries, queries), "key_positions": Span(0, 5)}
        got = attend(q, k, v, terms, **where, causal=causal, implementation="sdpa")
        want = cases.dense(q, k, v, terms, **where, causal=causal)
        assert max(cases.differences(got, want, named, torch.randn_like(got)).values()) < 1e-12


def test_dropout_keeps_the_mean():
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 1, 5, 5, 4)
    terms = cases.by_waves(named, 1, 4)
    where = {"query_positions": Span(0, 5), "key_positions": Span(0, 5)}
    many = (torch.cat([x.detach()] * 4000) for x in (q, k, v))
    got = attend(*many, terms, **where, implementation="sdpa", dropout=0.3).detach()
    exact = cases.dense(q, k, v, terms, **where).detach()
    assert ((got.mean(0) - exact[0]).abs() < 5 * got.std(0) / 4000**0.5 + 1e-12).all()
    assert got.std(0)[0, 1].max() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_wider_head_is_as_precise_as_the_table(dtype):
    """Turned features cancel; at positions in the thousands in low precision they would not."""
    torch.manual_seed(0)
    scheme = positions.build({"name": "transformer_xl"}, heads=2, head_dim=16, width=32, context=64)
    for p in scheme.parameters():
        p.data *= 4
    q, k, v = (torch.randn(1, 2, 50, 16).to(dtype) for _ in range(3))
    where = {"query_positions": Span(5000, 50), "key_positions": Span(5000, 50)}
    terms = scheme.terms(reach=49)
    exact = cases.dense(
        q.double(), k.double(), v.double(), scheme.double().terms(reach=49), **where
    )
    limit = {torch.float32: 2e-5, torch.bfloat16: 2**-7}[dtype]
    for implementation in ("sdpa", "chunked"):
        got = attend(q, k, v, terms, **where, implementation=implementation)
        assert got.dtype == dtype
        torch.testing.assert_close(got.double(), exact, rtol=limit, atol=limit)
