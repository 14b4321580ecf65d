"""Attention over the sum of terms as plain loops, one number at a time: obviously right, slow.

Written from the formula in the head of ``musictx/attention/terms.py`` and sharing no code with the
implementations. Differentiable, so that gradients have an oracle too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.attention.terms import Positions, Span, Terms


def place(positions: Positions | tuple[Positions, ...], coordinate: int, b: int, i: int) -> int:
    """The position of token i of batch row b along one coordinate."""
    one = positions[coordinate] if isinstance(positions, tuple) else positions
    if isinstance(one, Span):
        return one.start + i
    return int(one[i] if one.dim() == 1 else one[b, i])


def clipped(delta: int, low: int, high: int) -> int:
    return low if delta < low else high if delta > high else delta


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    *,
    query_positions: Positions | tuple[Positions, ...],
    key_positions: Positions | tuple[Positions, ...],
    causal: bool = True,
    query_pieces: Tensor | None = None,
    key_pieces: Tensor | None = None,
) -> Tensor:
    batch, heads, queries, size = q.shape
    rows = []
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                logits, values = [], []
                for j in range(k.shape[2]):
                    if causal and place(key_positions, 0, b, j) > place(query_positions, 0, b, i):
                        continue
                    if query_pieces is not None and query_pieces[b, i] != key_pieces[b, j]:
                        continue
                    if terms.blocks is not None:
                        at = place(query_positions, terms.blocks.coordinate, b, i)
                        over = place(key_positions, terms.blocks.coordinate, b, j)
                        if abs(at // terms.blocks.length - over // terms.blocks.length) > 1:
                            continue
                    content = q[b, h, i]
                    if terms.content_bias is not None:
                        content = content + terms.content_bias[h]
                    position = q[b, h, i]
                    if terms.position_bias is not None:
                        position = position + terms.position_bias[h]
                    logit = terms.scale * (content * k[b, h, j]).sum()
                    value = v[b, h, j]
                    for number, axis in enumerate(terms.axes):
                        stands = place(key_positions, axis.coordinate, b, j)
                        if axis.labels is not None and stands not in axis.labels.tolist():
                            continue
                        delta = place(query_positions, axis.coordinate, b, i) - place(
                            key_positions, axis.coordinate, b, j
                        )
                        row = clipped(delta, axis.low, axis.high) - axis.low
                        if axis.table is not None:
                            head = h if axis.table.shape[0] > 1 else 0
                            logit = logit + terms.scale * (position * axis.table[head, row]).sum()
                        if axis.bias is not None:
                            logit = logit + axis.bias[h if axis.bias.shape[0] > 1 else 0, row]
                        if number == 0 and terms.value_table is not None:
                            head = h if terms.value_table.shape[0] > 1 else 0
                            value = value + terms.value_table[head, row]
                    logits.append(logit)
                    values.append(value)
                out = 0 * q[b, h, i]
                if logits:
                    largest = max(float(x.detach()) for x in logits)
                    parts = [torch.exp(x - largest) for x in logits]
                    total = sum(parts)
                    for part, value in zip(parts, values):
                        out = out + part / total * value
                rows.append(out)
    return torch.stack(rows).view(batch, heads, queries, size)
