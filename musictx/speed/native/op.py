"""The kernel as operators of torch, so that autograd, compilation and autocast know it.

``musictx::native_attention`` returns the output and the log of each row's sum of weights, both
float32; ``musictx::native_attention_backward`` the gradients, float32. Nothing else is saved:
logits are computed again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from musictx.speed.kernels import define, twice
from musictx.speed.native import library

BLOCK, RUN = 128, 1024  # queries and keys at a time

_TENSORS = 7  # leading arguments of the forward operator that are tensors
_INPUTS = (
    "Tensor q, Tensor k, Tensor v, Tensor? table, Tensor? bias, Tensor? query_pieces, "
    "Tensor? key_pieces, float scale, float dropout, int seed"
)


def _forward(q: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    """(out (B, H, Tq, D), log sum of weights (B, H, Tq)), float32; see :func:`_problem`."""
    out, log_sum = _shapes(q)
    problem = _problem(q, *others)
    problem.point(out=out, log_sum=log_sum)
    library.load().run(False, problem)
    return out, log_sum


def _gradients(upstream: Tensor, out: Tensor, log_sum: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
    """Gradients of q, k, v, table and bias, float32; of what is not there, an empty tensor."""
    q, k, _, table, bias = inputs[:5]
    batch, heads, keys, size = k.shape
    dq = torch.empty(q.shape, dtype=torch.float32)
    dk, dv = (torch.zeros(k.shape, dtype=torch.float32) for _ in range(2))
    # One for each batch row and head, added up below in a fixed order.
    dtable = None if table is None else torch.zeros(batch, heads, keys, size)
    dbias = None if bias is None else torch.zeros(batch, heads, keys)
    problem = _problem(*inputs)
    upstream = upstream.to(_dtype(q)).contiguous()
    problem.point(upstream=upstream, out=out, log_sum=log_sum)
    problem.point(dq=dq, dk=dk, dv=dv, dtable=dtable, dbias=dbias)
    library.load().run(True, problem)
    return dq, dk, dv, _added_up(dtable, table), _added_up(dbias, bias)


def _added_up(each: Tensor | None, like: Tensor | None) -> Tensor:
    if each is None or like is None:
        return torch.empty(0)
    summed = each.sum(0)
    return summed.sum(0, keepdim=True) if like.shape[0] < summed.shape[0] else summed


def _dtype(q: Tensor) -> torch.dtype:
    """In what the kernel multiplies inputs like q."""
    half = q.dtype == torch.bfloat16 and library.load().bf16
    return torch.bfloat16 if half else torch.float32


def _problem(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor | None,
    bias: Tensor | None,
    query_pieces: Tensor | None,
    key_pieces: Tensor | None,
    scale: float,
    dropout: float,
    seed: int,
) -> library.Problem:
    """What the kernel reads, dense.

    q (B, H, Tq, D), the last Tq of the Tk tokens, k and v (B, H, Tk, D): of one dtype. Products are
    float32, or of bfloat16 where the inputs are and the library has ``bf16``. table (H or 1, Tk,
    D), perhaps a float32 master, and bias (H or 1, Tk) in descending distance, any dtype.
    """
    dtype, dropped = _dtype(q), round(dropout * 2**32)
    problem = library.Problem(
        batch=q.shape[0],
        heads=q.shape[1],
        queries=q.shape[2],
        keys=k.shape[2],
        size=q.shape[3],
        table_heads=0 if table is None else table.shape[0],
        bias_heads=0 if bias is None else bias.shape[0],
        block=BLOCK,
        run=max(RUN, 2 * BLOCK),
        threads=torch.get_num_threads(),
        bf16=dtype == torch.bfloat16,
        seed=seed,
        dropped=dropped,
        scale=scale,
        kept=1.0 - dropped / 2**32,
    )
    read = {"q": q.to(dtype), "k": k.to(dtype), "v": v.to(dtype)}
    optional = {"table": (table, dtype), "bias": (bias, torch.float32)}
    optional |= {"query_pieces": (query_pieces, torch.int64)}
    optional |= {"key_pieces": (key_pieces, torch.int64)}
    read |= {name: x.to(kind) for name, (x, kind) in optional.items() if x is not None}
    problem.point(**{name: x.contiguous() for name, x in read.items()})
    return problem


def _shapes(q: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return (
        q.new_empty(q.shape, dtype=torch.float32),
        q.new_empty(q.shape[:3], dtype=torch.float32),
    )


def _gradient_shapes(
    upstream: Tensor, out: Tensor, log_sum: Tensor, *inputs: Any
) -> tuple[Tensor, ...]:
    return tuple(
        upstream.new_empty((0,) if x is None else x.shape, dtype=torch.float32) for x in inputs[:5]
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:_TENSORS], *output)
    ctx.mark_non_differentiable(output[1])
    ctx.constants = inputs[_TENSORS:]


def _backward(ctx: Any, upstream: Tensor, _log_sum: Tensor | None) -> tuple[Tensor | None, ...]:
    *inputs, out, log_sum = ctx.saved_tensors
    gradients = attention_backward(upstream, out, log_sum, *inputs, *ctx.constants)
    grads = [None if x is None else g.to(x.dtype) for x, g in zip(inputs, gradients)]
    return (*grads, *[None] * (2 + len(ctx.constants)))


attention_backward = define(
    "native_attention_backward",
    f"(Tensor upstream, Tensor out, Tensor log_sum, {_INPUTS}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _gradients,
    _gradient_shapes,
    backward=twice,
)
attention = define(
    "native_attention",
    f"({_INPUTS}) -> (Tensor, Tensor)",
    _forward,
    _shapes,
    setup=_setup,
    backward=_backward,
)
