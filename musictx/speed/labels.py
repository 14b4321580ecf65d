"""Axes whose keys carry one of few labels, as plain attention with a wider head.

Where the coordinate of key j is one of K labels c (a pitch, a voice), the term of an axis depends
on query i and on the label alone:

    A[i, c] = <q_i, R[clamp(p_i - c)]> + b[clamp(p_i - c)] / scale

is Tq x K numbers, and what key j gets of it, A[i, c_j], is the product of row i of A with a vector
that is 1 at c_j and 0 elsewhere. So

    <q_i, k_j> + A[i, c_j] = <[q_i, A_i], [k_j, 1 at c_j]>

and whatever computes content attention computes the axis too, with its own memory: exactly, with no
L x L gather, for D + K numbers to a head. A key with no label of the axis gets zeros: no term.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.reference import term
from musictx.attention.setting import Setting
from musictx.attention.terms import Terms, as_tensor, without_autocast


def of_one_width(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    setting: Setting,
    sizes: tuple[int, ...] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Terms]:
    """(q, k, v, terms) without labels, in the dtype of q, for kernels that have no biases of
    queries and need q, k and v of one width, one of ``sizes`` (None: any). Without axes of labels
    the arguments are returned unchanged.

    Tables and values get zeros in the further channels. So the first channels of the kernel's
    output, as many as q had, are the result, and the others are zero.
    """
    if all(axis.labels is None for axis in terms.axes):
        return q, k, v, terms
    content, _, keys, terms = widened(q, k, terms, setting)
    size = keys.shape[-1]
    if sizes is not None:
        size = min(n for n in sizes if n >= size)

    def fill(x: Tensor) -> Tensor:
        return F.pad(x, (0, size - x.shape[-1]))

    axes = tuple(
        axis if axis.table is None else replace(axis, table=fill(axis.table)) for axis in terms.axes
    )
    content, keys, values = (fill(x).to(q.dtype) for x in (content, keys, v))
    return content, keys, values, replace(terms, axes=axes)


def widened(
    q: Tensor, k: Tensor, terms: Terms, setting: Setting
) -> tuple[Tensor, Tensor, Tensor, Terms]:
    """(content, position, keys, terms): every axis of labels in further channels of q (B, H, Tq, D)
    and k (B, H, Tk, D). Computed in float32 at least.

    content   (B, H, Tq, D + K): queries for products with keys, content bias included
    position  (B, H, Tq, D): queries for products with tables, position bias included
    keys      (B, H, Tk, D + K)
    terms     the other axes, without content bias and position bias
    """
    precise = torch.promote_types(q.dtype, torch.float32)
    others = tuple(axis for axis in terms.axes if axis.labels is None)
    with without_autocast(q.device):
        content, position = terms.queries(q.to(precise))
        of_queries, of_keys = [content], [k.to(precise)]
        for axis in terms.axes:
            if axis.labels is None:
                continue
            at = setting.query_positions[axis.coordinate]
            over = as_tensor(setting.key_positions[axis.coordinate], q.device)
            labels = axis.labels.to(q.device)
            bias = None if axis.bias is None else axis.bias.to(precise) / terms.scale
            of_queries.append(term(position, replace(axis, bias=bias), at, labels[None]))
            one_at_label = (over[..., None] == labels).to(precise)  # (1 or B, Tk, K)
            of_keys.append(one_at_label[:, None].expand(*k.shape[:3], -1))
    left = replace(terms, axes=others, content_bias=None, position_bias=None)
    return torch.cat(of_queries, dim=-1), position, torch.cat(of_keys, dim=-1), left
