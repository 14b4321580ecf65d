"""The autograd functions: both passes for all heads, a share of them at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from musictx.attention.chunked.passes import Inputs, backward, forward
from musictx.attention.operators import twice, without_autocast


class Chunked(torch.autograd.Function):
    """Takes what :class:`Inputs` names, then the :class:`Call` and its shares of heads; gives the
    output (B, H, Tq, D) and the log of each row's sum of weights (B, H, Tq), in float32 at least.
    """

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
        inputs, call, shares = Inputs(*arguments[:-2]), arguments[-2], arguments[-1]
        content, v = inputs.content, inputs.v
        dtype = torch.promote_types(content.dtype, torch.float32)
        out = torch.empty(*content.shape[:3], v.shape[3], dtype=dtype, device=content.device)
        log_sum = torch.empty(content.shape[:3], dtype=dtype, device=content.device)
        for number, heads in enumerate(shares):
            forward(inputs.of(heads), call.of(number), out[:, heads], log_sum[:, heads])
        return out, log_sum

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.call, ctx.shares = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ChunkedGradients.apply(upstream, *ctx.saved_tensors, ctx.call, ctx.shares)
        return (*gradients, None, None)


class ChunkedGradients(torch.autograd.Function):
    """Takes the gradient of the output, what :class:`Chunked` was given and gave, the call and the
    shares; gives the gradients of the inputs, ``None`` for what is not there."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor | None, ...]:
        upstream, *saved, out, log_sum, call, shares = arguments
        inputs = Inputs(*saved)
        options = {"dtype": out.dtype, "device": out.device}
        empty: list[Any] = [x if x is None else torch.empty(x.shape, **options) for x in inputs]
        gradients = Inputs(*empty)
        with without_autocast(upstream.device):
            for number, heads in enumerate(shares):
                passed = out[:, heads], log_sum[:, heads], upstream[:, heads]
                backward(inputs.of(heads), call.of(number), *passed, gradients.of(heads))
        pairs = zip(gradients, inputs)
        return tuple(None if d is None or x is None else d.to(x.dtype) for d, x in pairs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Nothing is kept."""

    backward = staticmethod(twice)
