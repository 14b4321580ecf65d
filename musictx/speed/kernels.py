"""Attention as an operator of torch, and what its kernels have in common.

An operator makes a kernel known to autograd, compilation and autocast. ``torch.library.custom_op``
would do the same and import the whole compiler (1.5 seconds) with the first call; these few lines
do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from musictx.attention.job import ANY, LAST, Job

_LIBRARY = torch.library.Library("musictx", "FRAGMENT")


def supports(job: Job, device: str, *dtypes: torch.dtype) -> str | None:
    """Why a kernel for this device and these dtypes cannot compute the job, or ``None``. It
    computes causal attention of the last of the keys, with a table and a bias by order, labels,
    packed pieces and dropout; speed/decode.py computes single queries for it."""
    layout = ANY if job.single_query else LAST
    return job.beyond(causal=True, extras=False, layout=layout, devices=(device,), dtypes=dtypes)


def operator(
    name: str,
    inputs: str,
    learned: int,
    empty: Callable[..., tuple[Tensor, Tensor]],
    forward: Callable[..., None],
    gradients: Callable[..., tuple[Tensor | None, ...]],
    like: Callable[[Tensor], Tensor] = lambda x: x.new_empty(x.shape),
) -> Callable[..., tuple[Tensor, Tensor]]:
    """The operator ``torch.ops.musictx.NAME``, which returns the output of attention and the log of
    each row's sum of weights. Nothing else is saved: the backward pass computes logits again.

    inputs   its schema, such as "Tensor q, Tensor? table, float scale", tensors first
    learned  how many of the first inputs have gradients
    empty    of the inputs: memory for both results, which ``forward(*results, *inputs)`` fills
    gradients  ``(wanted, upstream, *results, *inputs)`` -> gradients of the learned inputs, each of
             its input's shape and dtype; for those that are not ``wanted``, anything
    like     memory laid out as the gradient of an input is; default: dense, in order
    """
    tensors = inputs.count("Tensor")

    def compute(*given: Any) -> tuple[Tensor, Tensor]:
        results = empty(*given)
        forward(*results, *given)
        return results

    def computed_gradients(wanted: list[bool], upstream: Tensor, *given: Any) -> tuple[Tensor, ...]:
        found = gradients(wanted, upstream, *given)
        return tuple(
            g if w and g is not None else upstream.new_empty(0) for g, w in zip(found, wanted)
        )

    def gradient_shapes(
        wanted: list[bool], upstream: Tensor, out: Tensor, log_sum: Tensor, *given: Any
    ) -> tuple[Tensor, ...]:
        return tuple(like(x) if w else upstream.new_empty(0) for x, w in zip(given, wanted))

    def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs[:tensors], *output)
        ctx.mark_non_differentiable(output[1])
        ctx.numbers = inputs[tensors:]

    def backward(ctx: Any, upstream: Tensor, _log_sum: Tensor | None) -> tuple[Tensor | None, ...]:
        *given, out, log_sum = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[:learned])
        found = backward_operator(wanted, upstream, out, log_sum, *given, *ctx.numbers)
        rest = [None] * (tensors - learned + len(ctx.numbers))
        return (*(g if w else None for g, w in zip(found, wanted)), *rest)

    made = ", ".join(["Tensor"] * learned)
    schema = f"(bool[] wanted, Tensor upstream, Tensor out, Tensor log_sum, {inputs}) -> ({made})"
    backward_operator = _define(f"{name}_backward", schema, computed_gradients, gradient_shapes)
    torch.library.register_autograd(f"musictx::{name}_backward", twice, lib=_LIBRARY)
    forward_operator = _define(name, f"({inputs}) -> (Tensor, Tensor)", compute, empty)
    torch.library.register_autograd(f"musictx::{name}", backward, setup_context=keep, lib=_LIBRARY)
    return forward_operator


def _define(name: str, schema: str, compute: Any, shapes: Any) -> Any:
    _LIBRARY.define(name + schema)
    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"musictx::{name}", shapes, lib=_LIBRARY)
    return getattr(torch.ops.musictx, name).default


def twice(ctx: Any, *upstream: Any) -> Any:
    """The backward pass of a backward pass: it raises an error. Autograd calls it whenever a second
    derivative is computed, because the gradients depend on all inputs of the operator."""
    raise RuntimeError(
        "attention: this implementation cannot be differentiated twice; use "
        "implementation=reference (model.attention=reference), which can"
    )
