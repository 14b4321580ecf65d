"""The fused kernel as operators of torch, so that autograd, compilation and autocast support it.

``musictx::fused_attention`` returns the output and the log of each row's sum of weights (base 2);
``musictx::fused_attention_backward`` the gradients. Nothing else is saved: logits are computed
again. The table may be a float32 master with inputs of 16 bits: it is cast once a call, and its
gradient is float32 until the end. The arguments are those of ``problem.Problem``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from musictx.speed.kernels import define, twice

_INPUTS = (
    "Tensor q, Tensor k, Tensor v, Tensor? table, Tensor? bias, "
    "Tensor? query_codes, Tensor? key_codes, Tensor? key_first, Tensor? query_stop, "
    "Tensor? row_random, Tensor? column_random, "
    "int low, int high, float scale, float dropout"
)
_LEARNED = 5  # leading tensors that have gradients: q, k, v, table, bias
_TENSORS = 11


def _device(x: Tensor) -> AbstractContextManager[Any]:
    """Triton starts kernels on the current GPU: make it the one that holds x."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def _forward(*inputs: Any) -> tuple[Tensor, Tensor]:
    """(output like q, log sum of weights (B, H, Tq) float32); see fused.attend."""
    from musictx.speed.fused import launch
    from musictx.speed.fused.problem import Problem

    problem = Problem(*inputs)
    with _device(problem.q):
        return launch.forward(problem)


def _gradients(
    upstream: Tensor, out: Tensor, log_sum: Tensor, bias_gradient: bool, *inputs: Any
) -> tuple[Tensor, ...]:
    """Gradients of the first five inputs; an empty tensor for what is not there."""
    from musictx.speed.fused import launch
    from musictx.speed.fused.problem import Problem

    problem = Problem(*inputs)
    with _device(problem.q):
        return launch.backward(problem, upstream, out, log_sum, bias_gradient)


def _shapes(q: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


def _gradient_shapes(
    upstream: Tensor, out: Tensor, log_sum: Tensor, bias_gradient: bool, *inputs: Any
) -> tuple[Tensor, ...]:
    *rows, table, bias = inputs[:_LEARNED]
    tables = (table, bias if bias_gradient else None)
    q = inputs[0]
    return (
        *map(torch.empty_like, rows),
        *(q.new_empty((0,)) if x is None else x.new_empty(x.shape) for x in tables),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:_TENSORS], *output)
    ctx.mark_non_differentiable(output[1])
    ctx.constants = inputs[_TENSORS:]


def _backward(ctx: Any, upstream: Tensor, _log_sum: Tensor | None) -> tuple[Tensor | None, ...]:
    *inputs, out, log_sum = ctx.saved_tensors
    needed = ctx.needs_input_grad[:_LEARNED]
    grads = attention_backward(upstream, out, log_sum, needed[4], *inputs, *ctx.constants)
    given = (g if x is not None and n else None for g, x, n in zip(grads, inputs, needed))
    return (*given, *[None] * (_TENSORS - _LEARNED + len(ctx.constants)))


attention_backward = define(
    "fused_attention_backward",
    f"(Tensor upstream, Tensor out, Tensor log_sum, bool bias_gradient, {_INPUTS}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _gradients,
    _gradient_shapes,
    backward=twice,
)
attention = define(
    "fused_attention",
    f"({_INPUTS}) -> (Tensor, Tensor)",
    _forward,
    _shapes,
    setup=_setup,
    backward=_backward,
)
