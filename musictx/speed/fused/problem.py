"""What the kernels are asked to compute, laid out for them."""

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


@dataclass
class Problem:
    """The arguments of the operator, laid out for the kernels.

    table, bias      (H or 1, distances, D) and (H or 1, distances)
    query_codes ...  what speed/fused/masks.py says
    row_random ...   random bits of each query and key, for dropout
    low, high        the distances that the tables begin and end with
    """

    q: Tensor
    k: Tensor
    v: Tensor
    table: Tensor | None
    bias: Tensor | None
    query_codes: Tensor | None
    key_codes: Tensor | None
    key_first: Tensor | None
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
        #: Query number i stands where key number ``offset + i`` stands.
        self.offset = self.keys - self.queries
        self.q, self.k, self.v = (unit_stride(x) for x in (self.q, self.k, self.v))
        self.config = choose(self.q.dtype, self.size)
        table = None if self.table is None else self.table.to(self.q.dtype)
        bias = None if self.bias is None else self.bias.float() * LOG2E
        self.tables = self._or_stand_in(table, bias)
        # From one head to the next; 0 where all heads share a table.
        learned = (self.table, self.bias)
        self.table_strides = [0 if x is None or len(x) == 1 else x[0].numel() for x in learned]
        self.codes = self._or_stand_in(self.query_codes, self.key_codes)
        self.keys_seen, self.queries_seeing = self._or_stand_in(self.key_first, self.query_stop)
        self.random = self._or_stand_in(self.row_random, self.column_random)
        self.threshold = round(self.dropout * 2**24)
        self.kept_share = 1.0 - self.threshold / 2**24  # ``dropout`` rounded to 24 bits

    def _or_stand_in(self, *tensors: Tensor | None) -> list[Tensor]:
        """The tensors, laid out in order; of those that are not there, one that no kernel reads."""
        return [self.q if x is None else x.contiguous() for x in tensors]

    def constants(self, tile: Tile) -> dict[str, Any]:
        """For what the kernels are compiled."""
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
