"""The arguments of the fused kernels, laid out for them, and the memory in which they add up the
gradients of tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from musictx.speed.fused.config import Tile, choose
from musictx.speed.fused.memory import unit_stride

LOG2E = math.log2(math.e)
#: Memory for partial sums of the gradients, as a share of the bytes of q: with more of them, fewer
#: programs add to the same address at once.
PARTS_SHARE = 0.5


@dataclass
class Problem:
    """The arguments of the operator, laid out for the kernels.

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
        #: Query number i has the position of key number ``offset + i``.
        self.offset = self.keys - self.queries
        self.q, self.k, self.v = (unit_stride(x) for x in (self.q, self.k, self.v))
        self.config = choose(self.q.dtype, self.size)
        table = None if self.table is None else self.table.to(self.q.dtype)
        bias = None if self.bias is None else self.bias.float() * LOG2E
        self.tables = self._or_stand_in(table, bias)
        # The stride from one head to the next; 0 if all heads share a table.
        learned = (self.table, self.bias)
        self.table_strides = [0 if x is None or len(x) == 1 else x[0].numel() for x in learned]
        self.codes = self._or_stand_in(self.query_codes, self.key_codes)
        #: The first key that each query sees, and the query after the last that sees each key.
        self.keys_seen, (self.queries_seeing,) = self.codes[0], self._or_stand_in(self.query_stop)
        self.random = self._or_stand_in(self.row_random, self.column_random)
        self.threshold = round(self.dropout * 2**24)
        self.kept_share = 1.0 - self.threshold / 2**24  # ``dropout`` rounded to 24 bits

    def _or_stand_in(self, *tensors: Tensor | None) -> list[Tensor]:
        """Make the tensors contiguous; replace None by a stand-in that no kernel reads."""
        return [self.q if x is None else x.contiguous() for x in tensors]

    def constants(self, tile: Tile) -> dict[str, Any]:
        """The constants for which the kernels are compiled, and their warps and stages."""
        half = self.q.dtype != torch.float32
        exact = torch.get_float32_matmul_precision() == "highest" and not half
        return {
            "D": self.size,
            "T": tile.side,
            "TABLE": self.table is not None,
            "BIAS": self.bias is not None,
            "PACKED": self.query_codes is not None,
            "DROP": self.threshold > 0,
            "SKEW": tl.float16 if half else tl.float32,
            "PRECISION": "ieee" if exact else "tf32",
            "num_warps": tile.warps,
            "num_stages": tile.stages,
        }

    def edge(self, tile: Tile) -> bool:
        """Whether tiles of keys, laid from a tile's first query on, reach before the first key."""
        return self.offset % tile.side != 0


class TableGradients:
    """Memory in which programs add up their parts of the gradients of the tables, in float32.

    There are ``slots`` copies, so that programs wait for each other less: pair number bh of
    (batch row, head) adds to slot bh % slots. If each head has a table, ``slots`` is a multiple of
    the number of heads.
    """

    def __init__(self, p: Problem, bias_gradient: bool) -> None:
        self.p, self.bias_gradient = p, bias_gradient
        rows = p.high - p.low + 1
        group = p.heads if any(p.table_strides) else 1
        room = p.q.numel() * p.q.element_size() * PARTS_SHARE
        most = int(room // max(1, group * rows * p.size * 4))
        self.slots = group * max(1, min(p.batch * p.heads // group, most, 16))

        def parts(needed: bool, *shape: int) -> Tensor:
            if not needed:
                return p.q  # a stand-in that no kernel writes
            return torch.zeros(self.slots, *shape, dtype=torch.float32, device=p.q.device)

        self.vectors = parts(p.table is not None, rows, p.size)
        self.numbers = parts(bias_gradient, rows)

    def sums(self) -> tuple[Tensor | None, Tensor | None]:
        """Gradients of the table and of the bias."""
        vectors = self._sum(self.vectors, self.p.table, self.p.scale)
        return vectors, self._sum(self.numbers, self.p.bias, 1.0)

    def _sum(self, parts: Tensor, like: Tensor | None, scale: float) -> Tensor | None:
        if like is None or parts is self.p.q:
            return None
        # Slot number s belongs to head s % heads.
        parts = parts.view(-1, len(like), *parts.shape[1:])
        total = parts[0] if len(parts) == 1 else parts.sum(0)
        return (total * scale).to(like.dtype)
