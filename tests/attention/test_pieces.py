"""Packed pieces in blocks: keys of other pieces are left out, and nothing else changes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from musictx.attention import chunked
from musictx.attention.chunked import passes, plan
from musictx.attention.chunked.pieces import Pieces
from musictx.attention.terms import Terms
from tests.attention import cases

BLOCK = 4


@given(data=st.data())
def test_where_pieces_lie_is_what_a_loop_finds(data):
    """Any ids in any order, also of queries that have no key."""
    draw = data.draw
    of_queries, of_keys = (
        draw(st.lists(st.integers(-1, 4), min_size=1, max_size=12)) for _ in range(2)
    )
    pieces = Pieces.of(torch.tensor([of_queries]), torch.tensor([of_keys]))
    assert pieces is not None
    for i, own in enumerate(of_queries):
        same = [j for j, other in enumerate(of_keys) if other == own]
        assert pieces.oldest[0, i] == min(same, default=len(of_keys))
        assert pieces.newest[0, i] == max(same, default=-1)
        if same:
            assert pieces.run[0, i] == (len(same) == max(same) - min(same) + 1)
            assert pieces.longest >= max(same) - min(same) + 1
    assert pieces.longest >= 0


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
