"""What several kernels of attention share, above all their registration as torch operators.

An operator makes a kernel known to autograd, ``torch.compile`` and autocast.
``torch.library.custom_op`` would do the same, but its first call imports the whole compiler, which
takes 1.5 seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from musictx.attention.job import ANY, LAST, Job, Setting

_LIBRARY = torch.library.Library("musictx", "FRAGMENT")


def unsupported_reason(job: Job, device: str, *dtypes: torch.dtype) -> str | None:
    """Why a kernel for this device and these dtypes cannot compute the job, or ``None``.

    The kernels compute causal attention of queries at the last positions, optionally with one axis
    of order (a table, a bias or both), labels, packed pieces and dropout. Any single query is
    accepted, because :mod:`musictx.attention.api` passes it to speed/single_query.py.
    """
    layout = ANY if job.single_query else LAST
    return job.reason_against(
        causal=True, extras=False, layout=layout, devices=(device,), dtypes=dtypes
    )


def dropout_seed(setting: Setting) -> Tensor | None:
    """A seed for dropout, int64 (), or None without dropout. It comes from torch's CPU generator:
    no device has to finish first, and a seeded or resumed run drops the same weights. It is a
    tensor, since ``torch.compile`` cannot compute numbers from random tensors."""
    return torch.randint(2**62, (), device="cpu") if setting.dropout else None


def operator(
    name: str,
    inputs: str,
    differentiable: int,
    empty: Callable[..., tuple[Tensor, Tensor]],
    forward: Callable[..., None],
    gradients: Callable[..., tuple[Tensor | None, ...]],
    empty_gradient: Callable[[Tensor], Tensor] = lambda x: x.new_empty(x.shape),
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Register the operator ``torch.ops.musictx.NAME`` and return it.

    The operator returns the output of attention and, for each query, the log of its sum of weights.
    Only these and the inputs are saved for the backward pass, which computes the logits again.

    inputs   the schema of the inputs, such as "Tensor q, Tensor? table, float scale": tensors
             before numbers, and differentiable tensors before the others
    differentiable  the number of differentiable inputs
    empty    ``(*inputs)`` -> uninitialised memory for both results
    forward  ``(*results, *inputs)``: writes the results into that memory
    gradients  ``(needs_gradient, upstream, *results, *inputs)`` -> gradients of the differentiable
             inputs, each with the shape and dtype of the input; entries for which
             ``needs_gradient`` is false are ignored
    empty_gradient  ``(input)`` -> memory with the layout of its gradient; default: contiguous
    """
    tensor_count = inputs.count("Tensor")

    def compute(*arguments: Any) -> tuple[Tensor, Tensor]:
        results = empty(*arguments)
        forward(*results, *arguments)
        return results

    def compute_gradients(
        needs_gradient: list[bool], upstream: Tensor, *arguments: Any
    ) -> tuple[Tensor | None, ...]:
        computed = gradients(needs_gradient, upstream, *arguments)
        return tuple(  # an operator cannot return None
            gradient if needed else upstream.new_empty(0)
            for gradient, needed in zip(computed, needs_gradient)
        )

    def fake_gradients(
        needs_gradient: list[bool], upstream: Tensor, out: Tensor, log_sum: Tensor, *arguments: Any
    ) -> tuple[Tensor, ...]:
        return tuple(
            empty_gradient(x) if needed else upstream.new_empty(0)
            for x, needed in zip(arguments, needs_gradient)
        )

    def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs[:tensor_count], *output)
        ctx.mark_non_differentiable(output[1])
        ctx.scalars = inputs[tensor_count:]

    def backward(ctx: Any, upstream: Tensor, _log_sum: Tensor | None) -> tuple[Tensor | None, ...]:
        *saved, out, log_sum = ctx.saved_tensors
        needs_gradient = list(ctx.needs_input_grad[:differentiable])
        computed = backward_operator(needs_gradient, upstream, out, log_sum, *saved, *ctx.scalars)
        input_gradients = [
            gradient if needed else None for gradient, needed in zip(computed, needs_gradient)
        ]
        return (*input_gradients, *[None] * (len(ctx.needs_input_grad) - differentiable))

    outputs = ", ".join(["Tensor"] * differentiable)
    schema = (
        f"(bool[] needs_gradient, Tensor upstream, Tensor out, Tensor log_sum, {inputs}) "
        f"-> ({outputs})"
    )
    backward_operator = _define(f"{name}_backward", schema, compute_gradients, fake_gradients)
    torch.library.register_autograd(f"musictx::{name}_backward", no_second_derivative, lib=_LIBRARY)
    forward_operator = _define(name, f"({inputs}) -> (Tensor, Tensor)", compute, empty)
    torch.library.register_autograd(f"musictx::{name}", backward, setup_context=save, lib=_LIBRARY)
    return forward_operator


def _define(name: str, schema: str, compute: Any, fake: Any) -> Any:
    _LIBRARY.define(name + schema)
    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"musictx::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.musictx, name).default


def no_second_derivative(ctx: Any, *upstream: Any) -> Any:
    """Raise an error: the backward pass cannot be differentiated again. Autograd calls this
    function whenever a second derivative is computed."""
    raise RuntimeError(
        "attention: this implementation cannot be differentiated twice; use "
        "implementation=reference (model.attention=reference), which can"
    )
