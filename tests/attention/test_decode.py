"""One query over cached keys equals the last row of the specification."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.attention import decode
from musictx.attention.api import attend
from musictx.attention.terms import Axis, Span, Terms
from tests.attention import cases


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_decode_equals_reference_in_output_and_gradients(data):
    draw = data.draw
    torch.manual_seed(draw(st.integers(0, 99)))
    keys, rows = draw(st.integers(1, 40), "keys"), draw(st.integers(1, 3), "rows")
    low, distances = draw(st.integers(-4, 4), "low"), draw(st.integers(1, 60), "distances")
    heads = draw(st.sampled_from([1, 2]), "heads of the table")
    named: cases.Named = {}
    q, k, v = cases.qkv(named, rows, 2, 1, keys, 4)
    axis = Axis(
        cases.learned(named, "table", heads, distances, 4),
        cases.learned(named, "bias", heads, distances),
        low=low,
        high=low + distances - 1,
    )
    terms = Terms(0.6, (axis,))
    pieces = {}
    if draw(st.booleans(), "packed"):
        ids = torch.randint(3, (rows, keys + 1))
        pieces = {"key_pieces": ids[:, :-1], "query_pieces": ids[:, -1:]}  # may see nothing
    got = cases.directly(decode)(q, k, v, terms, **pieces)
    where = {"query_positions": Span(keys + 4, 1), "key_positions": Span(5, keys)}
    want = cases.dense(q, k, v, terms, **where, **pieces)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-13)
    up = torch.randn_like(got)
    found, wanted = cases.gradients(got, named, up), cases.gradients(want, named, up)
    for name in named:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-11, atol=1e-12, msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_decode_is_what_one_query_gets_and_keeps_its_dtype(dtype):
    torch.manual_seed(0)
    q = torch.randn(2, 2, 1, 8).to(dtype)
    buffer = torch.randn(2, 2, 50, 8).to(dtype)
    k = v = buffer[:, :, 10:40]  # a view into a cache
    terms = Terms(0.3, (Axis(torch.randn(2, 20, 8), high=19),))
    where = {"query_positions": Span(29, 1), "key_positions": Span(0, 30)}
    got = attend(q, k, v, terms, **where, implementation="chunked")
    assert got.dtype == dtype
    exact = cases.dense(q.double(), k.double(), v.double(), terms, **where)
    limit = 2**-8 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(got.double(), exact, rtol=limit, atol=1e-5)


def test_decode_drops_weights_and_keeps_the_mean():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 6, 4), torch.randn(1, 1, 6, 4)
    many = (torch.cat([x] * 4000) for x in (q, k, v))
    got = cases.directly(decode)(*many, Terms(0.5), dropout=0.3)
    exact = cases.directly(decode)(q, k, v, Terms(0.5))
    assert ((got.mean(0) - exact[0]).abs() < 5 * got.std(0) / 4000**0.5).all()
    assert got.std() > 0
