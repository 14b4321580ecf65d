"""One new query over a ring of slots of fixed size: the same work whatever the position.

What ``attention/decode.py`` computes, for shapes that never change, so that a step of decoding can
be recorded once (a CUDA graph, ``torch.compile``) and replayed: where the query stands is a number
on the device, not in Python. All slots are looked at; those not yet written are hidden. Relative
logits of all distances are one product q E^T of fixed shape, and each slot picks its own.

On CUDA the rest is one kernel (attention/static_kernel.py), as far as it knows the terms.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from importlib.util import find_spec

import torch
from torch import Tensor

from musictx.attention.terms import Terms


def why_not(terms: Terms) -> str | None:
    """Why these terms cannot be computed so, or None if they can."""
    if len(terms.axes) > 1:
        return f"it knows one axis of distance, not {len(terms.axes)}"
    if terms.axes and terms.axes[0].coordinate:
        return "it measures the order of tokens only, not further coordinates"
    return None


def slots(position: Tensor, first: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
    """Distance of the query at ``position`` (1,) to each slot's token, and which slots are empty
    because the stream began at ``first`` (1,).

    Token p stands in slot p mod ``capacity``, so each slot holds the newest token that belongs
    there, the query's own included. Both are (capacity,): int64 from 0 to capacity - 1, and bool.
    """
    slot = torch.arange(capacity, device=position.device)
    distance = (position - slot).remainder(capacity)
    return distance, position - distance < first


def kernel_why_not(q: Tensor, terms: Terms) -> str | None:
    """Why the kernel cannot do the job, or None if it can."""
    size = q.shape[-1]
    if terms.value_table is not None or terms.blocks is not None:
        return "it knows no value_table and no blocks"
    if size < 16 or size > 256 or size & (size - 1):
        return f"it knows heads of 16, 32, 64, 128 or 256 numbers, not {size}"
    if q.dtype == torch.float64:
        return "it computes in float32"
    if not q.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return f"it needs tensors on a CUDA GPU, not on {q.device.type}"
    return None if find_spec("triton") else "Triton is not installed (pip install triton)"


def attend(
    q: Tensor, k: Tensor, v: Tensor, terms: Terms, *, position: Tensor, first: Tensor,
    distance: Tensor, empty: Tensor, kernel: bool = False,
) -> Tensor:  # fmt: skip
    """Attention of q (B, H, 1, D) over the slots k, v (B, H, S, D): (B, H, 1, D) like q.

    position, first  (1,) int64: of the query; of the oldest token
    distance, empty  (S,) of :func:`slots`
    kernel           by the kernel, which must be able to (:func:`kernel_why_not`)

    Products, softmax and sums are in float32 at least. Arguments are taken as checked.
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    content, place = _queries(q, terms, precise)
    relative = _by_row(place, terms, precise)
    axis = terms.axes[0] if terms.axes else None
    if kernel:
        low, high = (axis.low, axis.high) if axis else (0, 0)
        found: Tensor = _kernel(content, k, v, relative, position, first, low, high)
        return found.to(q.dtype)
    logits = content @ k.to(precise).transpose(-1, -2)
    hidden = empty
    if axis is not None:
        row = distance.clamp(axis.low, axis.high) - axis.low
        if relative is not None:
            logits = logits + relative.index_select(2, row)[:, :, None]
    if terms.blocks is not None:  # places of a stream are its order
        length = terms.blocks.length
        block = torch.div(position, length, rounding_mode="floor")
        other = torch.div(position - distance, length, rounding_mode="floor")
        hidden = hidden | (block - other > 1)
    weights = logits.masked_fill(hidden, float("-inf")).softmax(-1)
    out = weights @ v.to(precise)
    if terms.value_table is not None:
        out = out + weights @ terms.value_table.to(precise).index_select(1, row)
    return out.to(q.dtype)


def _queries(q: Tensor, terms: Terms, precise: torch.dtype) -> tuple[Tensor, Tensor]:
    """What meets the keys and what meets the table, scaled: (B, H, 1, D)."""
    content = place = q.to(precise) * terms.scale
    if terms.content_bias is not None:
        content = content + terms.content_bias.to(precise)[:, None] * terms.scale
    if terms.position_bias is not None:
        place = place + terms.position_bias.to(precise)[:, None] * terms.scale
    return content, place


def _by_row(place: Tensor, terms: Terms, precise: torch.dtype) -> Tensor | None:
    """The relative logit of each row of the axis: (B, H, rows), or None."""
    if not terms.axes:
        return None
    (axis,) = terms.axes
    batch, heads = place.shape[:2]
    found = None
    if axis.table is not None:
        table = axis.table.to(precise).expand(heads, -1, -1)
        # One product for each head, the table read once for all rows of the batch.
        found = (place[:, :, 0].transpose(0, 1) @ table.transpose(1, 2)).transpose(0, 1)
    if axis.bias is not None:
        bias = axis.bias.to(precise).expand(batch, heads, -1)
        found = bias if found is None else found + bias
    return found


@torch.library.custom_op("musictx::static_attention", mutates_args=())
def _kernel(
    q: Tensor, k: Tensor, v: Tensor, relative: Tensor | None, position: Tensor, first: Tensor,
    low: int, high: int,
) -> Tensor:  # fmt: skip
    from musictx.attention import static_kernel  # Triton is imported when it is needed

    with torch.cuda.device_of(q) if q.is_cuda else nullcontext():
        return static_kernel.attend(q, k, v, relative, position, first, low, high, 1.0)


@_kernel.register_fake
def _(q: Tensor, *others: object) -> Tensor:
    return torch.empty_like(q, memory_format=torch.contiguous_format)
