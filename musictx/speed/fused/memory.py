"""Memory that the kernels write into."""

from __future__ import annotations

import torch
from torch import Tensor


def empty(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """float32 memory with anything in it; tests put NaN there."""
    return torch.empty(shape, dtype=torch.float32, device=device)


def unit_stride(x: Tensor) -> Tensor:
    """x with neighbouring numbers of a head side by side."""
    return x if x.stride(-1) == 1 and x.stride(-2) >= 0 else x.contiguous()


def empty_like(x: Tensor) -> Tensor:
    """Memory laid out like x, as far as the kernels can write to it; tests put NaN there."""
    return torch.empty_like(unit_stride(x))
