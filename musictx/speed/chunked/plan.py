"""How attention is cut into blocks, and how one block's memory is seen: sizes, masks, views."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from musictx.attention.terms import Positions, Span, as_tensor

BLOCK = 128  # queries at a time; 64 to 256 differ little
#: Logits held at once, in numbers: heads and batch rows are taken together as long as they fit. On
#: CPUs they should stay in the cache, on other devices few large steps beat many small ones.
BUDGET, DEVICE_BUDGET = 2**20, 2**26
SPARE = 33  # numbers that a row may have more than there are distances


def is_aligned(causal: bool, offset: int, queries: int, keys: int) -> bool:
    """Causal attention of the last tokens to all tokens: no distance below 0 counts."""
    return causal and offset >= 0 and offset + queries == keys


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


class Local(NamedTuple):
    """Blocks of ``length`` positions; where queries and keys stand."""

    length: int
    queries: Positions
    keys: Positions


class Call(NamedTuple):
    """The arguments of a call of :func:`attend` other than tensors with gradients."""

    scale: float
    dropout: float
    seed: int
    causal: bool
    offset: int  # query i stands where key offset + i stands or would stand
    local: Local | None
    pieces: Pieces | None
    relative: bool

    def widest(self, keys: int) -> int:
        """About how many of all ``keys`` a block of queries is multiplied with at most."""
        return keys if self.pieces is None else min(keys, self.pieces.longest + BLOCK)


class QueryBlock(NamedTuple):
    """Queries first..stop-1 of the batch rows taken together, over keys start..upto-1."""

    first: int
    stop: int
    start: int
    upto: int
    hidden: Tensor | None  # bool (g or 1, 1, m, w): keys not to be seen
    corner: bool  # the last key is the last query: the last m columns make a triangle
    relative: bool

    @property
    def queries(self) -> int:
        return self.stop - self.first

    @property
    def keys(self) -> int:
        return self.upto - self.start

    @property
    def width(self) -> int:
        """W: numbers to a row of the product, at least as many as there are distances to meet.

        W - 1 is an odd multiple of 16: rows that begin in cache lines, yet not all of them in the
        few places of the cache that a power of two would leave them.
        """
        beyond = 0 if self.corner or not self.relative else self.queries - 2
        return 16 * (-(-(self.keys + max(0, beyond)) // 16) | 1) + 1


class Buffer:
    """Memory for one block's numbers, seen in two ways."""

    def __init__(self, plan: Plan) -> None:
        most = plan.keys + (0 if plan.aligned or not plan.call.relative else plan.block) + SPARE
        numbers = plan.group * plan.heads * plan.block * most + 16
        self._numbers = torch.empty(numbers, dtype=plan.dtype, device=plan.device)

    def seen(self, count: int, block: QueryBlock) -> Views:
        m, width = block.queries, block.width
        begin = (1 - m) % 16  # so that rows of ``by_key`` begin in cache lines
        flat = self._numbers[begin : begin + count * m * width].view(count, m * width)
        key = begin + m - 1
        rows = (m * width, width - 1, 1)
        return Views(
            self._numbers,
            flat,
            flat.view(count, m, width),
            flat.as_strided((count, m, block.keys), rows, key),
            flat.as_strided((count, m, width - 1 - block.keys), rows, key + block.keys),
        )


class Views(NamedTuple):
    """The places of one block: W numbers to a row, or W-1 to a row from place m-1 on."""

    whole: Tensor  # all the memory, one dimension
    flat: Tensor  # (G, m * W)
    by_distance: Tensor  # (G, m, W): P
    by_key: Tensor  # (G, m, w)
    between: Tensor  # what by_key leaves out between its rows

    def clear_around_keys(self) -> None:
        """0 wherever no key of a query stands, so that ``by_distance`` may be read."""
        self.flat[:, : self.by_key.shape[1] - 1] = 0
        self.between.zero_()
        self.flat[:, -1] = 0


def _narrowed(
    start: int, upto: int, oldest: int, after: int, kept_from: int | None
) -> tuple[int, int]:
    """The keys start..upto-1 without those before ``oldest`` and from ``after`` on; at least one.

    ``kept_from``: the triangle of a corner begins at this key, and always stays in.
    """
    if kept_from is not None:
        oldest, after = min(oldest, kept_from), upto
    start = min(max(start, oldest), upto - 1)
    return start, max(min(upto, after), start + 1)


#: The batch rows and the heads that are taken together, an index of (B, H, ...).
Tile = tuple[slice, slice]


class Plan:
    """Sizes that forward and backward share; walks through the tiles and their blocks."""

    def __init__(self, q: Tensor, k: Tensor, call: Call) -> None:
        self.batch, self.all_heads, self.queries = q.shape[:3]
        self.keys = k.shape[2]
        self.call = call
        self.aligned = is_aligned(call.causal, call.offset, self.queries, self.keys)
        self.device = q.device
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self.block = min(BLOCK, self.queries)
        self.heads = self._heads_at_once()
        one_row = self.heads * self.block * (self.keys + 1)
        budget = BUDGET if self.device.type == "cpu" else DEVICE_BUDGET
        self.group = max(1, min(self.batch, budget // one_row))
        corner = torch.full((self.block, self.block), float("-inf"), dtype=self.dtype)
        self.later = corner.triu(1).to(self.device)

    def _heads_at_once(self) -> int:
        """How many heads to take together: a divisor of all.

        On CPUs as many as keep one block's logits within :data:`BUDGET`, but two for each thread,
        which share the work of a product by heads.
        """
        if self.device.type != "cpu":
            return self.all_heads
        fit = BUDGET // (self.block * (self.call.widest(self.keys) + 1))
        most = max(1, fit, 2 * torch.get_num_threads())
        return max(n for n in range(1, min(most, self.all_heads) + 1) if self.all_heads % n == 0)

    def tiles(self) -> list[Tile]:
        """All heads of all rows."""
        heads = (slice(h, h + self.heads) for h in range(0, self.all_heads, self.heads))
        starts = range(0, self.batch, self.group)
        rows = [slice(b, min(b + self.group, self.batch)) for b in starts]
        return [(some_rows, some_heads) for some_heads in heads for some_rows in rows]

    def blocks(self, rows: slice) -> list[QueryBlock]:
        return [
            self._block(rows, first, min(first + self.block, self.queries))
            for first in range(0, self.queries, self.block)
        ]

    def _block(self, rows: slice, first: int, stop: int) -> QueryBlock:
        call, before = self.call, self.call.offset
        start, upto = self._reach(first, stop)
        corner = call.causal and before + first >= 0 and upto == before + stop
        kept_from = before + first if corner else None
        if call.pieces is not None:
            start, upto = _narrowed(start, upto, *call.pieces.reach(rows, first, stop), kept_from)
        hidden = self._hidden(rows, first, stop, start, upto, corner)
        if hidden is not None and call.local is not None and self.device.type == "cpu":
            seen = (~hidden).flatten(0, 2).any(0).nonzero().flatten().tolist() or [0]
            oldest, after = start + seen[0], start + seen[-1] + 1
            before, (start, upto) = start, _narrowed(start, upto, oldest, after, kept_from)
            hidden = hidden[..., start - before : upto - before]
        return QueryBlock(first, stop, start, upto, hidden, corner, call.relative)

    def _reach(self, first: int, stop: int) -> tuple[int, int]:
        """The keys start..upto-1 that these queries may see, as far as that is decided without
        reading tensors."""
        start, upto = 0, self.keys
        local = self.call.local
        if local and isinstance(local.queries, Span) and isinstance(local.keys, Span):
            length, zero = local.length, local.keys.start
            start = ((local.queries.start + first) // length - 1) * length - zero
            upto = ((local.queries.start + stop - 1) // length + 2) * length - zero
        if self.call.causal:
            upto = min(upto, self.call.offset + stop)
        upto = min(max(upto, 1), self.keys)
        return min(max(start, 0), upto - 1), upto

    def _hidden(
        self, rows: slice, first: int, stop: int, start: int, upto: int, corner: bool
    ) -> Tensor | None:
        """Keys that are hidden for another reason than the corner's: bool (g or 1, 1, m, w)."""
        call = self.call
        masks = []
        if call.pieces is not None:
            other = call.pieces.hidden(rows, first, stop, start, upto)
            masks += [] if other is None else [other]
        if call.local is not None:
            length = call.local.length
            here = self._places(call.local.queries, rows, first, stop)[:, :, None] // length
            there = self._places(call.local.keys, rows, start, upto)[:, None] // length
            masks.append((here - there).abs() > 1)
        if call.causal and not corner:
            here = torch.arange(first, stop, device=self.device)[:, None] + call.offset
            masks.append((torch.arange(start, upto, device=self.device) > here)[None])
        if not masks:
            return None
        hidden = masks[0]
        for more in masks[1:]:
            hidden = hidden | more
        return hidden[:, None]

    def _places(self, positions: Positions, rows: slice, first: int, stop: int) -> Tensor:
        """Positions first..stop-1: (g or 1, stop - first)."""
        if isinstance(positions, Span):
            zero = positions.start
            return torch.arange(zero + first, zero + stop, device=self.device)[None]
        places = as_tensor(positions, self.device)[:, first:stop]
        return places if len(places) == 1 else places[rows]

    def distances(self, block: QueryBlock) -> slice:
        """The rows of the tables in descending order that this block meets."""
        highest = self.queries - block.stop + block.start
        return slice(highest, highest + block.width)

    def tokens(self, x: Tensor, tile: Tile) -> Tensor:
        """(B, H, T, D) -> (g * h, T, D) of the rows and heads of ``tile``, in working precision."""
        return x[tile].to(self.dtype).reshape(-1, x.shape[2], x.shape[3])

    def tables(self, x: Tensor | None, tile: Tile) -> Tensor | None:
        """(H, distances, ...) -> (g * h, distances + SPARE, ...): the same table for each batch
        row, and zeros for the distances that only places without a key would have."""
        if x is None:
            return None
        rows, heads = tile
        x, count = x[heads], rows.stop - rows.start
        spare = x.new_zeros(1, dtype=self.dtype).expand(len(x), SPARE, *x.shape[2:])
        return torch.cat([x.to(self.dtype), spare], dim=1).repeat(count, *[1] * (x.dim() - 1))

    def generator(self) -> torch.Generator | None:
        """Draws the same weights to drop in both passes, which go through the blocks alike."""
        if not self.call.dropout:
            return None
        return torch.Generator(self.device).manual_seed(self.call.seed)
