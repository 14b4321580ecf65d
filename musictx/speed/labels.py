"""Axes whose coordinate is one of a few labels, computed as plain attention with a wider head.

If the coordinate of key j is one of K labels c (a pitch, a voice), the term of the axis depends
only on query i and the label:

    A[i, c] = <q_i, R[clamp(p_i - c)]> + b[clamp(p_i - c)] / scale

A has Tq x K entries. The term of key j, A[i, c_j], is the product of row i of A with a vector that
is 1 at c_j and 0 elsewhere. So

    <q_i, k_j> + A[i, c_j] = <[q_i, A_i], [k_j, 1 at c_j]>

and any implementation of plain attention also computes the axis: exactly, without an L x L gather,
with D + K channels per head. A key whose coordinate is not a label of the axis has zeros in these
channels, so that the axis adds nothing to its logits.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.job import Setting
from musictx.attention.reference import axis_term
from musictx.attention.terms import Terms, as_tensor, without_autocast


def pad_to_one_width(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    setting: Setting,
    sizes: tuple[int, ...] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Terms]:
    """Move the axes that have labels into additional channels, as :func:`widen`, for kernels whose
    q, k, v and tables must have the same width.

    Returns (q, k, v, terms) in the dtype of q; their width is the smallest of ``sizes`` that is
    large enough (None: any width). If no axis has labels, the arguments are returned unchanged.

    Tables and values are padded with zeros. So the result is in the first channels of the kernel's
    output, as many as q had, and the other channels are zero.
    """
    if all(axis.labels is None for axis in terms.axes):
        return q, k, v, terms
    content, _, keys, terms = widen(q, k, terms, setting)
    width = keys.shape[-1]
    if sizes is not None:
        width = min(size for size in sizes if size >= width)

    def pad(x: Tensor) -> Tensor:
        return F.pad(x, (0, width - x.shape[-1]))

    axes = tuple(
        axis if axis.table is None else replace(axis, table=pad(axis.table)) for axis in terms.axes
    )
    queries, keys, values = (pad(x).to(q.dtype) for x in (content, keys, v))
    return queries, keys, values, replace(terms, axes=axes)


def widen(
    q: Tensor, k: Tensor, terms: Terms, setting: Setting
) -> tuple[Tensor, Tensor, Tensor, Terms]:
    """Move the axes that have labels into additional channels of q (B, H, Tq, D) and k
    (B, H, Tk, D): K channels for K labels in all.

    Returns (content, position, keys, terms), computed in float32 at least:

    content   (B, H, Tq, D + K): queries for products with keys, content bias included
    position  (B, H, Tq, D): queries for products with tables, position bias included
    keys      (B, H, Tk, D + K)
    terms     the remaining terms: axes without labels, no content bias and no position bias
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    unlabelled = []
    with without_autocast(q.device):
        content, position = terms.queries(q.to(precise))
        query_parts, key_parts = [content], [k.to(precise)]
        for axis in terms.axes:
            if axis.labels is None:
                unlabelled.append(axis)
                continue
            query_positions, key_positions = setting.positions(axis.coordinate)
            labels = axis.labels.to(q.device)
            bias = None if axis.bias is None else axis.bias.to(precise) / terms.scale
            scaled = replace(axis, bias=bias)
            query_parts.append(axis_term(position, scaled, query_positions, labels[None]))
            key_labels = as_tensor(key_positions, q.device)[..., None]
            one_hot = (key_labels == labels).to(precise)  # (1 or B, Tk, K)
            key_parts.append(one_hot[:, None].expand(*k.shape[:3], -1))
    remaining = replace(terms, axes=tuple(unlabelled), content_bias=None, position_bias=None)
    return torch.cat(query_parts, dim=-1), position, torch.cat(key_parts, dim=-1), remaining
