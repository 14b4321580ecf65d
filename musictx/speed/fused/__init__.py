"""Relative attention as one Triton kernel for NVIDIA GPUs, with memory linear in the length.

Like attention in C++, it supports causal attention with a table or a bias over distances, labels,
packed pieces and dropout; speed/chunked computes other terms. The skew is one gather in registers
(skew.py); the forward pass needs 3 products for each tile, plain attention 2.

Inputs are bfloat16, float16 or float32; softmax, sums and the gradients of the tables are float32.
Triton is imported when the kernel first runs. With ``TRITON_INTERPRET=1`` set before that, it runs
on the CPU, very slowly, for tests.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from musictx.attention.job import Job, Setting
from musictx.attention.terms import Axis, Terms
from musictx.speed import kernels
from musictx.speed.fused import problem
from musictx.speed.fused.masks import mask
from musictx.speed.labels import pad_to_one_width

__all__ = ["attend", "unsupported_reason"]


def _missing() -> str | None:
    return None if find_spec("triton") else "Triton is not installed (pip install triton)"


def unsupported_reason(job: Job) -> str | None:
    """Why this implementation cannot do the job, or None."""
    if job.deterministic:
        return "the last bits of its sums differ between runs (torch.use_deterministic_algorithms)"
    if job.size is not None:
        size, sizes = job.size + job.labels, problem.HEAD_DIMS
        if size > max(sizes) or (size not in sizes and not job.labels):
            return f"it supports the head sizes {', '.join(map(str, sizes))}, not {size}"
    device = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    reason = kernels.unsupported_reason(job, device, torch.bfloat16, torch.float16, torch.float32)
    return reason or (None if job.device is None else _missing())


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D), the last Tq of the Tk tokens, over k and v (B, H, Tk, D).

    Arguments are not checked here (:func:`musictx.attention.attend` checks them). With 16-bit
    inputs the table may be float32: it is cast once per call, and its gradient is float32. The sums
    in gradients of tables have no fixed order, so their last bits differ from run to run.
    """
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    q, k, v, terms = pad_to_one_width(q, k, v, terms, setting, problem.HEAD_DIMS)
    axis = terms.axes[0].within(0, keys - 1) if terms.axes else Axis()
    if axis.high < 0:  # all distances are clipped to a single row
        axis = replace(axis, low=0, high=0)
    row_random = column_random = None
    if setting.dropout:
        row_random = _random((batch, heads, queries), q.device)
        column_random = _random((batch, heads, keys), q.device)
    out, _ = attention(
        *(q, k, v, axis.table, axis.bias),
        *mask(setting),
        *(row_random, column_random),
        *(axis.low, axis.high, terms.scale, setting.dropout),
    )
    return out[..., :width]


def _random(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """32 random bits for each query or key; dropout hashes those of each pair."""
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, device=device)


def _device(x: Tensor) -> AbstractContextManager[Any]:
    """Make the GPU of x the current one, on which Triton launches kernels."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def _empty(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Memory for the output, like q, and for the log to base 2 of each row's sum of weights."""
    return problem.empty_like(q), problem.empty(q.shape[:3], q.device)


def _forward(out: Tensor, log_sum: Tensor, *inputs: Any) -> None:
    from musictx.speed.fused import launch

    with _device(out):
        launch.forward(problem.Problem(*inputs), out, log_sum)


def _gradients(
    needs_gradient: list[bool], upstream: Tensor, out: Tensor, log_sum: Tensor, *inputs: Any
) -> tuple[Tensor | None, ...]:
    """Gradients of q, k, v, table and bias."""
    from musictx.speed.fused import launch

    needs_bias = needs_gradient[4]
    with _device(out):
        return launch.backward(problem.Problem(*inputs), upstream, out, log_sum, needs_bias)


attention = kernels.operator(
    "fused_attention",
    "Tensor q, Tensor k, Tensor v, Tensor? table, Tensor? bias, Tensor? query_codes, "
    "Tensor? key_codes, Tensor? query_stop, Tensor? row_random, "
    "Tensor? column_random, int low, int high, float scale, float dropout",
    5,
    _empty,
    _forward,
    _gradients,
    problem.empty_like,
)
