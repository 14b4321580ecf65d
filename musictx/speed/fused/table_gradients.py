"""Memory in which the programs of the backward pass add up the gradients of the tables."""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.speed.fused.problem import Problem

#: Memory for parts of the gradients, as a share of the bytes of q: more parts, fewer programs that
#: add to the same place at once.
PARTS_SHARE = 0.5


class TableGradients:
    """Where programs add up their parts of the gradients of the tables, in float32.

    ``slots`` copies lessen waiting for one another: pair number bh of (batch row, head) adds to
    slot bh % slots, a multiple of the heads where tables are per head.
    """

    def __init__(self, p: Problem, bias_gradient: bool) -> None:
        self.p, self.bias_gradient = p, bias_gradient and p.bias is not None
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
        self.numbers = parts(self.bias_gradient, rows)

    def _sum(self, parts: Tensor, like: Tensor | None, scale: float) -> Tensor:
        if like is None or parts is self.p.q:
            return self.p.q.new_empty((0,))
        # Slot number s belongs to head s % heads.
        parts = parts.view(-1, like.shape[0], *parts.shape[1:])
        total = parts[0] if len(parts) == 1 else parts.sum(0)
        return (total * scale).to(like.dtype)

    def all(self) -> tuple[Tensor, Tensor]:
        """Gradients of the table and of the bias."""
        p = self.p
        return self._sum(self.vectors, p.table, p.scale), self._sum(self.numbers, p.bias, 1.0)
