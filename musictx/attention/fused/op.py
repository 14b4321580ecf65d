"""The fused kernel as operators of torch, so that autograd, compilation and autocast know it.

``musictx::fused_attention`` returns the output and the log of each row's sum of weights (base 2);
``musictx::fused_attention_backward`` the gradients. Nothing else is saved: logits are computed
again. The table may be a float32 master beside inputs of 16 bits: it is cast once a call, and its
gradient is float32 until the end.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

_TERMS = (
    "Tensor? table, Tensor? bias, Tensor? first_query, Tensor? first_key, Tensor? last_query, "
    "Tensor? row_random, Tensor? column_random, int low, int high, float scale, float dropout, "
    "bool deterministic, str config"
)
_TENSORS = 10  # leading arguments of the forward operator that are tensors


def _device(x: Tensor) -> AbstractContextManager[Any]:
    """Triton starts kernels on the current GPU: make it the one that holds x."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


@torch.library.custom_op(
    "musictx::fused_attention",
    mutates_args=(),
    schema=f"(Tensor q, Tensor k, Tensor v, {_TERMS}) -> (Tensor, Tensor)",
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor | None,
    bias: Tensor | None,
    first_query: Tensor | None,
    first_key: Tensor | None,
    last_query: Tensor | None,
    row_random: Tensor | None,
    column_random: Tensor | None,
    low: int,
    high: int,
    scale: float,
    dropout: float,
    deterministic: bool,
    config: str,
) -> tuple[Tensor, Tensor]:
    """(output like q, log sum of weights (B, H, Tq) float32); see fused.attend."""
    from musictx.attention.fused import launch

    problem = launch.Problem(
        q, k, v, table, bias, first_query, first_key, last_query, row_random, column_random,
        low, high, scale, dropout, deterministic, config,
    )  # fmt: skip
    with _device(q):
        return launch.forward(problem)


@torch.library.custom_op(
    "musictx::fused_attention_backward",
    mutates_args=(),
    schema=(
        "(Tensor upstream, Tensor out, Tensor log_sum, bool bias_gradient, Tensor q, Tensor k, "
        f"Tensor v, {_TERMS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
    ),
)
def attention_backward(
    upstream: Tensor,
    out: Tensor,
    log_sum: Tensor,
    bias_gradient: bool,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor | None,
    bias: Tensor | None,
    first_query: Tensor | None,
    first_key: Tensor | None,
    last_query: Tensor | None,
    row_random: Tensor | None,
    column_random: Tensor | None,
    low: int,
    high: int,
    scale: float,
    dropout: float,
    deterministic: bool,
    config: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, table and bias; of what is not there, an empty tensor."""
    from musictx.attention.fused import launch

    problem = launch.Problem(
        q, k, v, table, bias, first_query, first_key, last_query, row_random, column_random,
        low, high, scale, dropout, deterministic, config,
    )  # fmt: skip
    with _device(q):
        return launch.backward(problem, upstream, out, log_sum, bias_gradient)


@attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *terms: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@attention_backward.register_fake
def _(
    upstream: Tensor,
    out: Tensor,
    log_sum: Tensor,
    bias_gradient: bool,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor | None,
    bias: Tensor | None,
    *terms: Any,
) -> tuple[Tensor, ...]:
    nothing = (0,)
    dtable = q.new_empty(nothing) if table is None else table.new_empty(table.shape)
    absent = bias is None or not bias_gradient
    dbias = q.new_empty(nothing) if absent else bias.new_empty(bias.shape)  # type: ignore[union-attr]
    return (*(torch.empty_like(x) for x in (q, k, v)), dtable, dbias)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:_TENSORS], *output)
    ctx.mark_non_differentiable(output[1])
    ctx.constants = inputs[_TENSORS:]


def _backward(ctx: Any, upstream: Tensor, _log_sum: Tensor | None) -> tuple[Tensor | None, ...]:
    *inputs, out, log_sum = ctx.saved_tensors
    bias_gradient = ctx.needs_input_grad[4]
    grads = attention_backward(upstream, out, log_sum, bias_gradient, *inputs, *ctx.constants)
    dq, dk, dv, dtable, dbias = grads
    return (
        dq,
        dk,
        dv,
        None if inputs[3] is None else dtable,
        dbias if bias_gradient else None,
        *[None] * (5 + len(ctx.constants)),
    )


attention.register_autograd(_backward, setup_context=_setup)
