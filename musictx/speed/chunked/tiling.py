"""The division of attention into blocks: their sizes, their masks and views of their memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

BLOCK = 128  # queries at a time; 64 to 256 differ little
#: The most logits in memory at once, on CPUs and on other devices: heads and batch rows are
#: processed together as long as their logits fit. On CPUs the logits should stay in the cache; on
#: other devices few large steps are faster than many small ones.
BUDGET, DEVICE_BUDGET = 2**20, 2**26
SPARE = 33  # the most columns of P (chunked/__init__.py) that belong to no distance


class Block(NamedTuple):
    """Some queries of all batch rows of a tile, and the keys that they need."""

    tokens: slice  # m queries
    keys: slice  # w keys
    distances: slice  # W rows of the tables, which are in descending distance
    hidden: Tensor | None  # bool (g or 1, 1, m, w), g batch rows: True masks a key
    on_diagonal: bool  # the last key is at the last query: mask a triangle of the last m columns


class Views(NamedTuple):
    """Views of the memory of one block, for G = g * h pairs of batch row and head."""

    by_distance: Tensor  # (G, m, W) with row stride W: P
    by_key: Tensor  # (G, m, w), from entry m-1 on with row stride W-1
    gaps: Tensor  # (G, m, W-1-w): the entries between the rows of by_key

    def clear_around_keys(self) -> None:
        """Set all entries that belong to no key to 0, so that ``by_distance`` can be used."""
        self.by_distance[:, 0, : self.by_key.shape[1] - 1] = 0
        self.gaps.zero_()
        self.by_distance[:, -1, -1] = 0


#: The batch rows and the heads that are processed at once, as an index of (B, H, ...).
Tile = tuple[slice, slice]


class Tiling:
    """The division into tiles and blocks, from the arguments of the operator, for both passes.

    inputs  the differentiable inputs (passes.py)
    query_codes, key_codes  int64 (1 or B, Tq) and (1 or B, Tk): a query attends to the keys whose
            codes differ from its own by at most ``margin``; both None: to all keys
    offset  query i has the position of key offset + i, even if there is no such key
    """

    def __init__(
        self,
        inputs: Sequence[Any],
        seed: Tensor | None,
        query_codes: Tensor | None,
        key_codes: Tensor | None,
        margin: int,
        scale: float,
        dropout: float,
        causal: bool,
        offset: int,
    ) -> None:
        q, _, k, _, table, values = inputs
        self.batch, self.heads, self.queries = q.shape[:3]
        self.keys, self.relative = k.shape[2], table is not None or values is not None
        self.margin, self.scale, self.causal, self.offset = margin, scale, causal, offset
        self.device = q.device
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self.block = min(BLOCK, self.queries)
        self.codes = self.bounds = None
        if query_codes is not None and key_codes is not None:
            # Reading codes on a GPU would mean waiting for it, so there blocks include all keys.
            if query_codes.device.type == key_codes.device.type == "cpu":
                self.bounds = bounds(query_codes, key_codes, margin)
            self.codes = query_codes.to(self.device), key_codes.to(self.device)
        self.tile_heads = self._heads_per_tile()
        row_logits = self.tile_heads * self.block * (self.keys + 1)
        budget = BUDGET if self.device.type == "cpu" else DEVICE_BUDGET
        self.tile_rows = max(1, min(self.batch, budget // row_logits))
        minus_infinity = torch.full((self.block, self.block), float("-inf"), dtype=self.dtype)
        self.causal_mask = minus_infinity.triu(1).to(self.device)
        #: For dropout, which drops weights whose random int16 is below the threshold. Both passes
        #: visit the blocks in the same order, so the same seed drops the same weights.
        self.generator = None
        if seed is not None:
            self.generator = torch.Generator(self.device).manual_seed(int(seed))
        self.threshold = round(dropout * 2**16) - 2**15
        self.kept_share = (2**15 - self.threshold) / 2**16  # ``dropout`` rounded to 16 bits

    def _heads_per_tile(self) -> int:
        """The number of heads of a tile, a divisor of the number of all heads.

        On CPUs, the most that keep one block's logits within :data:`BUDGET`, or two per thread if
        that is more, because threads share out a batched product by heads.
        """
        if self.device.type != "cpu":
            return self.heads
        widest = self.keys  # about the most keys of a block
        if self.bounds is not None:
            oldest, newest, _ = self.bounds
            widest = min(self.keys, max(int((newest - oldest).max()) + 1, 0) + BLOCK)
        fitting = BUDGET // (self.block * (widest + 1))
        most = max(1, fitting, 2 * torch.get_num_threads())
        return max(n for n in range(1, min(most, self.heads) + 1) if self.heads % n == 0)

    def tiles(self) -> list[Tile]:
        """Divide all batch rows and heads into tiles."""
        return [
            (slice(b, min(b + self.tile_rows, self.batch)), slice(h, h + self.tile_heads))
            for h in range(0, self.heads, self.tile_heads)
            for b in range(0, self.batch, self.tile_rows)
        ]

    def blocks(self, rows: slice) -> Iterator[Block]:
        """Divide the queries of these batch rows into blocks, each with the keys it needs."""
        for first in range(0, self.queries, self.block):
            stop = min(first + self.block, self.queries)
            tokens = slice(first, stop)
            key_start, key_stop = 0, self.keys
            if self.causal:
                key_stop = min(max(self.offset + stop, 1), self.keys)
            diagonal = self.offset + first  # the key at the position of the block's first query
            on_diagonal = self.causal and diagonal >= 0 and key_stop == self.offset + stop
            hidden, needs_codes = None, self.codes is not None
            if self.bounds is not None:
                oldest, newest, contiguous = (_select_rows(x, rows)[:, tokens] for x in self.bounds)
                key_start, newest_stop = int(oldest.min()), int(newest.max()) + 1
                if on_diagonal:  # keep all columns of the triangle
                    key_start, newest_stop = min(key_start, diagonal), key_stop
                key_start = min(key_start, key_stop - 1)
                key_stop = max(min(key_stop, newest_stop), key_start + 1)
                # If all queries attend to all keys of the block, its codes hide none.
                needs_codes = not bool(
                    contiguous.all() and oldest.max() <= key_start and newest.min() >= key_stop - 1
                )
            if self.codes is not None and needs_codes:
                queries, keys = (_select_rows(x, rows) for x in self.codes)
                queries, keys = queries[:, tokens, None], keys[:, None, key_start:key_stop]
                hidden = (queries - keys).abs() > self.margin if self.margin else queries != keys
            if self.causal and not on_diagonal:
                positions = torch.arange(first, stop, device=self.device)[:, None] + self.offset
                later = torch.arange(key_start, key_stop, device=self.device) > positions
                hidden = later[None] if hidden is None else hidden | later
            if hidden is not None:
                hidden = hidden[:, None]
            # W - 1 is an odd multiple of 16: rows begin at cache lines and, unlike with a power of
            # two, do not all compete for the same few sets of the cache.
            negative = 0 if on_diagonal or not self.relative else max(0, stop - first - 2)
            width = 16 * (-(-(key_stop - key_start + negative) // 16) | 1) + 1
            first_row = self.queries - stop + key_start  # of the tables: the highest distance
            distances = slice(first_row, first_row + width)
            yield Block(tokens, slice(key_start, key_stop), distances, hidden, on_diagonal)

    def memory(self) -> Tensor:
        """Memory that is large enough for the logits of any block."""
        width = self.keys + (self.block if self.relative else 0) + SPARE
        count = self.tile_rows * self.tile_heads * self.block * width + 16
        return torch.empty(count, dtype=self.dtype, device=self.device)

    def views(self, memory: Tensor, count: int, block: Block) -> Views:
        """The views of ``memory`` for one block and ``count`` pairs of batch row and head."""
        m, w, width = (x.stop - x.start for x in (block.tokens, block.keys, block.distances))
        begin = (1 - m) % 16  # so that rows of ``by_key`` begin at cache lines
        key, rows = begin + m - 1, (m * width, width - 1, 1)
        return Views(
            memory[begin : begin + count * m * width].view(count, m, width),
            memory.as_strided((count, m, w), rows, key),
            memory.as_strided((count, m, width - 1 - w), rows, key + w),
        )

    def tokens(self, x: Tensor, tile: Tile) -> Tensor:
        """The part of x (B, H, T, D) in ``tile``, (g * h, T, D), in working precision."""
        return x[tile].to(self.dtype).reshape(-1, x.shape[2], x.shape[3])

    def split_heads(self, x: Tensor) -> Tensor:
        """(g * h, ...) -> (g, h, ...)."""
        return x.unflatten(0, (-1, self.tile_heads))

    def tables(self, x: Tensor | None, tile: Tile) -> Tensor | None:
        """(H, distances, D) -> (g * h, distances + SPARE, D): repeat the table for each batch row
        and append zeros for the columns that belong to no distance."""
        if x is None:
            return None
        rows, heads = tile
        x, count = x[heads], rows.stop - rows.start
        spare = x.new_zeros(1, dtype=self.dtype).expand(len(x), SPARE, x.shape[2])
        return torch.cat([x.to(self.dtype), spare], dim=1).repeat(count, 1, 1)

    def keep(self, shape: torch.Size) -> Tensor:
        """Which weights of the next block dropout keeps, bool of ``shape``. 16 random bits for each
        are five times as fast as random floats."""
        words = -(-shape.numel() // 4)
        bits = torch.empty(words, dtype=torch.int64, device=self.device)
        bits.random_(-(2**63), None, generator=self.generator)
        return (bits.view(torch.int16)[: shape.numel()] >= self.threshold).view(shape)


def bounds(queries: Tensor, keys: Tensor, margin: int) -> tuple[Tensor, Tensor, Tensor]:
    """Three tensors (1 or B, Tq): the first and the last key that each query may attend to by its
    code (Tk and -1 if there is none), and whether it may attend to all keys between them. The codes
    are ``queries`` (1 or B, Tq) and ``keys`` (1 or B, Tk)."""
    rows, count = max(len(queries), len(keys)), keys.shape[1]
    queries, keys = (x.expand(rows, -1).contiguous() for x in (queries, keys))
    codes, order = keys.sort(dim=1, stable=True)  # keys with equal codes stay in order
    oldest, newest = torch.full_like(queries, count), torch.full_like(queries, -1)
    attended = torch.zeros_like(queries)  # the number of keys
    for code in range(-margin, margin + 1):
        begin = torch.searchsorted(codes, queries + code)
        end = torch.searchsorted(codes, queries + code, right=True)
        absent = begin == end
        first = order.gather(1, begin.clamp(max=count - 1)).masked_fill(absent, count)
        last = order.gather(1, (end - 1).clamp(min=0)).masked_fill(absent, -1)
        oldest, newest = oldest.minimum(first), newest.maximum(last)
        attended += end - begin
    return oldest, newest, newest - oldest + 1 == attended


def _select_rows(x: Tensor, rows: slice) -> Tensor:
    """The batch rows ``rows`` of x (B, T); x (1, T) itself, whose single row is for all."""
    return x if len(x) == 1 else x[rows]
