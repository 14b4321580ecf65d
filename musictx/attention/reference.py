"""The specification: dense attention over the sum of terms, written to be read.

Any device, any floating dtype (float64 included), every combination of terms and positions. It
holds logits of B x H x Tq x Tk at once; the other implementations must agree with it.

Masks are Boolean. A key is hidden from a query when it stands later (``causal``), belongs to
another piece, or lies in a block far away (``Terms.blocks``). A query that sees no key at all gives
zeros and receives no gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.job import Job
from musictx.attention.setting import Setting
from musictx.attention.terms import (
    Axis,
    Blocks,
    Positions,
    Terms,
    as_tensor,
    without_autocast,
)


def supports(job: Job) -> str | None:
    """None: this implementation can do any job."""
    return None


def visible(setting: Setting, device: torch.device, blocks: Blocks | None = None) -> Tensor:
    """Which query may look at which key: bool (1 or B, 1 or H, Tq, Tk)."""
    queries = [as_tensor(x, device)[:, None, :, None] for x in setting.query_positions]
    keys = [as_tensor(x, device)[:, None, None, :] for x in setting.key_positions]
    query, key = queries[0], keys[0]
    seen = (key <= query) if setting.causal else (key == key).expand(-1, -1, query.shape[2], -1)
    if blocks is not None:
        block_of_query = queries[blocks.coordinate] // blocks.length
        block_of_key = keys[blocks.coordinate] // blocks.length
        seen = seen & ((block_of_query - block_of_key).abs() <= 1)
    same_piece = setting.same_piece()
    seen = seen if same_piece is None else seen & same_piece
    return seen if setting.hidden is None else seen & ~setting.hidden


def term(position: Tensor, axis: Axis, at: Positions, over: Positions) -> Tensor:
    """<q_i, R[delta]> + b[delta] of one axis: (B, H, Tq, n).

    position  (B, H, Tq, D): queries, scaled;  at, over  coordinates of these and of n keys
    """
    at, over = as_tensor(at, position.device), as_tensor(over, position.device)
    index = axis.rows(at, over)[:, None].expand(*position.shape[:3], -1)
    added = position.new_zeros(index.shape)
    if axis.table is not None:  # <q_i, R[row]> for every row, then the row of each key
        scores = position @ axis.table.to(position.dtype).transpose(-1, -2)
        added = scores.gather(-1, index)
    if axis.bias is not None:
        scores = axis.bias.to(position.dtype)[None, :, None].expand(*position.shape[:3], -1)
        added = added + scores.gather(-1, index)
    if axis.labels is not None:
        added = added.masked_fill(~axis.measured(over)[:, None, None], 0.0)
    return added


def softmax(logits: Tensor, seen: Tensor) -> Tensor:
    """Weights over the keys that each query has ``seen``; zeros for a query without any."""
    # A row without any visible key would be 0/0. Its logits are left alone, so that softmax
    # and its gradient stay finite, and its weights become 0 in the last step.
    blind = ~seen.any(-1, keepdim=True)
    weights = logits.masked_fill(~(seen | blind), float("-inf")).softmax(-1)
    return weights.masked_fill(~seen, 0.0)


def of_values(weights: Tensor, table: Tensor, axis: Axis, at: Positions, over: Positions) -> Tensor:
    """sum_j w_ij V[delta], (B, H, Tq, D): the weights of all keys at one distance are summed, and
    multiply its vector once."""
    rows = axis.rows(as_tensor(at, table.device), as_tensor(over, table.device))
    by_row = weights.new_zeros(*weights.shape[:3], table.shape[1])
    by_row = by_row.scatter_add(-1, rows[:, None].expand_as(weights), weights)
    return by_row @ table


def attention_weights(q: Tensor, k: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """How much each query looks at each key: (B, H, Tq, Tk), rows sum to 1 (or 0: nothing to see).

    Computed and returned in float32 at least, before dropout.
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    places = list(zip(setting.query_positions, setting.key_positions))
    with without_autocast(q.device):
        content, position = (x * terms.scale for x in terms.queries(q.to(precise)))
        logits = content @ k.to(precise).transpose(-1, -2)
        for axis in terms.axes:
            logits = logits + term(position, axis, *places[axis.coordinate])
        return softmax(logits, visible(setting, q.device, terms.blocks))


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D) over k, v (B, H, Tk, D): (B, H, Tq, D) in the dtype of q.

    Dropout zeroes that share of the weights and scales the others up.
    """
    weights = attention_weights(q, k, terms, setting)
    with without_autocast(q.device):
        weights = F.dropout(weights, setting.dropout)
        out = weights @ v.to(weights.dtype)
        if terms.value_table is not None:
            axis, table = terms.axes[0], terms.value_table.to(weights.dtype)
            places = list(zip(setting.query_positions, setting.key_positions))
            out = out + of_values(weights, table, axis, *places[axis.coordinate])
        return out.to(q.dtype)
