"""One new query over a ring of slots as a Triton kernel: keys and values are read once.

What decode/step.py does with a handful of products, each of which writes B x H x S numbers
to memory, and for half precision copies the whole cache into float32 first. Here a program has one
head of one row and a part of its slots, keeps the running maximum, sum and weighted mean (online
softmax: Milakov and Gimelshein 2018) in registers, and a second kernel joins the parts. Everything
but the stored keys and values is in float32. Slots that are not yet written are not read.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64
#: Programs that fill a large GPU a few times over.
PROGRAMS = 512


@triton.jit
def parts(
    q, k, v, relative, position, first, maximum, total, mean, out,
    slots, heads, chunk, stride_row, stride_head, low, high, scale,
    D: tl.constexpr, BLOCK: tl.constexpr, RELATIVE: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Slots from split * chunk on of head ``which``; WHOLE: one part only, nothing to join."""
    which = tl.program_id(0)
    split = tl.program_id(1)
    at = tl.load(position)
    begin = tl.load(first)
    channel = tl.arange(0, D)
    query = tl.load(q + which * D + channel).to(tl.float32) * scale
    here = which.to(tl.int64) * slots * D
    logits_of = relative + (which // heads) * stride_row + (which % heads) * stride_head
    most = -1e30
    weight = 0.0
    summed = tl.zeros([D], tl.float32)
    stop = tl.minimum(tl.minimum((split + 1) * chunk, slots).to(tl.int64), at + 1).to(tl.int32)
    for start in range(split * chunk, stop, BLOCK):
        slot = start + tl.arange(0, BLOCK)
        distance = ((at - slot + slots) % slots).to(tl.int32)
        seen = (slot < stop) & (at - distance >= begin)
        place = here + slot[:, None] * D + channel[None, :]
        keys = tl.load(k + place, mask=seen[:, None], other=0.0).to(tl.float32)
        logit = tl.sum(keys * query[None, :], 1)
        if RELATIVE:
            row = tl.minimum(tl.maximum(distance, low), high) - low
            logit += tl.load(logits_of + row, mask=seen, other=0.0)
        logit = tl.where(seen, logit, -1e30)
        larger = tl.maximum(most, tl.max(logit, 0))
        shrink = tl.exp(most - larger)
        each = tl.where(seen, tl.exp(logit - larger), 0.0)
        values = tl.load(v + place, mask=seen[:, None], other=0.0).to(tl.float32)
        weight = weight * shrink + tl.sum(each, 0)
        summed = summed * shrink + tl.sum(each[:, None] * values, 0)
        most = larger
    if WHOLE:
        tl.store(out + which * D + channel, (summed / weight).to(out.dtype.element_ty))
    else:
        number = which * tl.num_programs(1) + split
        tl.store(maximum + number, most)
        tl.store(total + number, weight)
        tl.store(mean + number * D + channel, summed)


@triton.jit
def join(maximum, total, mean, out, D: tl.constexpr, SPLITS: tl.constexpr):
    """The parts of one head: sums brought to the largest maximum. A part without slots weighs 0."""
    which = tl.program_id(0)
    number = which * SPLITS + tl.arange(0, SPLITS)
    channel = tl.arange(0, D)
    most = tl.load(maximum + number)
    factor = tl.exp(most - tl.max(most, 0))
    weight = tl.sum(tl.load(total + number) * factor, 0)
    summed = tl.sum(tl.load(mean + number[:, None] * D + channel[None, :]) * factor[:, None], 0)
    tl.store(out + which * D + channel, (summed / weight).to(out.dtype.element_ty))


def splits_of(programs: int, slots: int) -> int:
    """Into how many parts, a power of two, the slots of ``programs`` heads are cut."""
    splits = 1
    while programs * splits < PROGRAMS and splits * BLOCK < slots:
        splits *= 2
    return splits


def attend(
    q: Tensor, k: Tensor, v: Tensor, relative: Tensor | None, position: Tensor, first: Tensor,
    low: int, high: int, scale: float, splits: int = 0,
) -> Tensor:  # fmt: skip
    """q (B, H, 1, D) over k, v (B, H, S, D): like q, contiguous.

    relative         (B, H, high - low + 1) float32, consecutive along the last axis: logits added
                     for the distances low..high, clipped
    position, first  (1,) int64: of the query; of the oldest token
    """
    batch, heads, _, size = q.shape
    slots, programs = k.shape[2], batch * heads
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    out = torch.empty_like(q)
    splits = splits or splits_of(programs, slots)
    sizes = (programs * splits, programs * splits, programs * splits * size)
    if splits == 1:
        maximum = total = mean = out  # not used
    else:
        maximum, total, mean = q.new_empty(sum(sizes), dtype=torch.float32).split(sizes)
    strides = (0, 0) if relative is None else relative.stride()[:2]
    parts[(programs, splits)](
        q, k, v, q if relative is None else relative, position, first, maximum, total, mean, out,
        slots, heads, -(-slots // splits), *strides, low, high, scale,
        D=size, BLOCK=BLOCK, RELATIVE=relative is not None, WHOLE=splits == 1, num_warps=4,
    )  # fmt: skip
    if splits > 1:
        join[(programs,)](maximum, total, mean, out, D=size, SPLITS=splits, num_warps=4)
    return out
