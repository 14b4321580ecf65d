"""What several implementations of attention share: operators of torch, a trial before the first
use, and the reasons why a job is not supported.

An operator makes a kernel known to autograd, compilation and autocast. ``torch.library.custom_op``
would do the same and import the whole compiler (1.5 seconds) with the first call; these few lines
do not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from musictx.attention.setting import (
    CAUSAL_ONLY,
    NO_TANGENTS,
    Case,
    Job,
    Setting,
    last_of_keys,
    no_extras,
)
from musictx.attention.terms import Axis, Span, Terms

_LIBRARY = torch.library.Library("musictx", "FRAGMENT")


def define(
    name: str,
    schema: str,
    compute: Callable[..., Any],
    shapes: Callable[..., Any],
    *,
    setup: Callable[..., None] | None = None,
    backward: Callable[..., Any] | None = None,
) -> Any:
    """The operator ``torch.ops.musictx.NAME`` of this schema, "(Tensor q, ...) -> Tensor".

    compute   what it does; it changes none of its inputs and returns none of them
    shapes    what it returns as far as shape, dtype and device go
    setup, backward   as of ``torch.library.register_autograd``; a backward that differentiates no
        further is :func:`twice`
    """
    _LIBRARY.define(name + schema)
    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"musictx::{name}", shapes, lib=_LIBRARY)
    if backward is not None:
        torch.library.register_autograd(
            f"musictx::{name}", backward, setup_context=setup, lib=_LIBRARY
        )
    return getattr(torch.ops.musictx, name).default


def twice(ctx: Any, *upstream: Any) -> Any:
    """The backward pass of a backward pass: it raises an error. Autograd calls it whenever a second
    derivative is computed, because the gradients depend on all inputs of the operator."""
    raise RuntimeError(
        "attention: this implementation cannot be differentiated twice; use "
        "implementation=reference (model.attention=reference), which can"
    )


def constant(answer: Callable[..., Any]) -> Callable[..., Any]:
    """``answer`` for ``torch.compile`` to call once and keep: what
    ``torch.compiler.assume_constant_result`` does, without importing the compiler."""
    answer._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return answer


#: The answers of :func:`trial` by its arguments.
_RUNS: dict[tuple[Any, ...], bool] = {}


def trial(
    name: str, attend: Callable[..., Tensor], device: Any, dtype: Any, size: Any, labels: int
) -> bool:
    """Whether the implementation computes a few tokens and their gradients without an error, once a
    process. The error goes to stderr in one line."""
    key = name, device, dtype, size, labels
    if key not in _RUNS:
        try:
            with torch.inference_mode(False), torch.enable_grad():
                x = torch.linspace(-1, 1, 40 * size, device=device).view(1, 1, 40, size).to(dtype)
                q, table = x.requires_grad_(), x[0].detach().requires_grad_()
                axes, span = [Axis(table, high=39)], (Span(0, 40),) * 2
                if labels:
                    named = torch.arange(labels, device=device)
                    axes.append(Axis(table, high=39, coordinate=1, labels=named))
                terms = Terms(size**-0.5, tuple(axes))
                out = attend(q, q, q, terms, Setting(span, span))
                gradients = torch.autograd.grad(out.sum(), (q, table))
                if not all(bool(x.isfinite().all()) for x in gradients):
                    raise ArithmeticError("its gradients are not finite")
            _RUNS[key] = True
        except Exception as error:  # whatever a compiler or a driver raises
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            print(f"musictx: attention={name} is not used: it failed ({reason})", file=sys.stderr)
            _RUNS[key] = False
    return _RUNS[key]


def narrowed(axis: Axis, lowest: int, highest: int) -> Axis:
    """``axis`` with rows only for the distances lowest..highest."""
    low = max(axis.low, min(lowest, axis.high))
    high = max(low, min(axis.high, highest))
    rows = slice(low - axis.low, high - axis.low + 1)
    return replace(
        axis,
        table=None if axis.table is None else axis.table[:, rows],
        bias=None if axis.bias is None else axis.bias[:, rows],
        low=low,
        high=high,
    )


def one_axis(job: Job) -> Iterator[Case]:
    """For implementations of one axis without labels, by the order of tokens."""
    several = f"it computes one axis of distance without labels for keys, not {job.axes}"
    further = "it measures the order of tokens only, not further coordinates without labels"
    yield job.axes > 1, several
    yield job.further, further


def computes_in(job: Job, *dtypes: torch.dtype) -> Iterator[Case]:
    """For implementations with these dtypes only."""
    names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
    yield job.dtype not in (None, *dtypes), f"it computes in {names}, not {job.dtype}"


def kernel(job: Job) -> Iterator[Case]:
    """For kernels of causal attention of the last of the keys, with a table and a bias by order,
    labels, packed pieces and dropout; speed/decode.py computes single queries for them."""
    yield not job.causal, CAUSAL_ONLY
    yield job.tangents, NO_TANGENTS
    yield from one_axis(job)
    yield from no_extras(job)
    if not job.single_query:
        yield from last_of_keys(job)
