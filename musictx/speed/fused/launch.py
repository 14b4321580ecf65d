"""From tensors to kernels: layouts, scratch memory, grids. Imports Triton.

What speed/cuda can do and this GPU takes goes there: the passes agree on what they hand on.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from musictx.speed.cuda import kernel as cuda
from musictx.speed.fused import forward as forward_pass
from musictx.speed.fused import key as key_pass
from musictx.speed.fused import query as query_pass
from musictx.speed.fused import tile as tile_functions
from musictx.speed.fused.problem import LOG2E, Problem, unit_stride
from musictx.speed.fused.table_gradients import TableGradients


def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory with anything in it; tests put NaN there."""
    return torch.empty(shape, dtype=dtype, device=device)


def empty_like(x: Tensor) -> Tensor:
    """Memory laid out like x; tests put NaN there."""
    return torch.empty_like(x)


def strides(*tensors: Tensor) -> list[int]:
    """Strides of batch, head and token of each."""
    return [s for x in tensors for s in x.stride()[:3]]


def forward(p: Problem) -> tuple[Tensor, Tensor]:
    """Output and log of the sums of weights."""
    out = empty_like(p.q)
    log_sum = empty((p.batch, p.heads, p.queries), torch.float32, p.q.device)
    if out.numel() == 0:
        return out, log_sum
    if cuda.forward(p, out, log_sum):
        return out, log_sum
    tile = p.config.forward
    inputs = (p.q, p.k, p.v)
    numbers = (p.low, p.high, p.scale * LOG2E, p.threshold, 1 / p.kept_share)
    forward_pass.forward[(triton.cdiv(p.queries, tile.side) * p.batch * p.heads,)](
        *inputs, *p.tables, *p.codes, p.keys_seen, *p.random, out, log_sum,
        *strides(*inputs, out), *p.table_strides, p.heads, p.queries, p.keys, p.offset, *numbers,
        T=tile.side, EDGE=p.edge(tile.side), **p.terms, **p.flags, **p.options(tile),
    )  # fmt: skip
    return out, log_sum


def backward(
    p: Problem, upstream: Tensor, out: Tensor, log_sum: Tensor, bias_gradient: bool
) -> tuple[Tensor, ...]:
    """Gradients of q, k, v, table and bias; see op.attention_backward."""
    dq, dk, dv = (empty_like(x) for x in (p.q, p.k, p.v))
    tables = TableGradients(p, bias_gradient)
    if p.q.numel() == 0:
        dk.zero_()
        dv.zero_()
        return dq, dk, dv, *tables.all()
    up = unit_stride(upstream.to(p.q.dtype))
    if 0 in up.stride():  # expanded
        up = up.contiguous()
    if cuda.backward(p, up, out, log_sum, tables, dq, dk, dv):
        return dq, dk, dv, *tables.all()
    delta = empty((p.batch, p.heads, p.queries), torch.float32, p.q.device)
    tile_functions.row_products[(triton.cdiv(p.queries, 64) * p.batch * p.heads,)](
        out, up, delta, *strides(out, up), p.heads, p.queries, D=p.size, T=64
    )
    _backward_query(p, up, log_sum, delta, tables, dq)
    _backward_key(p, up, log_sum, delta, dk, dv)
    return dq, dk, dv, *tables.all()


def _backward_query(
    p: Problem, up: Tensor, log_sum: Tensor, delta: Tensor, tables: TableGradients, dq: Tensor
) -> None:
    tile = p.config.query
    inputs = (p.q, p.k, p.v)
    numbers = (p.low, p.high, tables.slots, p.scale * LOG2E, p.scale, p.threshold, 1 / p.kept_share)
    query_pass.backward_query[(triton.cdiv(p.queries, tile.side) * p.batch * p.heads,)](
        *inputs, *p.tables, *p.codes, p.keys_seen, *p.random, up, log_sum, delta,
        dq, tables.vectors, tables.numbers,
        *strides(*inputs, up, dq), *p.table_strides,
        p.heads, p.queries, p.keys, p.offset, *numbers,
        T=tile.side, BIAS_GRADIENT=tables.bias_gradient, EDGE=p.edge(tile.side),
        **p.terms, **p.flags, **p.options(tile),
    )  # fmt: skip


def _backward_key(
    p: Problem, up: Tensor, log_sum: Tensor, delta: Tensor, dk: Tensor, dv: Tensor
) -> None:
    tile = p.config.key
    inputs = (p.q, p.k, p.v)
    numbers = (p.low, p.high, p.scale * LOG2E, p.scale, p.threshold, 1 / p.kept_share)
    key_pass.backward_key[(triton.cdiv(p.keys, tile.side) * p.batch * p.heads,)](
        *inputs, *p.tables, *p.codes, p.queries_seeing, *p.random, up, log_sum, delta, dk, dv,
        *strides(*inputs, up, dk, dv), *p.table_strides,
        p.heads, p.queries, p.keys, p.offset, *numbers,
        T=tile.side, **p.terms, **p.flags, **p.options(tile),
    )  # fmt: skip
