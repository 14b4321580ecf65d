"""The arguments of the fused kernels, their tiles, and memory for their results. Does not import
Triton."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

LOG2E = math.log2(math.e)
#: The most copies in ``TableGradients``: their memory as a share of that of q, and their number.
COPIES_SHARE, MOST_COPIES = 0.5, 16

#: Head sizes that the kernel supports; 16, the smallest for tensor cores, is for tests.
HEAD_DIMS = (16, 32, 64, 128)


class Tile(NamedTuple):
    """A tile of ``side`` queries and ``side`` keys, computed by ``warps`` warps with ``stages``
    pipeline stages."""

    side: int
    warps: int
    stages: int


class Tiles(NamedTuple):
    """The tiles of the three passes."""

    forward: Tile
    query: Tile  # the backward pass over queries: dq and the gradients of the tables
    key: Tile  # the backward pass over keys: dk and dv


def choose_tiles(dtype: torch.dtype, head_dim: int) -> Tiles:
    """The tiles for a dtype and a head size: for 16 bits and head size 64 the fastest on an H200,
    otherwise those with the fewest register spills (scripts/LOG.md)."""
    if dtype == torch.float32:
        tile = Tile(16, 8, 1)
        return Tiles(tile, tile, tile)
    if head_dim == 128:
        return Tiles(Tile(64, 8, 2), Tile(64, 8, 1), Tile(64, 8, 1))
    return Tiles(Tile(64, 4, 3), Tile(64, 4, 2), Tile(64, 4, 2))


def empty(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Uninitialised float32 memory; tests fill it with NaN."""
    return torch.empty(shape, dtype=torch.float32, device=device)


def unit_stride(x: Tensor) -> Tensor:
    """x, copied unless the numbers of each head are adjacent in memory."""
    return x if x.stride(-1) == 1 and x.stride(-2) >= 0 else x.contiguous()


def empty_like(x: Tensor) -> Tensor:
    """Uninitialised memory with the strides of :func:`unit_stride` of x; tests fill it with NaN."""
    return torch.empty_like(unit_stride(x))


@dataclass
class Problem:
    """The arguments of the operator, converted for the kernels.

    table, bias      (H or 1, distances, D) and (H or 1, distances)
    query_codes, key_codes, query_stop  see ``Mask`` in speed/fused/masks.py
    row_random, column_random           random bits of each query and key, for dropout
    low, high        the distances of the first and the last row of the tables
    """

    q: Tensor
    k: Tensor
    v: Tensor
    table: Tensor | None
    bias: Tensor | None
    query_codes: Tensor | None
    key_codes: Tensor | None
    query_stop: Tensor | None
    row_random: Tensor | None
    column_random: Tensor | None
    low: int
    high: int
    scale: float
    dropout: float

    def __post_init__(self) -> None:
        self.batch, self.heads, self.queries, self.size = self.q.shape
        self.keys = self.k.shape[2]
        #: Query i has the position of key ``offset + i``.
        self.offset = self.keys - self.queries
        self.q, self.k, self.v = (unit_stride(x) for x in (self.q, self.k, self.v))
        self.tiles = choose_tiles(self.q.dtype, self.size)
        table = None if self.table is None else self.table.to(self.q.dtype)
        bias = None if self.bias is None else self.bias.float() * LOG2E
        self.tables = self._with_placeholders(table, bias)
        #: The strides of table and bias from one head to the next; 0 if all heads share them.
        self.table_strides = [
            0 if x is None or len(x) == 1 else x[0].numel() for x in (self.table, self.bias)
        ]
        self.codes = self._with_placeholders(self.query_codes, self.key_codes)
        #: The first key that each query attends to, which is its code.
        self.key_first = self.codes[0]
        (self.query_stop,) = self._with_placeholders(self.query_stop)
        self.random = self._with_placeholders(self.row_random, self.column_random)
        self.threshold = round(self.dropout * 2**24)
        self.kept_share = 1.0 - self.threshold / 2**24  # ``dropout`` rounded to 24 bits

    def _with_placeholders(self, *tensors: Tensor | None) -> list[Tensor]:
        """Make the tensors contiguous; replace None by q, which takes its place unused."""
        return [self.q if x is None else x.contiguous() for x in tensors]

    def constants(self, tile: Tile) -> dict[str, Any]:
        """The constants for which the kernels are compiled, and their warps and stages."""
        from triton import language as tl

        is_float32 = self.q.dtype == torch.float32
        is_exact = is_float32 and torch.get_float32_matmul_precision() == "highest"
        return {
            "D": self.size,
            "T": tile.side,
            "TABLE": self.table is not None,
            "BIAS": self.bias is not None,
            "PACKED": self.query_codes is not None,
            "DROP": self.threshold > 0,
            "SKEW": tl.float32 if is_float32 else tl.float16,
            "PRECISION": "ieee" if is_exact else "tf32",
            "num_warps": tile.warps,
            "num_stages": tile.stages,
        }

    def has_edge(self, tile: Tile) -> bool:
        """Whether a tile may begin before the first key, because tiles are aligned with queries."""
        return self.offset % tile.side != 0


class TableGradients:
    """float32 memory in which programs accumulate the gradients of the tables.

    There are ``slots`` copies, so that fewer programs add to the same address at the same time:
    (batch row, head) pair number bh adds to copy bh % slots. If each head has a table of its own,
    ``slots`` is a multiple of the number of heads.
    """

    def __init__(self, p: Problem, bias_gradient: bool) -> None:
        self.p, self.bias_gradient = p, bias_gradient
        rows = p.high - p.low + 1
        group = p.heads if any(p.table_strides) else 1
        budget = p.q.numel() * p.q.element_size() * COPIES_SHARE
        affordable = int(budget // max(1, group * rows * p.size * 4))
        self.slots = group * max(1, min(p.batch * p.heads // group, affordable, MOST_COPIES))

        def copies(needed: bool, *shape: int) -> Tensor:
            if not needed:
                return p.q  # any tensor: no kernel writes it
            return torch.zeros(self.slots, *shape, dtype=torch.float32, device=p.q.device)

        self.table_copies = copies(p.table is not None, rows, p.size)
        self.bias_copies = copies(bias_gradient, rows)

    def sums(self) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of the table and of the bias, ``None`` for those without copies."""
        table = self._sum(self.table_copies, self.p.table, self.p.scale)
        return table, self._sum(self.bias_copies, self.p.bias, 1.0)

    def _sum(self, copies: Tensor, parameter: Tensor | None, scale: float) -> Tensor | None:
        if parameter is None or copies is self.p.q:
            return None
        # Copy s belongs to head s % heads.
        total = copies.view(-1, len(parameter), *copies.shape[1:]).sum(0)
        return (total * scale).to(parameter.dtype)
