"""The kernel over a ring as an operator of torch; Triton is imported when it first runs."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from musictx.attention.operators import define
from musictx.attention.terms import Ring, Terms


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, ring: Ring) -> Tensor:
    """Attention of q (B, H, 1, D), at the ring's newest token, over its slots k, v (B, H, S, D).

    The relative logits of all rows of the table are one product of fixed shape; in the kernel each
    slot picks its own.
    """
    content = place = q.float() * terms.scale
    if terms.content_bias is not None:
        content = content + terms.content_bias.float()[:, None] * terms.scale
    if terms.position_bias is not None:
        place = place + terms.position_bias.float()[:, None] * terms.scale
    relative, low, high = None, 0, 0
    if terms.axes:
        (axis,) = terms.axes
        batch, heads = q.shape[:2]
        low, high = axis.low, axis.high
        if axis.table is not None:
            table = axis.table.float().expand(heads, -1, -1)
            # One product for each head, the table read once for all rows of the batch.
            by_row = place[:, :, 0].transpose(0, 1) @ table.transpose(1, 2)
            relative = by_row.transpose(0, 1)
        if axis.bias is not None:
            bias = axis.bias.float().expand(batch, heads, -1)
            relative = bias if relative is None else relative + bias
    out: Tensor = _kernel(content, k, v, relative, ring.newest, ring.oldest, low, high)
    return out.to(q.dtype)


def _compute(
    q: Tensor, k: Tensor, v: Tensor, relative: Tensor | None, newest: Tensor, oldest: Tensor,
    low: int, high: int,
) -> Tensor:  # fmt: skip
    from musictx.speed.decode import kernel

    with torch.cuda.device_of(q) if q.is_cuda else nullcontext():
        return kernel.attend(q, k, v, relative, newest, oldest, low, high, 1.0)


def _shapes(q: Tensor, *others: object) -> Tensor:
    return torch.empty_like(q, memory_format=torch.contiguous_format)


_kernel = define(
    "ring_attention",
    "(Tensor q, Tensor k, Tensor v, Tensor? relative, Tensor newest, Tensor oldest, "
    "int low, int high) -> Tensor",
    _compute,
    _shapes,
)
