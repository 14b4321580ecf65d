"""Packed pieces: which keys lie in the piece of each query, read off the ids once for a call."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Pieces(NamedTuple):
    """Ids of the pieces of queries (B, Tq) and keys (B, Tk), and where each query's piece lies.

    ``oldest`` and ``newest`` (B, Tq) are its first and its last key, Tk and -1 if it has none.
    ``run`` (B, Tq): no key of another piece lies between them. ``longest``: from first to last key
    of a piece there are at most so many. Pieces may lie in any order; only where they are runs are
    the keys of a block few. The three are None on other devices than the CPU, where to look would
    be to wait: there every block meets all keys, and a mask hides the others.
    """

    queries: Tensor
    keys: Tensor
    oldest: Tensor | None
    newest: Tensor | None
    run: Tensor | None
    longest: int

    @classmethod
    def of(cls, queries: Tensor | None, keys: Tensor | None) -> Pieces | None:
        """None without ids."""
        if queries is None or keys is None:
            return None
        count = keys.shape[1]
        queries, keys = queries.contiguous(), keys.contiguous()
        if keys.device.type != "cpu":
            return cls(queries, keys, None, None, None, count)
        ids, order = torch.sort(keys, dim=1, stable=True)  # keys of one piece in their order
        begin = torch.searchsorted(ids, queries)
        end = torch.searchsorted(ids, queries, right=True)
        none = begin == end
        oldest = order.gather(1, begin.clamp(max=count - 1)).masked_fill(none, count)
        newest = order.gather(1, (end - 1).clamp(min=0)).masked_fill(none, -1)
        length = (newest - oldest + 1).clamp(min=0)
        run = length == end - begin
        return cls(queries, keys, oldest, newest, run, int(length.max()))

    def reach(self, rows: slice, first: int, stop: int) -> tuple[int, int]:
        """The keys start..upto-1 among which are all that any of these queries may see."""
        if self.oldest is None or self.newest is None:
            return 0, self.keys.shape[1]
        oldest, newest = self.oldest[rows, first:stop], self.newest[rows, first:stop]
        return int(oldest.min()), int(newest.max()) + 1

    def hidden(self, rows: slice, first: int, stop: int, start: int, upto: int) -> Tensor | None:
        """Which of the keys start..upto-1 are of another piece than the query, (g, m, w); None if
        none is."""
        here = rows, slice(first, stop)
        if self.oldest is not None and self.newest is not None and self.run is not None:
            one = self.run[here].all() and self.oldest[here].max() <= start
            if one and self.newest[here].min() >= upto - 1:
                return None
        return self.queries[here][:, :, None] != self.keys[rows, None, start:upto]
