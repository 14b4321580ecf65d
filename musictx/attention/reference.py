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

from musictx.attention.setting import Job, Setting
from musictx.attention.terms import Blocks, Positions, Terms, as_tensor, without_autocast


def supports(job: Job) -> str | None:
    """None: this implementation can do any job."""
    return None


def coordinates(positions: tuple[Positions, ...], device: torch.device) -> list[Tensor]:
    """Each coordinate as an int64 tensor (1, T) or (B, T)."""
    return [as_tensor(p, device) for p in positions]


def visible(setting: Setting, device: torch.device, blocks: Blocks | None = None) -> Tensor:
    """Which query may look at which key: bool (1 or B, 1 or H, Tq, Tk)."""
    queries = [x[:, None, :, None] for x in coordinates(setting.query_positions, device)]
    keys = [x[:, None, None, :] for x in coordinates(setting.key_positions, device)]
    query, key = queries[0], keys[0]
    seen = (key <= query) if setting.causal else (key == key).expand(-1, -1, query.shape[2], -1)
    if blocks is not None:
        block_of_query = queries[blocks.coordinate] // blocks.length
        block_of_key = keys[blocks.coordinate] // blocks.length
        seen = seen & ((block_of_query - block_of_key).abs() <= 1)
    same_piece = setting.same_piece()
    seen = seen if same_piece is None else seen & same_piece
    return seen if setting.hidden is None else seen & ~setting.hidden


def distance_rows(terms: Terms, setting: Setting, device: torch.device) -> list[Tensor]:
    """For each axis the table row of every (query, key): int64 (1 or B, Tq, Tk)."""
    queries = coordinates(setting.query_positions, device)
    keys = coordinates(setting.key_positions, device)
    return [axis.rows(queries[axis.coordinate], keys[axis.coordinate]) for axis in terms.axes]


def attention_weights(q: Tensor, k: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """How much each query looks at each key: (B, H, Tq, Tk), rows sum to 1 (or 0: nothing to see).

    Computed and returned in float32 at least, before dropout.
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    q, k = q.to(precise), k.to(precise)
    batch, heads = q.shape[:2]

    with without_autocast(q.device):
        u, v = terms.content_bias, terms.position_bias
        content = q if u is None else q + u.to(precise)[:, None]
        position = q if v is None else q + v.to(precise)[:, None]

        logits = terms.scale * (content @ k.transpose(-1, -2))
        every_row = distance_rows(terms, setting, q.device)
        for axis, rows in zip(terms.axes, every_row):
            index = rows[:, None].expand(batch, heads, -1, -1)
            added = torch.zeros_like(logits)
            if axis.table is not None:  # <q_i, R[row]> for every row, then the row of each key
                scores = position @ axis.table.to(precise).transpose(-1, -2)
                added = terms.scale * scores.gather(-1, index)
            if axis.bias is not None:
                scores = axis.bias.to(precise)[None, :, None].expand(batch, heads, q.shape[2], -1)
                added = added + scores.gather(-1, index)
            if axis.labels is not None:
                over = as_tensor(setting.key_positions[axis.coordinate], q.device)
                measured = axis.measured(over)
                added = added.masked_fill(~measured[:, None, None], 0.0)
            logits = logits + added

        seen = visible(setting, q.device, terms.blocks)
        # A row without any visible key would be 0/0. Its logits are left alone, so that softmax
        # and its gradient stay finite, and its weights become 0 in the last step.
        blind = ~seen.any(-1, keepdim=True)
        weights = logits.masked_fill(~(seen | blind), float("-inf")).softmax(-1)
        return weights.masked_fill(~seen, 0.0)


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D) over k, v (B, H, Tk, D): (B, H, Tq, D) in the dtype of q.

    Dropout zeroes that share of the weights and scales the others up.
    """
    weights = attention_weights(q, k, terms, setting)
    with without_autocast(q.device):
        weights = F.dropout(weights, setting.dropout)
        out = weights @ v.to(weights.dtype)
        if terms.value_table is not None:
            # The weights of all keys at one distance are summed, and multiply its vector once.
            rows = distance_rows(terms, setting, q.device)[0]
            table = terms.value_table.to(weights.dtype)
            by_row = weights.new_zeros(*weights.shape[:3], table.shape[1])
            by_row = by_row.scatter_add(-1, rows[:, None].expand_as(weights), weights)
            out = out + by_row @ table
        return out.to(q.dtype)
