"""Causal relative attention on the CPU in C++, prebuilt in a wheel or compiled on first use.

The algorithm is that of speed/chunked, whose docstring explains the skew; logits stay in the CPU's
cache. It supports a table, a bias, labels, packed pieces and dropout, in float32 and bfloat16. On
CPUs ``auto`` prefers it. With neither a prebuilt library nor a compiler, ``auto`` falls back to
chunked, and ``native`` raises an error with the reason.

kernel.cpp     the forward and the backward pass; panel.h has the operations that both share
numbers.h      matrix products (GEMM): torch's or our own (bf16_gemm.h, float_gemm.h)
threads.h      the thread pool
step.cpp       the decoding step (speed/step.py), with the remaining headers
build.py       finds the shared library in the wheel or compiles it into the user's cache
library.py     loads the library and passes it the matrix products that torch contains
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from musictx.attention.job import Job, Setting, first_keys
from musictx.attention.terms import Axis, Terms
from musictx.speed import kernels
from musictx.speed.labels import pad_to_one_width
from musictx.speed.native import build, library

__all__ = ["attend", "unsupported_reason"]

BLOCK, PANEL = 128, 1024  # the most queries, and the most keys, of a panel (native/panel.h)


@cache
def _missing() -> str | None:
    """Why the kernel cannot be used on this machine, or None. The first call in a process loads the
    library, compiled if none is prebuilt; after a failure it is not tried again."""
    return build.failure(library.load)


def unsupported_reason(job: Job) -> str | None:
    """Why this implementation cannot do the job, or None."""
    reason = kernels.unsupported_reason(job, "cpu", torch.float32, torch.bfloat16, torch.float16)
    return reason or (None if job.device is None else _missing())


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D), the last Tq of the Tk tokens, over k and v (B, H, Tk, D).

    Arguments are not checked here (:func:`musictx.attention.attend` checks them). Softmax, products
    and sums are float32; on CPUs with bfloat16 instructions, factors stay bfloat16 if q is. The
    first call may compile the library (a few seconds) and raises UserError if that fails.
    """
    dtype, size, keys = q.dtype, q.shape[-1], k.shape[2]
    q, k, v, terms = pad_to_one_width(q, k, v, terms, setting)
    axis = terms.axes[0] if terms.axes else Axis()
    table, bias = (None if x is None else axis.descending(x, keys) for x in (axis.table, axis.bias))
    # The operator chooses the precision itself.
    with torch.autocast("cpu", enabled=False):
        out, _ = attention(
            *(q, k, v, table, bias),
            *(first_keys(setting.query_pieces, setting.key_pieces) or (None, None)),
            *(kernels.dropout_seed(setting), terms.scale, setting.dropout),
        )
        result: Tensor = out[..., :size].to(dtype)
        return result


def _empty(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Memory for the output (B, H, Tq, D) and the log of each row's sum of weights (B, H, Tq)."""
    out = q.new_empty(q.shape, dtype=torch.float32)
    return out, q.new_empty(q.shape[:3], dtype=torch.float32)


def _forward(out: Tensor, log_sum: Tensor, *inputs: Any) -> None:
    problem = _problem(*inputs)
    problem.point(out=out, log_sum=log_sum)
    library.load().run(problem, backward=False)


def _gradients(
    needs_gradient: list[bool], upstream: Tensor, out: Tensor, log_sum: Tensor, *inputs: Any
) -> tuple[Tensor | None, ...]:
    """Gradients of q, k, v, table and bias."""
    q, k, _, table, bias = inputs[:5]
    zeros = partial(torch.zeros, dtype=torch.float32)
    dq, dk, dv = torch.empty(q.shape, dtype=torch.float32), zeros(k.shape), zeros(k.shape)
    # One gradient for each batch row and head; ``_sum`` adds them in a fixed order.
    dtable = zeros(k.shape) if needs_gradient[3] else None
    dbias = zeros(k.shape[:3]) if needs_gradient[4] else None
    problem = _problem(*inputs)
    upstream = upstream.to(_dtype(q)).contiguous()
    problem.point(upstream=upstream, out=out, log_sum=log_sum)
    problem.point(dq=dq, dk=dk, dv=dv, dtable=dtable, dbias=dbias)
    library.load().run(problem, backward=True)
    gradients = (dq, dk, dv, _sum(dtable, table), _sum(dbias, bias))
    return tuple(g if g is None else g.to(x.dtype) for g, x in zip(gradients, inputs))


def _sum(gradients: Tensor | None, parameter: Tensor) -> Tensor | None:
    """The sum over batch rows and, if ``parameter`` is shared by all heads, over heads."""
    if gradients is None:
        return None
    by_head = gradients.sum(0)
    return by_head.sum(0, keepdim=True) if len(parameter) < len(by_head) else by_head


def _dtype(q: Tensor) -> torch.dtype:
    """The dtype in which the kernel multiplies: bfloat16 if q is and this CPU can, else float32."""
    is_bf16 = q.dtype == torch.bfloat16 and library.load().bf16
    return torch.bfloat16 if is_bf16 else torch.float32


def _problem(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor | None,
    bias: Tensor | None,
    query_codes: Tensor | None,
    key_codes: Tensor | None,
    seed: Tensor | None,
    scale: float,
    dropout: float,
) -> library.NativeProblem:
    """The kernel's argument, which points to contiguous tensors of the kernel's dtypes.

    q (B, H, Tq, D), the last Tq of the Tk tokens, k and v (B, H, Tk, D) have one dtype; table
    (H or 1, Tk, D) and bias (H or 1, Tk), in descending distance, may have another. Codes:
    :func:`musictx.attention.job.first_keys`.
    """
    dtype, drop_threshold = _dtype(q), round(dropout * 2**32)
    problem = library.NativeProblem(
        batch=q.shape[0],
        heads=q.shape[1],
        queries=q.shape[2],
        keys=k.shape[2],
        size=q.shape[3],
        table_heads=0 if table is None else len(table),
        bias_heads=0 if bias is None else len(bias),
        block=BLOCK,
        panel=max(PANEL, 2 * BLOCK),
        threads=torch.get_num_threads(),
        bf16=dtype == torch.bfloat16,
        seed=0 if seed is None else int(seed),
        drop_threshold=drop_threshold,
        scale=scale,
        kept_share=1.0 - drop_threshold / 2**32,
    )

    def convert(x: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        return None if x is None else x.to(dtype).contiguous()

    problem.point(q=convert(q, dtype), k=convert(k, dtype), v=convert(v, dtype))
    problem.point(table=convert(table, dtype), bias=convert(bias, torch.float32))
    query_codes, key_codes = (convert(x, torch.int32) for x in (query_codes, key_codes))
    problem.point(query_codes=query_codes, key_codes=key_codes)
    return problem


attention = kernels.operator(
    "native_attention",
    "Tensor q, Tensor k, Tensor v, Tensor? table, Tensor? bias, Tensor? query_codes, "
    "Tensor? key_codes, Tensor? seed, float scale, float dropout",
    5,
    _empty,
    _forward,
    _gradients,
)


def check() -> str:
    """Describe where the attention in C++ comes from, or why there is none."""
    if reason := _missing():
        return f"none: {reason}"
    path = build.prebuilt_path(library.SOURCE)
    return f"prebuilt: {path}" if path else "compiled here"
