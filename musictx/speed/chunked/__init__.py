"""Attention in blocks of queries, with linear memory; causal attention skips the upper half.

The relative logits need no gather. For a block of m queries over w keys, the product P = Q E^T with
the table E in *descending* distance has the logit of query r and key j in column j + (m-1-r). With
row stride W, this is entry r*(W-1) + (m-1) + j of the memory. So the same memory, read from entry
m-1 on with row stride W-1, is the matrix of logits by query and key. The content logits Q K^T are
added in place. In the backward pass the gradient of the logits, read with row stride W again, is
the gradient of P. (Huang et al. 2018 skew by copying; here two strided views of the same memory
suffice.) A value table needs the weights by distance and uses the same two views.

There are w+m-1 distances between w keys and m queries. If the block's last key is at the position
of its last query, as in causal self-attention, the m-1 negative distances are masked in any case,
and w columns are enough; then cells right of the diagonal contain numbers of other rows until they
are masked. W is at least the number of distances and at least w+1, rounded up to a number that
suits the cache. Excess columns belong to no distance, and their rows of E are 0 (tiling.py).

Products and softmax are in float32, or in float64 for float64 inputs. All sums have a fixed order:
the same inputs give the same bits on the same machine.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from musictx.attention.job import CONSECUTIVE, Job, Setting, first_keys
from musictx.attention.terms import ORDER, Span, Terms, as_tensor, without_autocast
from musictx.speed import kernels
from musictx.speed.chunked import passes
from musictx.speed.labels import widen

__all__ = ["attend", "unsupported_reason"]


def unsupported_reason(job: Job) -> str | None:
    """Why this implementation cannot do the job, or None."""
    # On other devices overlapping views of the same memory are untested.
    return job.reason_against(layout=CONSECUTIVE, devices=("cpu", "cuda"))


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D) over k and v (B, H, Tk, D): (B, H, Tq, D) in the dtype of q.

    Arguments are not checked here (:func:`musictx.attention.attend` checks them).
    """
    dtype, heads = q.dtype, q.shape[1]
    queries, keys = setting.positions(ORDER)
    assert isinstance(queries, Span)
    assert isinstance(keys, Span)
    # The distances between queries and keys are stop - 1, ..., lowest. In causal attention of the
    # last queries, negative distances are masked and left out.
    stop, lowest = queries.stop - keys.start, queries.start - keys.stop + 1
    if setting.causal and queries.stop == keys.stop and len(queries) <= len(keys):
        lowest = 0
    # autocast is off here and in both passes: they choose the precision themselves.
    with without_autocast(q.device):
        content, position = terms.queries(q)
        if any(axis.labels is not None for axis in terms.axes):
            content, position, k, terms = widen(q, k, terms, setting)
        table = value_table = None
        for axis in terms.axes:
            if terms.value_table is not None:
                value_table = axis.descending(terms.value_table, stop, lowest)
                value_table = value_table.expand(heads, -1, -1)
            if axis.table is not None:
                table = axis.descending(axis.table, stop, lowest).expand(heads, -1, -1)
            # The bias is one more channel of the table; there the scaled queries are 1.
            if axis.bias is not None:
                bias = axis.descending(axis.bias, stop, lowest)[..., None].expand(heads, -1, -1)
                precise = torch.promote_types(dtype, torch.float32)
                unit = position.new_full((1,), 1 / terms.scale, dtype=precise)
                units = unit.expand(*position.shape[:3], 1)
                position = units if table is None else torch.cat([position, units], dim=-1)
                table = bias if table is None else torch.cat([table, bias], dim=-1)
        out, _ = attention(
            *(content, position, k, v, table, value_table, kernels.dropout_seed(setting)),
            *_codes(terms, setting, q.device),
            *(terms.scale, setting.dropout, setting.causal, queries.start - keys.start),
        )
    return out.to(dtype)


def _codes(
    terms: Terms, setting: Setting, device: torch.device
) -> tuple[Tensor | None, Tensor | None, int]:
    """(query_codes, key_codes, margin) for :class:`musictx.speed.chunked.tiling.Tiling`."""
    blocks = terms.blocks
    if blocks is None:
        return setting.query_pieces, setting.key_pieces, 0
    positions = setting.positions(blocks.coordinate)
    codes = first_keys(setting.query_pieces, setting.key_pieces)
    if codes is None and all(isinstance(x, Span) for x in positions):
        device = torch.device("cpu")  # where the passes can read the codes to skip keys
    queries, keys = (as_tensor(x, device) // blocks.length for x in positions)
    if codes is not None:
        stride = 2**40  # from the codes of one piece to those of the next
        queries, keys = codes[0] * stride + queries, codes[1] * stride + keys
    return queries, keys, 1


def _empty(content: Tensor, position: Any, k: Any, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Memory for the output (B, H, Tq, D) and the log of each query's sum of weights (B, H, Tq)."""
    dtype = torch.promote_types(content.dtype, torch.float32)
    shape = content.shape[:3]
    return v.new_empty(*shape, v.shape[3], dtype=dtype), v.new_empty(shape, dtype=dtype)


attention = kernels.operator(
    "chunked_attention",
    "Tensor content, Tensor position, Tensor k, Tensor v, Tensor? table, Tensor? values, "
    "Tensor? seed, Tensor? query_codes, Tensor? key_codes, int margin, float scale, float dropout, "
    "bool causal, int offset",
    6,
    _empty,
    passes.forward,
    passes.backward,
)
