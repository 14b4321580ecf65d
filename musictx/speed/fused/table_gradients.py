"""Memory in which the programs of the backward pass add up the gradients of the tables."""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.speed.fused.problem import Problem

#: Memory for parts of the gradients, as a share of the bytes of q: more parts, fewer programs that
#: add to the same place at once.
PARTS_SHARE = 0.5


class TableGradients:
    """Where programs add up their parts of the gradients of the tables.

    ``slots`` copies lessen waiting for one another: pair number bh of (batch row, head) adds to
    slot bh % slots, a multiple of the heads where tables are per head. float32, or for
    deterministic runs one slot per head of int64 in units of 1 / factor. The factor is a power of
    two such that no sum can overflow: by |dS| <= w (|dP| + |delta|) a sum over all weights is at
    most 2 / kept share * max|v_j + its table's row| * sum |do_i| * max|q|, for the bias likewise,
    and for the table of values 1 / kept share * sum |do_i|.
    """

    def __init__(self, p: Problem, upstream: Tensor, bias_gradient: bool) -> None:
        self.p, self.bias_gradient = p, bias_gradient and p.bias is not None
        rows = p.high - p.low + 1
        per_head = any(p.table_strides)
        pairs = p.batch * p.heads
        group = p.heads if per_head else 1
        room = p.q.numel() * p.q.element_size() * PARTS_SHARE
        most = int(room // max(1, group * rows * p.size * 4))
        copies = 1 if p.deterministic else max(1, min(pairs // group, most, 16))
        self.slots = group * copies
        dtype = torch.int64 if p.deterministic else torch.float32

        def parts(there: bool, *shape: int) -> Tensor:
            if not there:
                return p.q  # a stand-in that no kernel writes
            return torch.zeros(self.slots, *shape, dtype=dtype, device=p.q.device)

        self.vectors = parts(p.table is not None, rows, p.size)
        self.numbers = parts(self.bias_gradient, rows)
        self.factor = self._factor(upstream) if p.deterministic and p.q.numel() else p.q

    def _factor(self, upstream: Tensor) -> Tensor:
        p = self.p
        longest_value = p.v.float().norm(dim=-1).amax()
        pull = upstream.float().norm(dim=-1).sum()
        largest = torch.clamp(p.q.abs().amax().float(), min=1.0)
        bound = 2 / p.kept_share * longest_value.clamp(min=1.0) * pull * largest
        # Of no finite bound comes NaN, and so the gradient is what it should be: NaN.
        power = torch.floor(60 - torch.log2(bound.clamp(min=2.0**-60)))
        return torch.exp2(power.clamp(max=120.0)).reshape(1)

    def _sum(self, parts: Tensor, like: Tensor | None, scale: float) -> Tensor:
        if like is None or parts is self.p.q:
            return self.p.q.new_empty((0,))
        if self.p.deterministic:
            parts = (parts.double() / self.factor.double()).float()
        # Slot number s belongs to head s % heads.
        parts = parts.view(-1, like.shape[0], *parts.shape[1:])
        total = parts[0] if len(parts) == 1 else parts.sum(0)
        return (total * scale).to(like.dtype)

    def all(self) -> tuple[Tensor, Tensor]:
        """Gradients of the table and of the bias."""
        p = self.p
        return self._sum(self.vectors, p.table, p.scale), self._sum(self.numbers, p.bias, 1.0)
