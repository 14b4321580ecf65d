"""Causal relative attention on the CPU in C++, from a wheel or compiled on first use: what ``auto``
takes there.

The algorithm of speed/chunked (whose page explains the skew) without its passes over memory
between the products; a table, a bias, packed pieces and dropout, float32 and bfloat16. Without
a prebuilt library and a compiler ``auto`` falls back to chunked, and the name ``native`` raises an
error with the reason.

kernel.cpp     the operator: no Python, no torch, nothing to link against; panel.h has the steps of
               both passes, numbers.h the arithmetic
bf16_gemm.h    products of bfloat16 matrices for CPUs that have the instruction
float_gemm.h   products of float32 matrices for a torch that exports none
threads.h      the kernel's threads
build.py       source -> shared library, from the wheel or compiled into the user's cache
library.py     the library loaded, with the matrix products that torch contains
op.py          operators of torch with their gradients
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from musictx.attention.setting import Job, Setting, refusal
from musictx.attention.terms import Terms
from musictx.errors import UserError
from musictx.speed.kernels import computes_in, constant, kernel, narrowed, trial
from musictx.speed.labels import of_one_width
from musictx.speed.native import build, library, op

__all__ = ["attend", "runs", "supports"]


#: What :func:`_missing` returns, under the key "", once it has been called.
_MISSING: dict[str, str | None] = {}


@constant
def _missing() -> str | None:
    """Why the kernel cannot be used on this machine, or None. It is loaded, and compiled where no
    prebuilt one is there, on the first call of a process."""
    if "" not in _MISSING:
        _MISSING[""] = _loaded()
    return _MISSING[""]


def _loaded() -> str | None:
    try:
        if not build.prebuilt(library.SOURCE):
            build.compiler()
    except UserError as error:
        return _without_name(error)
    try:
        library.load()
    except UserError as error:
        print(f"musictx: {error}", file=sys.stderr)  # with a compiler nobody expects a failure
        return _without_name(error)
    return None


def _without_name(error: UserError) -> str:
    return str(error).removeprefix("attention=native: ")


def supports(job: Job) -> str | None:
    """Why it cannot do the job, or None."""
    reason = refusal(
        *kernel(job),
        (job.device not in (None, "cpu"), f"it computes on cpu, not on {job.device}"),
        *computes_in(job, torch.float32, torch.bfloat16, torch.float16),
    )
    return reason or (None if job.device is None else _missing())


@constant
def runs(device: Any, dtype: Any, size: Any, labels: int) -> bool:
    """Whether it works on this machine; asked once a process."""
    return trial("native", attend, device, dtype, size, labels)


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D), the last Tq of the Tk tokens, over k and v (B, H, Tk, D).

    Arguments are taken as checked (:func:`musictx.attention.attend`). Softmax and sums are float32.
    Products are float32, or bfloat16 in and float32 out for inputs in bfloat16 where the CPU has
    instructions for it. The first call may compile (a few seconds); UserError where that cannot be.
    """
    dtype, size, keys = q.dtype, q.shape[-1], k.shape[2]
    q, k, v, terms = of_one_width(q, k, v, terms, setting)
    table = bias = None
    if terms.axes:
        axis = narrowed(terms.axes[0], 0, keys - 1)
        if axis.table is not None:
            table = axis.descending(axis.table, keys)
        if axis.bias is not None:
            bias = axis.descending(axis.bias, keys)
    seed = int(torch.randint(2**62, ())) if setting.dropout else 0
    # The operator chooses the precision itself.
    with torch.autocast("cpu", enabled=False):
        out, _ = op.attention(
            *(q, k, v, table, bias, setting.query_pieces, setting.key_pieces),
            *(terms.scale, setting.dropout, seed),
        )
        result: Tensor = out[..., :size].to(dtype)
        return result


def check() -> str:
    """Where attention in C++ comes from on this machine, or why there is none."""
    reason = _missing()
    path = build.prebuilt(library.SOURCE)
    return f"none: {reason}" if reason else f"prebuilt: {path}" if path else "compiled here"
