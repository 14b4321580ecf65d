"""Dense attention over the sum of terms: the specification of all other implementations.

It supports any device, any floating dtype (float64 included), and every combination of terms and
positions. Its logits need B x H x Tq x Tk numbers.

Masks are Boolean. A key is masked for a query if it is later (``causal``), belongs to another
piece, is in a distant block (``Terms.blocks``), or is ``hidden``. The result of a query without
visible keys is zero, and the query gets no gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.job import Job, Setting
from musictx.attention.terms import Axis, Blocks, Positions, Terms, as_tensor, without_autocast


def unsupported_reason(job: Job) -> str | None:
    """Return None: this implementation supports any job."""
    return None


def visibility_mask(setting: Setting, device: torch.device, blocks: Blocks | None = None) -> Tensor:
    """Whether each query may attend to each key: bool (1 or B, 1 or H, Tq, Tk)."""
    queries = [as_tensor(x, device)[:, None, :, None] for x in setting.query_positions]
    keys = [as_tensor(x, device)[:, None, None, :] for x in setting.key_positions]
    query, key = queries[0], keys[0]
    is_visible = key <= query if setting.causal else torch.ones_like(key <= query)
    if blocks is not None:
        query_block = queries[blocks.coordinate] // blocks.length
        key_block = keys[blocks.coordinate] // blocks.length
        is_visible = is_visible & ((query_block - key_block).abs() <= 1)
    same_piece = setting.same_piece()
    is_visible = is_visible if same_piece is None else is_visible & same_piece
    return is_visible if setting.hidden is None else is_visible & ~setting.hidden


def axis_term(
    queries: Tensor, axis: Axis, query_positions: Positions, key_positions: Positions
) -> Tensor:
    """The term of one axis, <q_i, R[delta]> + b[delta]: (B, H, Tq, Tk).

    queries  (B, H, Tq, D), scaled
    query_positions, key_positions  the coordinates of queries and keys on the axis
    """
    key_coordinates = as_tensor(key_positions, queries.device)
    rows = axis.rows(as_tensor(query_positions, queries.device), key_coordinates)
    index = rows[:, None].expand(*queries.shape[:3], -1)
    term = queries.new_zeros(index.shape)
    if axis.table is not None:  # <q_i, R[row]> for every row, then the row of each key
        scores = queries @ axis.table.to(queries.dtype).transpose(-1, -2)
        term = scores.gather(-1, index)
    if axis.bias is not None:
        scores = axis.bias.to(queries.dtype)[None, :, None].expand(*queries.shape[:3], -1)
        term = term + scores.gather(-1, index)
    if axis.labels is not None:  # other keys have no term
        has_label = (key_coordinates[..., None] == axis.labels.to(queries.device)).any(-1)
        term = term.masked_fill(~has_label[:, None, None], 0.0)
    return term


def softmax(logits: Tensor, is_visible: Tensor) -> Tensor:
    """Attention weights over the visible keys of each query; zeros for a query without any."""
    # A row without visible keys would be 0/0. Its logits are not masked, so that the softmax and
    # its gradient are finite, and its weights are set to 0 at the end.
    is_empty = ~is_visible.any(-1, keepdim=True)
    weights = logits.masked_fill(~(is_visible | is_empty), float("-inf")).softmax(-1)
    return weights.masked_fill(~is_visible, 0.0)


def value_term(
    weights: Tensor, table: Tensor, axis: Axis, query_positions: Positions, key_positions: Positions
) -> Tensor:
    """The term of the value table, sum_j w_ij V[delta]: (B, H, Tq, D). The weights of all keys at
    one distance are summed first."""
    rows = axis.rows(*(as_tensor(x, table.device) for x in (query_positions, key_positions)))
    row_weights = weights.new_zeros(*weights.shape[:3], table.shape[1])
    row_weights = row_weights.scatter_add(-1, rows[:, None].expand_as(weights), weights)
    return row_weights @ table


def attention_weights(q: Tensor, k: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """The attention weights (B, H, Tq, Tk) before dropout, in float32 or more. Rows sum to 1, or to
    0 without visible keys."""
    precise = torch.promote_types(q.dtype, torch.float32)
    with without_autocast(q.device):
        content, position = (x * terms.scale for x in terms.queries(q.to(precise)))
        logits = content @ k.to(precise).transpose(-1, -2)
        for axis in terms.axes:
            logits = logits + axis_term(position, axis, *setting.positions(axis.coordinate))
        return softmax(logits, visibility_mask(setting, q.device, terms.blocks))


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D) over k, v (B, H, Tk, D): (B, H, Tq, D) in the dtype of q."""
    weights = attention_weights(q, k, terms, setting)
    with without_autocast(q.device):
        weights = F.dropout(weights, setting.dropout)
        out = weights @ v.to(weights.dtype)
        if terms.value_table is not None:
            axis, table = terms.axes[0], terms.value_table.to(weights.dtype)
            out = out + value_term(weights, table, axis, *setting.positions(axis.coordinate))
        return out.to(q.dtype)
