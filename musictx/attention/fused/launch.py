"""From tensors to kernels: layouts, scratch memory, grids. Imports Triton."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from musictx.attention.fused import forward as forward_pass
from musictx.attention.fused import key as key_pass
from musictx.attention.fused import query as query_pass
from musictx.attention.fused import tile as tile_functions
from musictx.attention.fused.config import Tile, choose
from musictx.attention.fused.table_gradients import TableGradients

LOG2E = math.log2(math.e)


def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory with anything in it; tests put NaN there."""
    return torch.empty(shape, dtype=dtype, device=device)


def empty_like(x: Tensor) -> Tensor:
    """Memory laid out like x; tests put NaN there."""
    return torch.empty_like(x)


@dataclass
class Problem:
    """The arguments of the operators, laid out for the kernels.

    position         what meets the table instead of q (B, H, Tq, D), or None
    table, values    (H or 1, distances, D): the vectors that meet the query, that are added to v
    bias             (H or 1, distances)
    query_codes ...  what attention/fused/masks.py says; ``local``: codes may differ by 1
    row_random ...   random bits of each query and key, for dropout
    low, high        the distances that the tables begin and end with
    offset           query number i stands where key number ``offset + i`` stands
    """

    q: Tensor
    k: Tensor
    v: Tensor
    position: Tensor | None
    table: Tensor | None
    bias: Tensor | None
    values: Tensor | None
    query_codes: Tensor | None
    key_codes: Tensor | None
    key_first: Tensor | None
    key_stop: Tensor | None
    query_first: Tensor | None
    query_stop: Tensor | None
    row_random: Tensor | None
    column_random: Tensor | None
    low: int
    high: int
    offset: int
    causal: bool
    local: bool
    scale: float
    dropout: float
    deterministic: bool
    config_text: str

    def __post_init__(self) -> None:
        self.batch, self.heads, self.queries, self.size = self.q.shape
        self.keys = self.k.shape[2]
        self.q, self.k, self.v = (unit_stride(x) for x in (self.q, self.k, self.v))
        self.at = self.q if self.position is None else unit_stride(self.position)
        dtype, learned = self.q.dtype, (self.table, self.bias, self.values)
        self.config = choose(self.config_text, dtype, self.size, self.values is not None)
        table, values = (None if x is None else x.to(dtype) for x in (self.table, self.values))
        bias = None if self.bias is None else self.bias.float() * LOG2E
        self.tables = self._or_stand_in(table, bias, values)
        # From one head to the next; 0 where all heads share a table.
        self.table_strides = [0 if x is None or len(x) == 1 else x[0].numel() for x in learned]
        self.codes = self._or_stand_in(self.query_codes, self.key_codes)
        self.keys_seen = self._or_stand_in(self.key_first, self.key_stop)
        self.queries_seeing = self._or_stand_in(self.query_first, self.query_stop)
        self.random = self._or_stand_in(self.row_random, self.column_random)
        self.threshold = round(self.dropout * 2**24)
        self.kept_share = 1.0 - self.threshold / 2**24  # ``dropout`` rounded to 24 bits

    def _or_stand_in(self, *tensors: Tensor | None) -> list[Tensor]:
        """The tensors, laid out in order; of those that are not there, one that no kernel reads."""
        return [self.q if x is None else x.contiguous() for x in tensors]

    @property
    def flags(self) -> dict[str, Any]:
        """Compile-time constants that all kernels have."""
        half = self.q.dtype != torch.float32
        exact = torch.get_float32_matmul_precision() == "highest" and not half
        return {
            "D": self.size,
            "POSITION": self.position is not None,
            "PACKED": self.query_codes is not None,
            "LOCAL": self.local,
            "DROP": self.threshold > 0,
            "SKEW": tl.float16 if half else tl.float32,
            "PRECISION": "ieee" if exact else "tf32",
        }

    @property
    def aligned(self) -> bool:
        """Causal attention of the last tokens to all."""
        return self.causal and self.offset >= 0 and self.offset + self.queries == self.keys

    def edge(self, side: int) -> bool:
        """Whether tiles of keys, laid from a tile's first query on, reach beyond the keys."""
        whole = self.aligned or (not self.causal and self.keys % side == 0)
        return self.offset % side != 0 or not whole

    @property
    def terms(self) -> dict[str, bool]:
        """Further constants: which terms there are."""
        found = {"TABLE": self.table, "BIAS": self.bias, "VALUES": self.values}
        return {name: x is not None for name, x in found.items()} | {"CAUSAL": self.causal}

    def options(self, tile: Tile) -> dict[str, int]:
        return {"num_warps": tile.warps, "num_stages": tile.stages}


def unit_stride(x: Tensor) -> Tensor:
    """x with neighbouring numbers of a head side by side."""
    return x if x.stride(-1) == 1 and x.stride(-2) >= 0 else x.contiguous()


def strides(*tensors: Tensor) -> list[int]:
    """Strides of batch, head and token of each."""
    return [s for x in tensors for s in x.stride()[:3]]


def forward(p: Problem) -> tuple[Tensor, Tensor]:
    """Output and log of the sums of weights."""
    out = empty_like(p.q)
    log_sum = empty((p.batch, p.heads, p.queries), torch.float32, p.q.device)
    if out.numel() == 0:
        return out, log_sum
    tile = p.config.forward
    inputs = (p.q, p.at, p.k, p.v)
    places = strides(*inputs, out)
    numbers = (p.low, p.high, p.scale * LOG2E, p.threshold, 1 / p.kept_share)
    forward_pass.forward[(triton.cdiv(p.queries, tile.side) * p.batch * p.heads,)](
        *inputs, *p.tables, *p.codes, *p.keys_seen, *p.random, out, log_sum,
        *places, *p.table_strides, p.heads, p.queries, p.keys, p.offset, *numbers,
        T=tile.side, EDGE=p.edge(tile.side), **p.terms, **p.flags, **p.options(tile),
    )  # fmt: skip
    return out, log_sum


def backward(
    p: Problem, upstream: Tensor, out: Tensor, log_sum: Tensor, bias_gradient: bool
) -> tuple[Tensor, ...]:
    """Gradients of q, k, v, position, table, bias and values; see op.attention_backward."""
    dq, dk, dv = (empty_like(x) for x in (p.q, p.k, p.v))
    dposition = p.q.new_empty((0,)) if p.position is None else empty_like(p.at)
    tables = TableGradients(p, upstream, bias_gradient)
    if p.q.numel() == 0:
        dk.zero_()
        dv.zero_()
        return dq, dk, dv, dposition, *tables.all()
    up = unit_stride(upstream.to(p.q.dtype))
    if 0 in up.stride():  # expanded
        up = up.contiguous()
    delta = empty((p.batch, p.heads, p.queries), torch.float32, p.q.device)
    tile_functions.row_products[(triton.cdiv(p.queries, 64) * p.batch * p.heads,)](
        out, up, delta, *strides(out, up), p.heads, p.queries, D=p.size, T=64
    )
    _backward_query(p, up, log_sum, delta, tables, dq, dposition)
    _backward_key(p, up, log_sum, delta, dk, dv)
    return dq, dk, dv, dposition, *tables.all()


def _backward_query(
    p: Problem,
    up: Tensor,
    log_sum: Tensor,
    delta: Tensor,
    tables: TableGradients,
    dq: Tensor,
    dposition: Tensor,
) -> None:
    tile = p.config.query
    inputs = (p.q, p.at, p.k, p.v)
    sink = dq if p.position is None else dposition
    places = strides(*inputs, up, dq, sink)
    numbers = (p.low, p.high, tables.slots, p.scale * LOG2E, p.scale, p.threshold, 1 / p.kept_share)
    query_pass.backward_query[(triton.cdiv(p.queries, tile.side) * p.batch * p.heads,)](
        *inputs, *p.tables, *p.codes, *p.keys_seen, *p.random, up, log_sum, delta,
        tables.factor, dq, sink, tables.vectors, tables.numbers, tables.added,
        *places, *p.table_strides, p.heads, p.queries, p.keys, p.offset, *numbers,
        T=tile.side, BIAS_GRADIENT=tables.bias_gradient, FIXED=p.deterministic,
        EDGE=p.edge(tile.side), **p.terms, **p.flags, **p.options(tile),
    )  # fmt: skip


def _backward_key(
    p: Problem, up: Tensor, log_sum: Tensor, delta: Tensor, dk: Tensor, dv: Tensor
) -> None:
    tile = p.config.key
    inputs = (p.q, p.at, p.k, p.v)
    places = strides(*inputs, up, dk, dv)
    numbers = (p.low, p.high, p.scale * LOG2E, p.scale, p.threshold, 1 / p.kept_share)
    key_pass.backward_key[(triton.cdiv(p.keys, tile.side) * p.batch * p.heads,)](
        *inputs, *p.tables, *p.codes, *p.queries_seeing, *p.random,
        up, log_sum, delta, dk, dv,
        *places, *p.table_strides, p.heads, p.queries, p.keys, p.offset, *numbers,
        T=tile.side, **p.terms, **p.flags, **p.options(tile),
    )  # fmt: skip
