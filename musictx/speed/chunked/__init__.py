"""Attention by blocks of queries: linear in memory; of causal attention only the half is computed.

The relative logits come without a gather. For a block of m queries over w keys, the product
P = Q E^T with the table E in *descending* distance holds the logit of query r and key j in column
j + (m-1-r). Written with W numbers to a row, that is place r*(W-1) + (m-1) + j of the buffer: the
same memory, begun at m-1 and read with W-1 numbers to a row, is the matrix wanted. So the content
logits Q K^T are added in place, and in the backward pass the gradient of the logits, read with W to
a row again, is the gradient of P (Huang et al. 2018 skew by copying; here two row lengths of one
buffer do it). A value table needs the same turn of the weights, and takes the same two views.

How many columns: w keys and m queries have w+m-1 distances between them. When the block's last key
is the last query itself, as in causal attention of a text to itself, the m-1 distances below 0 are
masked in any case, and w columns are enough. Then cells right of the diagonal hold other rows'
numbers until masked. W is at least that many and w+1, and a number that suits the cache; columns
beyond belong to no distance, and their rows of E are 0 (plan.py).

Products and softmax are in float32 (float64 for float64 inputs) whatever the inputs' dtype. All
sums run in a fixed order: the same inputs give the same bits on the same machine.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from musictx.attention.setting import ANY, NO_TANGENTS, SPANS_ONLY, Job, Setting, refusal
from musictx.attention.terms import Span, Terms, without_autocast
from musictx.speed.chunked.passes import Chunked
from musictx.speed.chunked.plan import Call, Local, Pieces, is_aligned
from musictx.speed.kernels import constant, one_axis, trial
from musictx.speed.labels import widened

__all__ = ["attend", "runs", "supports"]


def supports(job: Job) -> str | None:
    """Why it cannot do the job, or None."""
    # The buffers that are read in two ways are untried on other kinds of device.
    elsewhere = job.device not in (None, "cpu", "cuda")
    return refusal(
        (job.tangents, NO_TANGENTS),
        *one_axis(job),
        (job.layout == ANY, SPANS_ONLY),
        (elsewhere, f"it computes on cpu and cuda, not on {job.device}"),
    )


@constant
def runs(device: Any, dtype: Any, size: Any, labels: int) -> bool:
    """Whether it works on this machine; asked once a process."""
    return trial("chunked", attend, device, dtype, size, labels)


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D) over k and v (B, H, Tk, D): (B, H, Tq, D) in the dtype of q.

    Arguments are taken as checked (:func:`musictx.attention.attend`).
    """
    dtype, position = q.dtype, None
    if any(axis.labels is not None for axis in terms.axes):
        q, position, k, v, terms = widened(q, k, v, terms, setting)
    queries, keys = q.shape[2], k.shape[2]
    at, over = setting.query_positions, setting.key_positions
    assert isinstance(at[0], Span)
    assert isinstance(over[0], Span)
    # Query i has the position of key offset + i, even if there is no such key.
    offset = at[0].start - over[0].start
    causal, dropout = setting.causal, setting.dropout
    local = None
    if terms.blocks is not None:
        coordinate = terms.blocks.coordinate
        local = Local(terms.blocks.length, at[coordinate], over[coordinate])
    # The seed comes from the generator of the CPU: no waiting for a device, and a run that is
    # seeded or resumed drops the same weights.
    seed = int(torch.randint(2**62, ())) if dropout else 0
    pieces = Pieces.of(setting.query_pieces, setting.key_pieces)
    call = Call(
        *(terms.scale, dropout, seed, causal, offset, local, pieces),
        relative=bool(terms.axes),
    )
    # autocast is off here and in both passes: they choose the precision themselves.
    with without_autocast(q.device):
        content = q
        if terms.content_bias is not None:
            content = q + terms.content_bias.to(q.dtype)[:, None]
        table = bias = values = None
        if terms.axes:
            axis = terms.axes[0]
            # Distances from the greatest down to the smallest that any query meets.
            highest = offset + queries - 1
            aligned = is_aligned(causal, offset, queries, keys)
            lowest = 0 if aligned else offset - (keys - 1)

            def rows(x: Tensor | None) -> Tensor | None:
                if x is None:
                    return None
                x = axis.descending(x, highest + 1, lowest)
                return x.expand(q.shape[1], *[-1] * (x.dim() - 1))

            table, bias, values = rows(axis.table), rows(axis.bias), rows(terms.value_table)
            u, w = terms.content_bias, terms.position_bias
            if position is None and (u is not None or w is not None):
                position = q if w is None else q + w.to(q.dtype)[:, None]
        if table is None:
            position = None
        compute = Chunked.apply
        if torch.compiler.is_dynamo_compiling():  # it cannot follow two views of one memory
            compute = torch.compiler.disable(compute)
        out, _ = compute(content, position, k, v, table, bias, values, call)
    return out.to(dtype)
