"""One new query over a ring of slots of fixed size: the same work whatever the position.

What ``attention/decode.py`` computes, for shapes that never change, so that a step of decoding can
be recorded once (a CUDA graph, ``torch.compile``) and replayed: where the query stands is a number
on the device, not in Python. All slots are looked at; those not yet written are hidden. Relative
logits of all distances are one product q E^T of fixed shape, and each slot picks its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.attention.terms import FURTHER, Terms


def why_not(terms: Terms) -> str | None:
    """Why these terms cannot be computed so, or None if they can."""
    if len(terms.axes) > 1:
        return f"it knows one axis of distance, not {len(terms.axes)}"
    if terms.coordinates > FURTHER or (terms.axes and terms.axes[0].coordinate):
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


def attend(
    q: Tensor, k: Tensor, v: Tensor, terms: Terms, *, position: Tensor, distance: Tensor,
    empty: Tensor,
) -> Tensor:  # fmt: skip
    """Attention of q (B, H, 1, D) over the slots k, v (B, H, S, D): (B, H, 1, D) like q.

    position  (1,) int64 of the query;  distance, empty  (S,) of :func:`slots`

    Products, softmax and sums are in float32 at least. Arguments are taken as checked.
    """
    heads = q.shape[1]
    precise = torch.promote_types(q.dtype, torch.float32)
    queries = q.to(precise) * terms.scale
    content = place = queries
    if terms.content_bias is not None:
        content = queries + terms.content_bias.to(precise)[:, None] * terms.scale
    if terms.position_bias is not None:
        place = queries + terms.position_bias.to(precise)[:, None] * terms.scale
    logits = content @ k.to(precise).transpose(-1, -2)
    for axis in terms.axes:
        row = distance.clamp(axis.low, axis.high) - axis.low
        if axis.table is not None:
            table = axis.table.to(precise).expand(heads, -1, -1)
            by_row = place[:, :, 0].transpose(0, 1) @ table.transpose(1, 2)  # (H, B, rows)
            logits = logits + by_row.index_select(2, row).transpose(0, 1)[:, :, None]
        if axis.bias is not None:
            logits = logits + axis.bias.to(precise).index_select(1, row)[:, None]
    hidden = empty
    if terms.blocks is not None:  # places of a stream are its order
        length = terms.blocks.length
        block = torch.div(position, length, rounding_mode="floor")
        other = torch.div(position - distance, length, rounding_mode="floor")
        hidden = hidden | (block - other > 1)
    weights = logits.masked_fill(hidden, float("-inf")).softmax(-1)
    out = weights @ v.to(precise)
    if terms.value_table is not None:
        axis = terms.axes[0]
        row = distance.clamp(axis.low, axis.high) - axis.low
        out = out + weights @ terms.value_table.to(precise).index_select(1, row)
    return out.to(q.dtype)
