"""Memory for the results of the kernels."""

from __future__ import annotations

import torch
from torch import Tensor


def empty(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Uninitialised float32 memory; tests fill it with NaN."""
    return torch.empty(shape, dtype=torch.float32, device=device)


def unit_stride(x: Tensor) -> Tensor:
    """x, copied unless the numbers of each head are adjacent in memory."""
    return x if x.stride(-1) == 1 and x.stride(-2) >= 0 else x.contiguous()


def empty_like(x: Tensor) -> Tensor:
    """Uninitialised memory with the strides of :func:`unit_stride` of x; tests fill it with NaN."""
    return torch.empty_like(unit_stride(x))
