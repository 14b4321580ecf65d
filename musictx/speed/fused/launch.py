"""Launch the fused kernels: strides, memory, grids. Imports Triton.

Problems that speed/cuda supports on this GPU are computed there. The backward pass of one can
follow the forward pass of the other, because both save the same tensors in the same units.
"""

from __future__ import annotations

import triton
from torch import Tensor

from musictx.speed.cuda import kernel as cuda
from musictx.speed.fused import forward as forward_pass
from musictx.speed.fused import key as key_pass
from musictx.speed.fused import problem
from musictx.speed.fused import query as query_pass
from musictx.speed.fused import tile as tile_functions
from musictx.speed.fused.problem import LOG2E, Problem, TableGradients


def strides(*tensors: Tensor) -> list[int]:
    """The strides from one batch row, head and token to the next, of each tensor."""
    return [s for x in tensors for s in x.stride()[:3]]


def grid(p: Problem, tokens: int, side: int) -> tuple[int]:
    """A grid of one program for each tile of ``side`` tokens of each (batch row, head)."""
    return (triton.cdiv(tokens, side) * p.batch * p.heads,)


def forward(p: Problem, out: Tensor, log_sum: Tensor) -> None:
    """Write the output and the log of the sums of weights."""
    if cuda.forward(p, out, log_sum):
        return
    tile = p.tiles.forward
    forward_pass.forward[grid(p, p.queries, tile.side)](
        p.q, p.k, p.v, *p.tables, *p.codes, p.key_first, *p.random, out, log_sum,
        *strides(p.q, p.k, p.v, out), *p.table_strides, p.heads, p.queries, p.keys, p.offset,
        p.low, p.high, p.scale * LOG2E, p.threshold, 1 / p.kept_share,
        EDGE=p.has_edge(tile), **p.constants(tile),
    )  # fmt: skip


def backward(
    p: Problem, upstream: Tensor, out: Tensor, log_sum: Tensor, bias_gradient: bool
) -> tuple[Tensor | None, ...]:
    """Gradients of q, k, v, table and bias; ``None`` for a missing table or bias, and for the bias
    if ``bias_gradient`` is false."""
    dq, dk, dv = (problem.empty_like(x) for x in (p.q, p.k, p.v))
    tables = TableGradients(p, bias_gradient)
    up = problem.unit_stride(upstream.to(p.q.dtype))
    if 0 in up.stride():  # an expanded tensor has no memory for each row
        up = up.contiguous()
    if cuda.backward(p, up, out, log_sum, tables, (dq, dk, dv)):
        return dq, dk, dv, *tables.sums()
    inner = problem.empty((p.batch, p.heads, p.queries), p.q.device)
    tile_functions.inner_products[grid(p, p.queries, 64)](
        out, up, inner, *strides(out, up), p.heads, p.queries, D=p.size, T=64
    )
    common = (p.q, p.k, p.v, *p.tables, *p.codes)
    query_inputs = (*p.random, up, log_sum, inner)
    sizes = (*p.table_strides, p.heads, p.queries, p.keys, p.offset, p.low, p.high)
    tile = p.tiles.query
    query_pass.backward_query[grid(p, p.queries, tile.side)](
        *common, p.key_first, *query_inputs, dq, tables.table_copies, tables.bias_copies,
        *strides(p.q, p.k, p.v, up, dq), *sizes,
        tables.slots, p.scale * LOG2E, p.scale, p.threshold, 1 / p.kept_share,
        BIAS_GRADIENT=tables.bias_gradient, EDGE=p.has_edge(tile), **p.constants(tile),
    )  # fmt: skip
    tile = p.tiles.key
    key_pass.backward_key[grid(p, p.keys, tile.side)](
        *common, p.query_stop, *query_inputs, dk, dv,
        *strides(p.q, p.k, p.v, up, dk, dv), *sizes,
        p.scale * LOG2E, p.scale, p.threshold, 1 / p.kept_share, **p.constants(tile),
    )  # fmt: skip
    return dq, dk, dv, *tables.sums()
