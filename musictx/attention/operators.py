"""Our kernels as operators of torch, so that autograd, compilation and autocast know them.

``torch.library.custom_op`` would do the same and import the whole compiler (1.5 seconds) with the
first call; these few lines do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
    setup, backward   as of ``torch.library.register_autograd``; gradients of gradients are refused
    """
    _LIBRARY.define(name + schema)
    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"musictx::{name}", shapes, lib=_LIBRARY)
    if backward is not None:
        once = torch.autograd.function.once_differentiable(backward)
        torch.library.register_autograd(f"musictx::{name}", once, setup_context=setup, lib=_LIBRARY)
    return getattr(torch.ops.musictx, name).default


def constant(answer: Callable[[], Any]) -> Callable[[], Any]:
    """``answer`` for ``torch.compile`` to call once and keep: what
    ``torch.compiler.assume_constant_result`` does, without importing the compiler."""
    answer._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return answer
