"""One new query over the cached keys, with torch operations: two small products, nothing to skew.

The relative logits of all distances are q E^T, one product with the table, shared by the whole
batch. Over consecutive keys they are turned round: a slice, in which the distance of the oldest key
comes first. Gradients and every device come for free.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.setting import Job, Setting, refusal
from musictx.attention.terms import Axis, Positions, Span, Terms, as_tensor, without_autocast
from musictx.speed.kernels import narrowed


def supports(job: Job) -> str | None:
    """Why it cannot do the job, or None."""
    return refusal((not job.single_query, "it computes one causal query over earlier keys"))


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, 1, D) over k, v (B, H, Tk, D): (B, H, 1, D) in the dtype of q.

    Keys in a Span stand no later than the query. Arguments are taken as checked
    (:func:`musictx.attention.attend`); ``setting.causal`` is true.
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    query_positions, key_positions = setting.query_positions, setting.key_positions
    with without_autocast(q.device):
        queries = q.to(precise) * terms.scale
        content = position = queries
        if terms.content_bias is not None:
            content = queries + terms.content_bias.to(precise)[:, None] * terms.scale
        if terms.position_bias is not None:
            position = queries + terms.position_bias.to(precise)[:, None] * terms.scale
        logits = content @ k.to(precise).transpose(-1, -2)
        for axis in terms.axes:
            here, there = query_positions[axis.coordinate], key_positions[axis.coordinate]
            if isinstance(here, Span) and isinstance(there, Span) and axis.labels is None:
                logits = _with_slice(logits, position, axis, here, there)
            else:
                at, over = as_tensor(here, q.device), as_tensor(there, q.device)
                term = by_key(position, axis, at, over, 1.0)
                if axis.labels is not None:
                    term = term.masked_fill(~axis.measured(over)[:, None, None], 0.0)
                logits = logits + term
        hidden = _hidden(terms, setting, q.device)
        if hidden is None:
            weights = logits.softmax(-1)
        else:
            blind = hidden.all(-1, keepdim=True)
            weights = logits.masked_fill(hidden & ~blind, float("-inf")).softmax(-1)
            weights = weights.masked_fill(hidden, 0.0)
        weights = F.dropout(weights, setting.dropout)
        out = weights @ v.to(precise)
        if terms.value_table is not None:
            axis, table = terms.axes[0], terms.value_table.to(precise)
            here, there = query_positions[axis.coordinate], key_positions[axis.coordinate]
            out = out + _of_values(weights, table, axis, here, there)
        return out.to(q.dtype)


def by_key(position: Tensor, axis: Axis, at: Tensor, over: Tensor, bias_factor: float) -> Tensor:
    """<q_i, R[row]> + bias_factor * b[row] of the axis: (B, H, Tq, n).

    position (B, H, Tq, D): queries; at (1 or B, Tq): their coordinates; over (1 or B, n): those of
    n keys or labels
    """
    index = axis.rows(at, over)[:, None].expand(*position.shape[:3], -1)
    scores = position.new_zeros(index.shape)
    if axis.table is not None:
        by_row = position @ axis.table.to(position.dtype).transpose(-1, -2)  # (B, H, Tq, distances)
        scores = by_row.gather(-1, index)
    if axis.bias is not None:
        bias = axis.bias.to(position.dtype)[None, :, None] * bias_factor
        scores = scores + bias.expand(*position.shape[:3], -1).gather(-1, index)
    return scores


def _distances(query: Span, keys: Span) -> tuple[int, int]:
    """(1 + the distance of the oldest key, that of the newest)."""
    return query.start - keys.start + 1, query.start - keys.stop + 1


def _with_slice(logits: Tensor, position: Tensor, axis: Axis, query: Span, keys: Span) -> Tensor:
    """Logits (B, H, 1, Tk) and the terms of an axis by consecutive positions."""
    count, lowest = _distances(query, keys)
    if lowest == 0:
        axis = narrowed(axis, 0, count - 1)  # a short past needs only the first rows
    if axis.table is not None:
        table = axis.table.to(position.dtype).expand(position.shape[1], -1, -1)
        by_row = position[:, :, 0].transpose(0, 1) @ table.transpose(1, 2)  # (H, B, rows)
        relative = axis.descending(by_row.transpose(1, 2), count, lowest)  # (H, keys, B)
        logits = logits + relative.permute(2, 0, 1)[:, :, None]
    if axis.bias is not None:
        bias = axis.descending(axis.bias.to(position.dtype), count, lowest)
        logits = logits + bias[:, None]
    return logits


def _of_values(
    weights: Tensor, table: Tensor, axis: Axis, query: Positions, keys: Positions
) -> Tensor:
    """What the table of values adds: (B, H, 1, D)."""
    if isinstance(query, Span) and isinstance(keys, Span):
        return weights @ axis.descending(table, *_distances(query, keys))
    rows = axis.rows(as_tensor(query, table.device), as_tensor(keys, table.device))  # (1 or B,1,Tk)
    by_row = weights.new_zeros(*weights.shape[:3], table.shape[1])
    by_row = by_row.scatter_add(-1, rows[:, None].expand_as(weights), weights)
    return by_row @ table


def _hidden(terms: Terms, setting: Setting, device: torch.device) -> Tensor | None:
    """Keys of other pieces and of blocks far away: bool (B or 1, 1, 1, Tk), or None if none is
    hidden. Later keys there are none."""
    at, over = setting.query_positions, setting.key_positions
    masks = []
    same_piece = setting.same_piece()
    if same_piece is not None:
        masks.append(~same_piece)
    if terms.blocks is not None:
        number, length = terms.blocks.coordinate, terms.blocks.length
        here, there = as_tensor(at[number], device), as_tensor(over[number], device)
        masks.append(((here // length - there // length).abs() > 1)[:, None, None])
    return reduce(torch.logical_or, masks) if masks else None
