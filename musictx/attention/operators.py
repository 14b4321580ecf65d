"""Our kernels as operators of torch, so that autograd, compilation and autocast know them.

``torch.library.custom_op`` would do the same and import the whole compiler (1.5 seconds) with the
first call; these few lines do not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._C import _functorch
from torch.autograd import forward_ad

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
    """The backward pass of a backward pass: refused. Since the gradients hang on all that they were
    computed from, it is called wherever a second derivative would need it."""
    raise RuntimeError(
        "attention: this implementation cannot be differentiated twice; use "
        "implementation=reference (model.attention=reference), which can"
    )


def has_tangents(*tensors: torch.Tensor) -> bool:
    """Whether one of them carries a derivative in forward mode, or ``torch.func`` is at work, with
    derivatives of derivatives and of each of a batch (``hessian``, ``vmap`` of ``grad``)."""
    if not torch.compiler.is_compiling() and _functorch.peek_interpreter_stack() is not None:
        return True
    if forward_ad._current_level < 0:  # outside of any: the usual case, at no cost
        return False
    return any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Autocast off on the kind of ``device``; nothing where there is none, as for "meta"."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def constant(answer: Callable[..., Any]) -> Callable[..., Any]:
    """``answer`` for ``torch.compile`` to call once and keep: what
    ``torch.compiler.assume_constant_result`` does, without importing the compiler."""
    answer._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return answer
