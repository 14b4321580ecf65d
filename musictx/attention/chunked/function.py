"""The autograd function: both passes for all heads, a share of them at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from musictx.attention.chunked import threads
from musictx.attention.chunked.passes import Inputs, backward, forward
from musictx.attention.chunked.plan import Shares


class Chunked(torch.autograd.Function):
    """Takes what :class:`Inputs` names, then the :class:`Call`; gives the output (B, H, Tq, D).

    Every share writes to its heads' memory, whichever thread takes it and when.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        inputs, call = Inputs(*arguments[:-1]), arguments[-1]
        content, v = inputs.content, inputs.v
        dtype = torch.promote_types(content.dtype, torch.float32)
        out = torch.empty(*content.shape[:3], v.shape[3], dtype=dtype, device=content.device)
        log_sum = torch.empty(content.shape[:3], dtype=dtype, device=content.device)
        shares = Shares.of(content, call.widest(inputs.k.shape[2]), threads.available())

        def work(number: int) -> None:
            heads, own = shares.heads[number], shares.call(call, number)
            forward(inputs.of(heads), own, out[:, heads], log_sum[:, heads])

        threads.each(work, range(len(shares.heads)), shares.threads)
        ctx.save_for_backward(*inputs, out, log_sum)
        ctx.call, ctx.shares = call, shares
        return out.to(content.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        *saved, out, log_sum = ctx.saved_tensors
        inputs, call, shares = Inputs(*saved), ctx.call, ctx.shares
        options = {"dtype": out.dtype, "device": out.device}
        empty: list[Any] = [x if x is None else torch.empty(x.shape, **options) for x in inputs]
        found = Inputs(*empty)

        def work(number: int) -> None:
            heads, own = shares.heads[number], shares.call(call, number)
            passed = out[:, heads], log_sum[:, heads], upstream[:, heads]
            backward(inputs.of(heads), own, *passed, found.of(heads))

        with torch.autocast(upstream.device.type, enabled=False):
            threads.each(work, range(len(shares.heads)), min(shares.threads, threads.available()))
        cast = (None if d is None or x is None else d.to(x.dtype) for d, x in zip(found, inputs))
        return (*cast, None)
