"""One new query over the cached keys: two small products, nothing to skew.

The relative logits of all distances are q E^T, one product with the first rows of the table shared
by the whole batch; turned round, the distance t of the oldest key comes first. Ordinary torch
operations, so gradients and every device come for free.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.labels import by_key, coordinate, split
from musictx.attention.terms import Positions, Span, Terms


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    *,
    query_positions: Positions | tuple[Positions, ...] | None = None,
    key_positions: Positions | tuple[Positions, ...] | None = None,
    query_pieces: Tensor | None = None,
    key_pieces: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention of q (B, H, 1, D), the last of the Tk tokens, over k and v (B, H, Tk, D).

    Positions are looked at for ``terms.blocks`` and axes of labels (attention/widen.py) only;
    without them keys stand at 0, 1, 2, ...
    """
    keys, heads = k.shape[2], q.shape[1]
    precise = torch.promote_types(q.dtype, torch.float32)
    if query_positions is None or key_positions is None:
        query_positions, key_positions = (Span(keys - 1, 1),) * 2, (Span(0, keys),) * 2
    with torch.autocast(q.device.type, enabled=False):
        at, over = terms.needed(query_positions), terms.needed(key_positions)
        labelled, terms = split(terms)
        queries = q.to(precise) * terms.scale
        content = position = queries
        if terms.content_bias is not None:
            content = queries + terms.content_bias.to(precise)[:, None] * terms.scale
        if terms.position_bias is not None:
            position = queries + terms.position_bias.to(precise)[:, None] * terms.scale
        logits = content @ k.to(precise).transpose(-1, -2)
        for axis in labelled:  # a number for each key: no need of a wider head
            places = coordinate(over, axis, q.device)
            term = by_key(position, axis, coordinate(at, axis, q.device), places, 1.0)
            logits = logits + term.masked_fill(~axis.measured(places)[:, None, None], 0.0)
        for axis in (axis.narrowed(keys) for axis in terms.axes):
            if axis.table is not None:
                table = axis.table.to(precise).expand(heads, -1, -1)
                by_row = position[:, :, 0].transpose(0, 1) @ table.transpose(1, 2)  # (H, B, rows)
                relative = axis.descending(by_row.transpose(1, 2), keys)  # (H, keys, B)
                logits = logits + relative.permute(2, 0, 1)[:, :, None]
            if axis.bias is not None:
                logits = logits + axis.descending(axis.bias.to(precise), keys)[:, None]
        hidden = _hidden(q, terms, at, over, query_pieces, key_pieces)
        if hidden is None:
            weights = logits.softmax(-1)
        else:
            blind = hidden.all(-1, keepdim=True)
            weights = logits.masked_fill(hidden & ~blind, float("-inf")).softmax(-1)
            weights = weights.masked_fill(hidden, 0.0)
        weights = F.dropout(weights, dropout)
        out = weights @ v.to(precise)
        if terms.value_table is not None:
            out = out + weights @ terms.axes[0].descending(terms.value_table.to(precise), keys)
        return out.to(q.dtype)


def _hidden(
    q: Tensor,
    terms: Terms,
    query: tuple[Positions, ...],
    keys: tuple[Positions, ...],
    query_pieces: Tensor | None,
    key_pieces: Tensor | None,
) -> Tensor | None:
    """Keys of other pieces or of blocks far away: bool (B or 1, 1, 1, Tk), or None."""
    hidden = None
    if query_pieces is not None and key_pieces is not None:
        hidden = query_pieces != key_pieces
    if terms.blocks is not None:
        number, length = terms.blocks.coordinate, terms.blocks.length
        here, there = (
            x.tensor(q.device) if isinstance(x, Span) else x.to(q.device)
            for x in (query[number], keys[number])
        )
        far = (here // length - there // length).abs() > 1
        far = far if far.dim() == 2 else far[None]
        hidden = far if hidden is None else hidden | far
    return None if hidden is None else hidden[:, None, None]
