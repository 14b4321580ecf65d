"""The division of attention into blocks: their sizes, their masks and views of their memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from musictx.attention.terms import Span

BLOCK = 128  # queries at a time; 64 to 256 differ little
#: The most logits in memory at once, on CPUs and on other devices: heads and batch rows are
#: processed together as long as their logits fit. On CPUs the logits should stay in the cache; on
#: other devices few large steps are faster than many small ones.
BUDGET, DEVICE_BUDGET = 2**20, 2**26
SPARE = 33  # the most columns of a row that belong to no distance


class Call(NamedTuple):
    """The arguments of the operator without gradients.

    query_codes, key_codes  int64 (1 or B, Tq) and (1 or B, Tk): a query attends to the keys whose
            codes differ from its own by at most ``near``; both None: to all keys
    offset  query i has the position of key offset + i, even if there is no such key
    relative  whether there is a table or a value table
    """

    query_codes: Tensor | None
    key_codes: Tensor | None
    near: int
    scale: float
    dropout: float
    seed: int
    causal: bool
    offset: int
    relative: bool


def is_aligned(causal: bool, queries: Span, keys: Span) -> bool:
    """Whether this is causal attention of the last tokens to all tokens, so that all negative
    distances are masked."""
    return causal and queries.stop == keys.stop and len(queries) <= len(keys)


class Bounds(NamedTuple):
    """The range of the keys that each query attends to by its code, (B, Tq) each.

    oldest, newest  the indices of the first and the last of these keys, Tk and -1 without any
    contiguous      whether the query attends to all keys between them
    """

    oldest: Tensor
    newest: Tensor
    contiguous: Tensor

    @classmethod
    def of(cls, queries: Tensor, keys: Tensor, near: int) -> Bounds:
        """Compute the bounds from the codes of queries (1 or B, Tq) and keys (1 or B, Tk)."""
        rows, count = max(len(queries), len(keys)), keys.shape[1]
        queries, keys = (x.expand(rows, -1).contiguous() for x in (queries, keys))
        codes, order = keys.sort(dim=1, stable=True)  # keys with equal codes stay in order
        oldest, newest = torch.full_like(queries, count), torch.full_like(queries, -1)
        attended = torch.zeros_like(queries)  # the number of keys
        for code in range(-near, near + 1):
            begin = torch.searchsorted(codes, queries + code)
            end = torch.searchsorted(codes, queries + code, right=True)
            absent = begin == end
            first = order.gather(1, begin.clamp(max=count - 1)).masked_fill(absent, count)
            last = order.gather(1, (end - 1).clamp(min=0)).masked_fill(absent, -1)
            oldest, newest = oldest.minimum(first), newest.maximum(last)
            attended += end - begin
        return cls(oldest, newest, newest - oldest + 1 == attended)


class QueryBlock(NamedTuple):
    """The queries first..stop-1 of the batch rows of a tile, and their keys start..upto-1."""

    first: int
    stop: int
    start: int
    upto: int
    hidden: Tensor | None  # bool (g or 1, 1, m, w): keys to mask
    on_diagonal: bool  # the last key is at the last query: mask a triangle of the last m columns
    relative: bool

    @property
    def queries(self) -> int:
        return self.stop - self.first

    @property
    def keys(self) -> int:
        return self.upto - self.start

    @property
    def width(self) -> int:
        """W: the row length of the product by distance, at least the number of distances.

        W - 1 is an odd multiple of 16: rows begin at cache lines, but unlike with a power of two
        they do not compete for a few sets of the cache.
        """
        negative = 0 if self.on_diagonal or not self.relative else self.queries - 2
        return 16 * (-(-(self.keys + max(0, negative)) // 16) | 1) + 1


class Views(NamedTuple):
    """Two views of the memory of one block: with W numbers to a row, and from entry m-1 on with
    W-1 numbers to a row."""

    whole: Tensor  # all the memory, one dimension
    flat: Tensor  # (G, m * W)
    by_distance: Tensor  # (G, m, W): P
    by_key: Tensor  # (G, m, w)
    between: Tensor  # the entries between the rows of by_key

    def clear_around_keys(self) -> None:
        """Set all entries that belong to no key to 0, so that ``by_distance`` can be used."""
        self.flat[:, : self.by_key.shape[1] - 1] = 0
        self.between.zero_()
        self.flat[:, -1] = 0


#: The batch rows and the heads that are processed at once, as an index of (B, H, ...).
Tile = tuple[slice, slice]


class Plan:
    """The sizes, tiles and blocks that the forward and the backward pass share."""

    def __init__(self, q: Tensor, k: Tensor, call: Call) -> None:
        self.batch, self.all_heads, self.queries = q.shape[:3]
        self.keys = k.shape[2]
        self.call = call
        queries, keys = Span(call.offset, self.queries), Span(0, self.keys)
        self.aligned = is_aligned(call.causal, queries, keys)
        self.device = q.device
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self.block = min(BLOCK, self.queries)
        self.codes = self.bounds = None
        if call.query_codes is not None and call.key_codes is not None:
            codes = call.query_codes, call.key_codes
            # Reading codes would wait for the device: on others than CPUs, blocks have all keys.
            if all(x.device.type == "cpu" for x in codes):
                self.bounds = Bounds.of(*codes, call.near)
            self.codes = [x.to(self.device) for x in codes]
        self.heads = self._heads_at_once()
        one_row = self.heads * self.block * (self.keys + 1)
        budget = BUDGET if self.device.type == "cpu" else DEVICE_BUDGET
        self.group = max(1, min(self.batch, budget // one_row))
        minus_infinity = torch.full((self.block, self.block), float("-inf"), dtype=self.dtype)
        self.causal_mask = minus_infinity.triu(1).to(self.device)

    def _heads_at_once(self) -> int:
        """How many heads to process together: a divisor of the number of heads.

        On CPUs, as many as keep one block's logits within :data:`BUDGET`, but up to two for each
        thread in any case, because threads divide a batched product by heads.
        """
        if self.device.type != "cpu":
            return self.all_heads
        widest = self.keys  # roughly the most keys that a block of queries is multiplied with
        if self.bounds is not None:
            longest = int((self.bounds.newest - self.bounds.oldest).max()) + 1
            widest = min(self.keys, max(longest, 0) + BLOCK)
        fit = BUDGET // (self.block * (widest + 1))
        most = max(1, fit, 2 * torch.get_num_threads())
        return max(n for n in range(1, min(most, self.all_heads) + 1) if self.all_heads % n == 0)

    def tiles(self) -> list[Tile]:
        """Divide all batch rows and heads into tiles."""
        heads = (slice(h, h + self.heads) for h in range(0, self.all_heads, self.heads))
        starts = range(0, self.batch, self.group)
        rows = [slice(b, min(b + self.group, self.batch)) for b in starts]
        return [(some_rows, some_heads) for some_heads in heads for some_rows in rows]

    def blocks(self, rows: slice) -> Iterator[QueryBlock]:
        """Divide the queries of these batch rows into blocks, each with the keys it needs."""
        call = self.call
        for first in range(0, self.queries, self.block):
            stop = min(first + self.block, self.queries)
            tokens = slice(first, stop)
            start, upto = 0, self.keys
            if call.causal:
                upto = min(max(call.offset + stop, 1), self.keys)
            diagonal = call.offset + first  # the key at the position of the first query
            on_diagonal = call.causal and diagonal >= 0 and upto == call.offset + stop
            hidden, needs_codes = None, self.codes is not None
            if self.bounds is not None:
                oldest, newest, contiguous = (_of_rows(x, rows)[:, tokens] for x in self.bounds)
                start, after = int(oldest.min()), int(newest.max()) + 1
                if on_diagonal:  # keep all columns of the triangle
                    start, after = min(start, diagonal), upto
                start = min(start, upto - 1)
                upto = max(min(upto, after), start + 1)
                # Not if all queries attend to all keys of the block.
                needs_codes = not bool(
                    contiguous.all() and oldest.max() <= start and newest.min() >= upto - 1
                )
            if self.codes is not None and needs_codes:
                queries, keys = (_of_rows(x, rows) for x in self.codes)
                queries, keys = queries[:, tokens, None], keys[:, None, start:upto]
                hidden = (queries - keys).abs() > call.near if call.near else queries != keys
            if call.causal and not on_diagonal:
                positions = torch.arange(first, stop, device=self.device)[:, None] + call.offset
                later = torch.arange(start, upto, device=self.device) > positions
                hidden = later[None] if hidden is None else hidden | later
            if hidden is not None:
                hidden = hidden[:, None]
            yield QueryBlock(first, stop, start, upto, hidden, on_diagonal, call.relative)

    def memory(self) -> Tensor:
        """Memory that is large enough for the logits of any block."""
        width = self.keys + (0 if self.aligned or not self.call.relative else self.block) + SPARE
        count = self.group * self.heads * self.block * width + 16
        return torch.empty(count, dtype=self.dtype, device=self.device)

    def views(self, memory: Tensor, count: int, block: QueryBlock) -> Views:
        """The views of ``memory`` for one block of ``count`` pairs of batch row and head."""
        m, width = block.queries, block.width
        begin = (1 - m) % 16  # so that rows of ``by_key`` begin at cache lines
        flat = memory[begin : begin + count * m * width].view(count, m * width)
        key = begin + m - 1
        rows = (m * width, width - 1, 1)
        return Views(
            memory,
            flat,
            flat.view(count, m, width),
            flat.as_strided((count, m, block.keys), rows, key),
            flat.as_strided((count, m, width - 1 - block.keys), rows, key + block.keys),
        )

    def distances(self, block: QueryBlock) -> slice:
        """The rows of the tables, which are in descending distance, that this block needs."""
        highest = self.queries - block.stop + block.start
        return slice(highest, highest + block.width)

    def tokens(self, x: Tensor, tile: Tile) -> Tensor:
        """(B, H, T, D) -> (g * h, T, D) of the rows and heads of ``tile``, in working precision."""
        return x[tile].to(self.dtype).reshape(-1, x.shape[2], x.shape[3])

    def by_row(self, x: Tensor) -> Tensor:
        """(g * h, ...) -> (g, h, ...)."""
        return x.unflatten(0, (-1, self.heads))

    def tables(self, x: Tensor | None, tile: Tile) -> Tensor | None:
        """(H, distances, D) -> (g * h, distances + SPARE, D): repeat the table for each batch row
        and append zeros for the columns that belong to no distance."""
        if x is None:
            return None
        rows, heads = tile
        x, count = x[heads], rows.stop - rows.start
        spare = x.new_zeros(1, dtype=self.dtype).expand(len(x), SPARE, x.shape[2])
        return torch.cat([x.to(self.dtype), spare], dim=1).repeat(count, 1, 1)

    def generator(self) -> torch.Generator | None:
        """A generator for dropout; None without dropout. Both passes visit the blocks in the same
        order, so the same seed drops the same weights."""
        if not self.call.dropout:
            return None
        return torch.Generator(self.device).manual_seed(self.call.seed)


def _of_rows(x: Tensor, rows: slice) -> Tensor:
    """The batch rows ``rows`` of x (1 or B, T), whose only row may be shared by all."""
    return x if len(x) == 1 else x[rows]
