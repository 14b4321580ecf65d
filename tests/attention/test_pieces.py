"""Packed pieces in blocks: keys of other pieces are left out, and nothing else changes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musictx.attention import chunked
from musictx.attention.chunked import passes, plan
from musictx.attention.chunked.pieces import Pieces
from musictx.attention.terms import Axis, Span, Terms
from tests.attention import cases

BLOCK = 4


def packings(rows: int, length: int) -> st.SearchStrategy[list[list[int]]]:
    """For each row its own runs of ids, a few tokens to three blocks long, between padding."""

    def row(drawn: tuple[int, list[int], int]) -> list[int]:
        left, lengths, right = drawn
        ids = [number for number, count in enumerate(lengths) for _ in range(count)]
        ids = ([-1] * left + ids + [len(lengths)] * length)[: length - right]
        return ids + [-1] * right

    padding = st.integers(0, length)
    lengths = st.lists(st.integers(1, 3 * BLOCK), max_size=8)
    one = st.tuples(padding, lengths, padding).map(row)
    return st.lists(one, min_size=rows, max_size=rows)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_packed_pieces_equal_the_reference_and_the_walk_over_all_keys(data):
    """Output and every gradient; rows of a batch taken together or one by one."""
    draw = data.draw
    rows, length = draw(st.integers(1, 3), "rows"), draw(st.integers(1, 26), "length")
    ids = torch.tensor(draw(packings(rows, length), "ids"))
    queries = draw(st.integers(1, length), "queries")
    causal = draw(st.booleans(), "causal")
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, rows, 2, queries, length, 3)
    table = cases.learned(named, "table", 2, 9, 3)
    terms = Terms(0.6, (Axis(table, low=-2, high=6),))
    packed = {"query_pieces": ids[:, length - queries :], "key_pieces": ids}
    where = {
        "query_positions": Span(length - queries, queries),
        "key_positions": Span(0, length),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "BLOCK", BLOCK)
        patch.setattr(plan, "BUDGET", draw(st.sampled_from([1, 10**6]), "budget"))
        got = cases.directly(chunked)(q, k, v, terms, causal=causal, **where, **packed)
        upstream = torch.randn_like(got)
        found = torch.autograd.grad(got, list(named.values()), upstream)
        patch.setattr(Pieces, "reach", lambda self, *block: (0, length))
        whole = cases.directly(chunked)(q, k, v, terms, causal=causal, **where, **packed)
        walked = torch.autograd.grad(whole, list(named.values()), upstream)
    want = cases.dense(q, k, v, terms, causal=causal, **where, **packed)
    wanted = torch.autograd.grad(want, list(named.values()), upstream)
    for name, a, b, c in zip(
        ("out", *named), (got, *found), (whole, *walked), (want, *wanted), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, msg=f"{name}: all keys")
        torch.testing.assert_close(a, c, rtol=1e-12, atol=1e-12, msg=f"{name}: reference")


@given(data=st.data())
def test_where_pieces_lie_is_what_a_loop_finds(data):
    """Any ids in any order, also of queries that have no key."""
    draw = data.draw
    of_queries, of_keys = (
        draw(st.lists(st.integers(-1, 4), min_size=1, max_size=12)) for _ in range(2)
    )
    pieces = Pieces.found(torch.tensor([of_queries]), torch.tensor([of_keys]))
    assert pieces is not None
    for i, own in enumerate(of_queries):
        same = [j for j, other in enumerate(of_keys) if other == own]
        assert pieces.oldest[0, i] == min(same, default=len(of_keys))
        assert pieces.newest[0, i] == max(same, default=-1)
        if same:
            assert pieces.run[0, i] == (len(same) == max(same) - min(same) + 1)
            assert pieces.longest >= max(same) - min(same) + 1


def widths(monkeypatch: pytest.MonkeyPatch, ids: Tensor) -> tuple[list[int], list[bool]]:
    """How many keys each block of 4 queries met, and whether it had to hide some."""
    seen: list[int] = []
    masked: list[bool] = []
    right = passes._logits

    def spy(plan, views, block, *rest):
        seen.append(block.keys)
        masked.append(block.hidden is not None)
        return right(plan, views, block, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(plan, "BLOCK", BLOCK)
        patch.setattr(passes, "_logits", spy)
        q, k, v = (torch.randn(len(ids), 1, ids.shape[1], 2) for _ in range(3))
        cases.directly(chunked)(q, k, v, Terms(0.5), query_pieces=ids, key_pieces=ids)
    return seen, masked


def test_a_block_begins_where_its_earliest_piece_does(monkeypatch):
    """Of any row taken together with others; inside one piece nothing is masked."""
    eights = torch.arange(24)[None] // 8
    assert widths(monkeypatch, eights) == ([4, 8] * 3, [False] * 6)
    shifted = (torch.arange(24)[None] + 2) // 8  # borders at 6, 14, 22
    assert widths(monkeypatch, shifted) == ([4, 8, 6, 10, 6, 10], [False, True] * 3)
    # Borders at 8 and 16 and at 6, 14 and 22: from the earlier of the two.
    both = torch.cat([eights, shifted])
    assert widths(monkeypatch, both) == ([4, 8, 6, 10, 6, 10], [False] + [True] * 5)
    padded = torch.tensor([[0] * 9 + [-1] * 15])
    assert widths(monkeypatch, padded)[0] == [4, 8, 12, 7, 11, 15]
