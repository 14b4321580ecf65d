"""Whether torch wants derivatives in forward mode, and attention without autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._C import _functorch
from torch.autograd import forward_ad


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
