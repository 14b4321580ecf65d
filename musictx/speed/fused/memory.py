"""Memory that the kernels write into: their results, and the gradients of tables in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from musictx.speed.fused.problem import Problem

#: Memory for parts of the gradients, as a share of the bytes of q: more parts, fewer programs that
#: add to the same place at once.
PARTS_SHARE = 0.5


def empty(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """float32 memory with anything in it; tests put NaN there."""
    return torch.empty(shape, dtype=torch.float32, device=device)


def unit_stride(x: Tensor) -> Tensor:
    """x with neighbouring numbers of a head side by side."""
    return x if x.stride(-1) == 1 and x.stride(-2) >= 0 else x.contiguous()


def empty_like(x: Tensor) -> Tensor:
    """Memory laid out like x, as far as the kernels can write to it; tests put NaN there."""
    return torch.empty_like(unit_stride(x))


class TableGradients:
    """Where programs add up their parts of the gradients of the tables, in float32.

    ``slots`` copies lessen waiting for one another: pair number bh of (batch row, head) adds to
    slot bh % slots, a multiple of the heads where tables are per head.
    """

    def __init__(self, p: Problem, bias_gradient: bool) -> None:
        self.p, self.bias_gradient = p, bias_gradient
        rows = p.high - p.low + 1
        group = p.heads if any(p.table_strides) else 1
        room = p.q.numel() * p.q.element_size() * PARTS_SHARE
        most = int(room // max(1, group * rows * p.size * 4))
        self.slots = group * max(1, min(p.batch * p.heads // group, most, 16))

        def parts(there: bool, *shape: int) -> Tensor:
            if not there:
                return p.q  # a stand-in that no kernel writes
            return torch.zeros(self.slots, *shape, dtype=torch.float32, device=p.q.device)

        self.vectors = parts(p.table is not None, rows, p.size)
        self.numbers = parts(bias_gradient, rows)

    def sums(self) -> tuple[Tensor | None, Tensor | None]:
        """Gradients of the table and of the bias."""
        vectors = self._sum(self.vectors, self.p.table, self.p.scale)
        return vectors, self._sum(self.numbers, self.p.bias, 1.0)

    def _sum(self, parts: Tensor, like: Tensor | None, scale: float) -> Tensor | None:
        if like is None or parts is self.p.q:
            return None
        # Slot number s belongs to head s % heads.
        parts = parts.view(-1, len(like), *parts.shape[1:])
        total = parts[0] if len(parts) == 1 else parts.sum(0)
        return (total * scale).to(like.dtype)
