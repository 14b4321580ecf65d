"""Relative attention as one kernel for NVIDIA GPUs, in Triton: linear in memory.

It supports the same as attention in C++: causal attention with a table or a bias for each distance,
labels, packed pieces and dropout. Other terms are computed by speed/chunked. The skew is one
gather in registers (skew.py); the forward pass costs 3 products where plain attention costs 2.
Tiles, warps and stages are those of a :class:`~musictx.speed.fused.config.Config`.

Inputs in bfloat16, float16 or float32; softmax, sums and the gradients of the tables in float32.
Triton is imported when the kernel first runs. With ``TRITON_INTERPRET=1`` set before that, it runs
on the CPU, very slowly: for tests.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from musictx.attention.setting import Job, Setting, refusal
from musictx.attention.terms import Axis, Terms
from musictx.speed.fused import op
from musictx.speed.fused.config import HEAD_DIMS
from musictx.speed.fused.masks import Mask, mask
from musictx.speed.kernels import computes_in, constant, kernel, narrowed, trial
from musictx.speed.labels import of_one_width

__all__ = ["attend", "runs", "supports"]


@constant
def _missing() -> str | None:
    return None if find_spec("triton") else "Triton is not installed (pip install triton)"


def supports(job: Job) -> str | None:
    """The reason why this implementation cannot do the job, or None."""
    elsewhere = job.device not in (None, "cuda") and os.environ.get("TRITON_INTERPRET") != "1"
    size, sizes = (job.size or 0) + job.labels, ", ".join(map(str, HEAD_DIMS))
    fits = job.size is None or (size <= max(HEAD_DIMS) if job.labels else size in HEAD_DIMS)
    reason = refusal(
        *kernel(job),
        (
            job.deterministic,
            "its sums have other last bits in every run (torch.use_deterministic_algorithms)",
        ),
        (not job.scale, "it needs a scale above 0"),
        (elsewhere, f"it computes on cuda, not on {job.device}"),
        *computes_in(job, torch.bfloat16, torch.float16, torch.float32),
        (not fits, f"it computes heads of {sizes} numbers, not {size}"),
    )
    return reason or (None if job.device is None else _missing())


@constant
def runs(device: Any, dtype: Any, size: Any, labels: int) -> bool:
    """Whether it works on this machine; asked once a process."""
    return trial("fused", attend, device, dtype, size, labels)


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D), the last Tq of the Tk tokens, over k and v (B, H, Tk, D).

    Arguments are not checked here (:func:`musictx.attention.attend` does). The gradients of tables
    are summed by threads in any order, so their last bits differ from run to run.
    """
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    q, k, v, terms = of_one_width(q, k, v, terms, setting, HEAD_DIMS)
    axis = _narrowed(terms, keys)
    hidden = mask(setting) or [None] * len(Mask._fields)
    row_random = column_random = None
    if setting.dropout:
        row_random = _random((batch, heads, queries), q.device)
        column_random = _random((batch, heads, keys), q.device)
    out: Tensor = op.attention(
        *(q, k, v, axis.table, axis.bias),
        *hidden,
        *(row_random, column_random),
        *(axis.low, axis.high, terms.scale, setting.dropout),
    )[0]
    return out[..., :width]


def _narrowed(terms: Terms, keys: int) -> Axis:
    """The axis of ``terms`` with rows only for the distances that occur, 0 to ``keys`` - 1."""
    if not terms.axes:
        return Axis()
    axis = narrowed(terms.axes[0], 0, keys - 1)
    if axis.high < 0:  # one row is left, that of all distances that occur
        axis = replace(axis, low=0, high=0)
    return axis


def _random(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """32 random bits for each row: dropout hashes one of a query with one of a key."""
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, device=device)
