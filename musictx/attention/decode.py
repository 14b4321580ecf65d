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
    keys = k.shape[2]
    precise = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        queries = q.to(precise) * terms.scale
        logits = queries @ k.to(precise).transpose(-1, -2)
        for axis in (axis.narrowed(keys) for axis in terms.axes):
            if axis.table is not None:
                table = axis.table.to(precise).expand(q.shape[1], -1, -1)
                by_row = queries[:, :, 0].transpose(0, 1) @ table.transpose(1, 2)  # (H, B, rows)
                relative = axis.descending(by_row.transpose(1, 2), keys)  # (H, keys, B)
                logits = logits + relative.permute(2, 0, 1)[:, :, None]
            if axis.bias is not None:
                logits = logits + axis.descending(axis.bias.to(precise), keys)[:, None]
        if query_pieces is not None and key_pieces is not None:
            hidden = (query_pieces != key_pieces)[:, None, None]
            blind = hidden.all(-1, keepdim=True)
            logits = logits.masked_fill(hidden & ~blind, float("-inf"))
            weights = logits.softmax(-1).masked_fill(hidden, 0.0)
        else:
            weights = logits.softmax(-1)
        return (F.dropout(weights, dropout) @ v.to(precise)).to(q.dtype)
