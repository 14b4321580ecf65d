"""Attention of one new query over the cached keys, with torch operations.

A single query needs no skew: one product q E^T with the table gives the relative logits of all
distances. Those of consecutive keys are a slice of it in descending distance, because the oldest
key comes first. This works on every device and is differentiable.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention import reference
from musictx.attention.job import Job, Setting
from musictx.attention.terms import Axis, Span, Terms, without_autocast


def unsupported_reason(job: Job) -> str | None:
    """Why this implementation cannot do the job, or None."""
    return None if job.single_query else "it computes only one causal query over earlier keys"


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, 1, D) over k, v (B, H, Tk, D): (B, H, 1, D) in the dtype of q.

    Requires ``job.single_query``: ``setting.causal`` is true, and no key is later than the query.
    Arguments are not checked here (:func:`musictx.attention.attend` checks them).
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    with without_autocast(q.device):
        content, position = (x * terms.scale for x in terms.queries(q.to(precise)))
        logits = content @ k.to(precise).transpose(-1, -2)
        for axis in terms.axes:
            query, keys = setting.positions(axis.coordinate)
            if isinstance(query, Span) and isinstance(keys, Span) and axis.labels is None:
                logits = _add_axis(logits, position, axis, query, keys)
            else:
                logits = logits + reference.axis_term(position, axis, query, keys)
        if setting.query_pieces is None and terms.blocks is None:
            weights = logits.softmax(-1)
        else:
            is_visible = reference.visibility_mask(setting, q.device, terms.blocks)
            weights = reference.softmax(logits, is_visible)
        weights = F.dropout(weights, setting.dropout)
        out = weights @ v.to(precise)
        if terms.value_table is not None:
            axis, table = terms.axes[0], terms.value_table.to(precise)
            query, keys = setting.positions(axis.coordinate)
            if isinstance(query, Span) and isinstance(keys, Span):
                out = out + weights @ axis.descending(table, *_distance_range(query, keys))
            else:
                out = out + reference.value_term(weights, table, axis, query, keys)
        return out.to(q.dtype)


def _distance_range(query: Span, keys: Span) -> tuple[int, int]:
    """(stop, lowest): the distances from the query to the keys are stop - 1, ..., lowest."""
    return query.start - keys.start + 1, query.start - keys.stop + 1


def _add_axis(logits: Tensor, position: Tensor, axis: Axis, query: Span, keys: Span) -> Tensor:
    """The logits (B, H, 1, Tk) plus the terms of an axis on which positions are consecutive.
    ``position`` (B, H, 1, D) is the query for products with the table."""
    stop, lowest = _distance_range(query, keys)
    axis = axis.within(lowest, stop - 1)  # few keys need only a few rows of the table
    if axis.table is not None:
        table = axis.table.to(position.dtype).expand(position.shape[1], -1, -1)
        products = position[:, :, 0].transpose(0, 1) @ table.transpose(1, 2)  # (H, B, rows)
        relative = axis.descending(products.transpose(1, 2), stop, lowest)  # (H, keys, B)
        logits = logits + relative.permute(2, 0, 1)[:, :, None]
    if axis.bias is not None:
        bias = axis.descending(axis.bias.to(position.dtype), stop, lowest)
        logits = logits + bias[:, None]
    return logits
