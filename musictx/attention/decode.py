"""One new query over the cached keys: two small products, nothing to skew.

The relative logits of all distances are q E^T, one product with the first rows of the table shared
by the whole batch; turned round, the distance t of the oldest key comes first. Ordinary torch
operations, so gradients and every device come for free.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.terms import Terms


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    *,
    query_pieces: Tensor | None = None,
    key_pieces: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention of q (B, H, 1, D), the last of the Tk tokens, over k and v (B, H, Tk, D)."""
    precise = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        queries = q.to(precise) * terms.scale
        logits = queries @ k.to(precise).transpose(-1, -2)
        for axis in terms.axes:
            rows = _rows(axis.low, axis.high, k.shape[2])
            if axis.table is not None:
                table = axis.table[:, rows].to(precise).expand(q.shape[1], -1, -1)
                by_head = queries[:, :, 0].transpose(0, 1) @ table.transpose(1, 2)  # (H, B, rows)
                relative = by_head.transpose(0, 1)
                logits = logits + _newest_last(relative, axis.low, k.shape[2])[:, :, None]
            if axis.bias is not None:
                number = axis.bias[:, rows].to(precise)[None]
                logits = logits + _newest_last(number, axis.low, k.shape[2])[:, :, None]
        if query_pieces is not None and key_pieces is not None:
            hidden = (query_pieces != key_pieces)[:, None, None]
            blind = hidden.all(-1, keepdim=True)
            logits = logits.masked_fill(hidden & ~blind, float("-inf"))
            weights = logits.softmax(-1).masked_fill(hidden, 0.0)
        else:
            weights = logits.softmax(-1)
        return (F.dropout(weights, dropout) @ v.to(precise)).to(q.dtype)


def _rows(low: int, high: int, keys: int) -> slice:
    """The rows of a table that the distances 0..keys-1 can meet."""
    return slice(max(0, min(0, high) - low), max(0, min(keys - 1, high) - low) + 1)


def _newest_last(values: Tensor, low: int, keys: int) -> Tensor:
    """(..., rows) in ascending distance -> (..., keys) for distances keys-1, ..., 0, clipped."""
    before = min(max(0, low), keys - 1)  # distances below low share the first row
    after = keys - before - values.shape[-1]  # distances above high share the last
    parts = [values]
    if before > 0:
        parts.insert(0, values[..., :1].expand(*values.shape[:-1], before))
    if after > 0:
        parts.append(values[..., -1:].expand(*values.shape[:-1], after))
    whole = torch.cat(parts, dim=-1) if len(parts) > 1 else values
    return whole.flip(-1)
