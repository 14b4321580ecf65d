"""From tensors to kernels: layouts, scratch memory, grids. Imports Triton."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from musictx.attention.fused import common, gather, gather_backward, panel, panel_backward
from musictx.attention.fused.config import Config, Tile, choose

LOG2E = math.log2(math.e)
#: Memory for parts of the tables' gradients, as a share of the bytes of q: more parts, fewer
#: programs that add to the same place at once.
PARTS_SHARE = 0.5


def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory with anything in it; tests put NaN there."""
    return torch.empty(shape, dtype=dtype, device=device)


def empty_like(x: Tensor) -> Tensor:
    """Memory laid out like x; tests put NaN there."""
    return torch.empty_like(x)


@dataclass
class Problem:
    """The arguments of the operators, laid out for the kernels."""

    q: Tensor
    k: Tensor
    v: Tensor
    table: Tensor | None
    bias: Tensor | None
    first_query: Tensor | None
    first_key: Tensor | None
    last_query: Tensor | None
    row_random: Tensor | None
    column_random: Tensor | None
    low: int
    high: int
    scale: float
    dropout: float
    deterministic: bool
    config_text: str

    def __post_init__(self) -> None:
        self.batch, self.heads, self.queries, self.size = self.q.shape
        self.keys = self.k.shape[2]
        self.q, self.k, self.v = (unit_stride(x) for x in (self.q, self.k, self.v))
        self.config = choose(self.config_text, self.q.dtype, self.size)
        dummy = self.q
        self.vectors = dummy if self.table is None else self.table.to(self.q.dtype).contiguous()
        self.numbers = dummy if self.bias is None else (self.bias.float() * LOG2E).contiguous()
        rows = self.high - self.low + 1
        self.vector_stride = rows * self.size if self._per_head(self.table) else 0
        self.number_stride = rows if self._per_head(self.bias) else 0
        self.threshold = round(self.dropout * 2**24)
        self.kept_share = 1.0 - self.threshold / 2**24  # ``dropout`` rounded to 24 bits

    @staticmethod
    def _per_head(values: Tensor | None) -> bool:
        return values is not None and values.shape[0] > 1

    @property
    def masks(self) -> tuple[Tensor, Tensor, Tensor]:
        """first_query, first_key, last_query, or stand-ins that no kernel reads."""
        return tuple(
            self.q if x is None else x.contiguous()
            for x in (self.first_query, self.first_key, self.last_query)
        )  # type: ignore[return-value]

    @property
    def random(self) -> tuple[Tensor, Tensor]:
        """row_random, column_random, or stand-ins."""
        return tuple(
            self.q if x is None else x.contiguous() for x in (self.row_random, self.column_random)
        )  # type: ignore[return-value]

    @property
    def flags(self) -> dict[str, Any]:
        """Compile-time constants that all kernels have."""
        half = self.q.dtype != torch.float32
        exact = torch.get_float32_matmul_precision() == "highest" and not half
        return {
            "D": self.size,
            "PACKED": self.first_query is not None,
            "DROP": self.threshold > 0,
            "SKEW": tl.float16 if half else tl.float32,
            "PRECISION": "ieee" if exact else "tf32",
        }

    def panel(self, tile: Tile) -> bool:
        """Whether this pass goes by plan panel; not when there is nothing to skew, or a bias."""
        return tile.plan == "panel" and self.table is not None and self.bias is None

    def square(self, tile: Tile) -> int:
        """The side of plan gather's tiles."""
        return min(tile.queries, tile.keys)

    def cells(self, tile: Tile) -> dict[str, int]:
        """Sizes of plan panel: queries and keys to a tile, distances at a time, the segment."""
        sizes = {"M": tile.queries, "N": tile.keys, "C": min(64, tile.queries, tile.keys)}
        return sizes | {"SEGMENT": self.config.segment}

    def edge(self, queries: int, keys: int) -> bool:
        """Whether tiles of keys, laid backwards from a tile's first query, reach before key 0."""
        return (self.keys - self.queries) % keys != 0 or queries % keys != 0

    @property
    def terms(self) -> dict[str, bool]:
        return {"TABLE": self.table is not None, "BIAS": self.bias is not None}

    def options(self, tile: Tile) -> dict[str, int]:
        return {"num_warps": tile.warps, "num_stages": tile.stages}

    @property
    def programs(self) -> int:
        """Persistent programs of plan panel."""
        if not self.q.is_cuda:
            return 3
        properties = torch.cuda.get_device_properties(self.q.device)
        return properties.multi_processor_count * self.config.programs

    def panels(self, tile: Tile, segment: int, count: int = 1) -> Tensor:
        """``count`` panels for each program; see attention/fused/panel.py."""
        size = tile.queries * (segment + tile.queries + 1) + 2 * tile.queries
        return empty((self.programs, count * size), self.skew_dtype, self.q.device)

    @property
    def skew_dtype(self) -> torch.dtype:
        """Relative logits of inputs of 16 bits keep 11 bits: free, where bfloat16's 8 are not."""
        return torch.float32 if self.q.dtype == torch.float32 else torch.float16


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
    first_query, first_key, _ = p.masks
    numbers = (p.scale * LOG2E, p.threshold, 1 / p.kept_share)
    if p.panel(tile):
        scratch = p.panels(tile, p.config.segment)
        panel.forward[(p.programs,)](
            p.q, p.k, p.v, p.vectors, first_query, first_key, *p.random, scratch, out, log_sum,
            *strides(p.q, p.k, p.v, out), p.vector_stride,
            p.batch * p.heads, p.heads, p.queries, p.keys, p.low, p.high, *numbers,
            **p.cells(tile), EDGE=p.edge(tile.queries, tile.keys), **p.flags, **p.options(tile),
        )  # fmt: skip
    else:
        side = p.square(tile)
        gather.forward[(triton.cdiv(p.queries, side) * p.batch * p.heads,)](
            p.q, p.k, p.v, p.vectors, p.numbers, first_query, first_key, *p.random, out, log_sum,
            *strides(p.q, p.k, p.v, out), p.vector_stride, p.number_stride,
            p.heads, p.queries, p.keys, p.low, p.high, *numbers,
            T=side, EDGE=p.edge(side, side), **p.terms, **p.flags, **p.options(tile),
        )  # fmt: skip
    return out, log_sum


def backward(
    p: Problem, upstream: Tensor, out: Tensor, log_sum: Tensor, bias_gradient: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, the table and the bias."""
    dq, dk, dv = (empty_like(x) for x in (p.q, p.k, p.v))
    if p.q.numel() == 0:
        dk.zero_()
        dv.zero_()
    tables = _TableGradients(p, upstream, bias_gradient)
    if p.q.numel() == 0:
        return dq, dk, dv, tables.table(), tables.bias()
    up = unit_stride(upstream.to(p.q.dtype))
    if 0 in up.stride():  # expanded
        up = up.contiguous()
    delta = empty((p.batch, p.heads, p.queries), torch.float32, p.q.device)
    common.row_products[(triton.cdiv(p.queries, 64) * p.batch * p.heads,)](
        out, up, delta, *strides(out, up), p.heads, p.queries, D=p.size, T=64
    )
    first_query, first_key, last_query = p.masks
    numbers = (p.scale * LOG2E, p.scale, p.threshold, 1 / p.kept_share)
    inputs = (p.q, p.k, p.v, p.vectors)
    tile = p.config.query
    if p.panel(tile):
        scratch = p.panels(tile, p.config.segment)
        gradients = torch.zeros_like(scratch, dtype=p.q.dtype)
        panel_backward.backward_query[(p.programs,)](
            *inputs, first_query, first_key, *p.random, scratch, gradients, up,
            log_sum, delta, tables.factor, dq, tables.vectors,
            *strides(p.q, p.k, p.v, up, dq), p.vector_stride, p.batch * p.heads,
            p.heads, p.queries, p.keys, p.low, p.high, tables.slots, *numbers,
            **p.cells(tile), EDGE=p.edge(tile.queries, tile.keys), FIXED=p.deterministic, **p.flags,
            **p.options(tile),
        )  # fmt: skip
    else:
        side = p.square(tile)
        gather_backward.backward_query[(triton.cdiv(p.queries, side) * p.batch * p.heads,)](
            *inputs, p.numbers, first_query, first_key, *p.random, up, log_sum, delta,
            tables.factor, dq, tables.vectors, tables.numbers,
            *strides(p.q, p.k, p.v, up, dq), p.vector_stride, p.number_stride,
            p.heads, p.queries, p.keys, p.low, p.high, tables.slots, *numbers,
            T=side, BIAS_GRADIENT=bias_gradient, FIXED=p.deterministic,
            EDGE=p.edge(side, side), **p.terms, **p.flags, **p.options(tile),
        )  # fmt: skip
    tile = p.config.key
    if p.panel(tile):
        scratch = p.panels(tile, tile.keys, p.config.segment // tile.queries)
        panel_backward.backward_key[(p.programs,)](
            *inputs, first_query, first_key, last_query, *p.random, scratch, up, log_sum, delta,
            dk, dv, *strides(p.q, p.k, p.v, up, dk, dv), p.vector_stride, p.batch * p.heads,
            p.heads, p.queries, p.keys, p.low, p.high, *numbers,
            **p.cells(tile), **p.flags, **p.options(tile),
        )  # fmt: skip
    else:
        side = p.square(tile)
        gather_backward.backward_key[(triton.cdiv(p.keys, side) * p.batch * p.heads,)](
            *inputs, p.numbers, first_query, first_key, last_query, *p.random, up, log_sum, delta,
            dk, dv, *strides(p.q, p.k, p.v, up, dk, dv), p.vector_stride, p.number_stride,
            p.heads, p.queries, p.keys, p.low, p.high, *numbers,
            T=side, **p.terms, **p.flags, **p.options(tile),
        )  # fmt: skip
    return dq, dk, dv, tables.table(), tables.bias()


class _TableGradients:
    """Where programs add up their parts of the gradients of the table and the bias.

    ``slots`` copies lessen waiting for one another: pair number bh of (batch row, head) adds to
    slot bh % slots, a multiple of the heads where tables are per head. float32, or for
    deterministic runs one slot per head of int64 in units of 1 / factor. The factor is a power of
    two such that no sum can overflow: by |dS| <= w (|dP| + |delta|) a sum over all weights is at
    most 2 / kept share * max|v_j| * sum |do_i| * max|q|, and for the bias likewise.
    """

    def __init__(self, p: Problem, upstream: Tensor, bias_gradient: bool) -> None:
        self.p, self.bias_gradient = p, bias_gradient
        device = p.q.device
        rows = p.high - p.low + 1
        per_head = p.vector_stride > 0 or p.number_stride > 0
        pairs = p.batch * p.heads
        group = p.heads if per_head else 1
        room = p.q.numel() * p.q.element_size() * PARTS_SHARE
        most = int(room // max(1, group * rows * p.size * 4))
        copies = 1 if p.deterministic else max(1, min(pairs // group, most, 16))
        self.slots = group * copies
        dtype = torch.int64 if p.deterministic else torch.float32
        shape = (self.slots, rows)
        self.numbers = self.vectors = p.q  # stand-ins that no kernel writes
        if p.table is not None:
            self.vectors = torch.zeros(*shape, p.size, dtype=dtype, device=device)
        if bias_gradient:
            self.numbers = torch.zeros(shape, dtype=dtype, device=device)
        self.factor = p.q
        if p.deterministic and p.q.numel():
            longest_value = p.v.float().norm(dim=-1).amax()
            pull = upstream.float().norm(dim=-1).sum()
            largest = torch.clamp(p.q.abs().amax().float(), min=1.0)
            bound = 2 / p.kept_share * longest_value * pull * largest
            # Of no finite bound comes NaN, and so the gradient is what it should be: NaN.
            power = torch.floor(60 - torch.log2(bound.clamp(min=2.0**-60)))
            self.factor = torch.exp2(power.clamp(max=120.0)).reshape(1)

    def _sum(self, parts: Tensor, like: Tensor, scale: float) -> Tensor:
        if self.p.deterministic:
            parts = (parts.double() / self.factor.double()).float()
        # Slot number s belongs to head s % heads.
        parts = parts.view(-1, like.shape[0], *parts.shape[1:])
        total = parts[0] if len(parts) == 1 else parts.sum(0)
        return (total * scale).to(like.dtype)

    def table(self) -> Tensor:
        if self.p.table is None:
            return self.p.q.new_empty((0,))
        return self._sum(self.vectors, self.p.table, self.p.scale)

    def bias(self) -> Tensor:
        if self.p.bias is None or not self.bias_gradient:
            return self.p.q.new_empty((0,))
        return self._sum(self.numbers, self.p.bias, 1.0)


__all__ = ["Config", "Problem", "backward", "forward"]
