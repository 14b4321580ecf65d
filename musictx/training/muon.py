"""Muon: momentum whose matrices are made orthogonal before they are taken as a step.

K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024), with the scale
of Liu et al., "Muon is scalable for LLM training" (arXiv 2502.16982, section 2.2): an orthogonal
matrix times 0.2 sqrt(max(rows, columns)) has the root mean square of a usual AdamW step, so
learning rate and weight decay are AdamW's. Embeddings, norms, biases, tables of positions and the
output matrix are no maps between hidden layers: AdamW trains them.

Why not ``torch.optim.Muon``: it makes each parameter orthogonal as one matrix, and here queries,
keys and values are three maps in one parameter, each to be made orthogonal by itself. It also takes
one matrix after the other, where this one stacks equal shapes, and it is a second optimizer next to
AdamW, where Lightning's automatic optimization wants one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

#: Coefficients of x -> a x + b x^3 + c x^5: steepest at 0 while it keeps singular values near 1.
A, B, C = 3.4445, -4.7750, 2.0315
STEPS = 5
#: Root mean square of an AdamW step, in learning rates.
RMS = 0.2


class Muon(torch.optim.AdamW):
    """AdamW, but groups with ``muon=True`` (2-D parameters only) are stepped by Muon.

    momentum  decay of the running sum of gradients (Nesterov's)

    A group's ``split`` says of how many maps its matrices are made, one on top of the other: each
    is made orthogonal by itself (queries, keys and values in one matrix: 3).
    """

    def __init__(
        self, groups: list[dict[str, Any]], *, momentum: float = 0.95, **adamw: Any
    ) -> None:
        super().__init__(groups, **adamw)
        self.momentum = momentum

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        everything = self.param_groups
        for group in everything:
            if group.get("muon"):
                self._step_matrices(group)
        self.param_groups = [group for group in everything if not group.get("muon")]
        try:
            super().step()
        finally:
            self.param_groups = everything
        return loss

    def _step_matrices(self, group: dict[str, Any]) -> None:
        """Equal shapes together: few large products instead of many small ones."""
        by_shape: dict[tuple[int, ...], list[Tensor]] = {}
        for p in group["params"]:
            if p.grad is not None:
                by_shape.setdefault(tuple(p.shape), []).append(p)
        for (rows, columns), matrices in by_shape.items():
            parts = group.get("split", 1)
            steps = torch.stack(self._momentum(matrices))
            steps = orthogonal(steps.view(-1, rows // parts, columns)).to(matrices[0].dtype)
            scale = RMS * max(rows // parts, columns) ** 0.5
            torch._foreach_mul_(matrices, 1.0 - group["lr"] * group["weight_decay"])
            parted = list(steps.view(-1, rows, columns))
            torch._foreach_add_(matrices, parted, alpha=-group["lr"] * scale)

    def _momentum(self, matrices: list[Tensor]) -> tuple[Tensor, ...]:
        """What is made orthogonal, of matrices with gradients."""
        gradients, totals = [p.grad for p in matrices], []
        for p in matrices:
            state = self.state[p]
            if not state:
                state["step"] = torch.zeros(())  # AdamW's loading of states wants one everywhere
                state["momentum"] = torch.zeros_like(p)
            totals.append(state["momentum"])
        torch._foreach_mul_(totals, self.momentum)
        torch._foreach_add_(totals, gradients)  # type: ignore[arg-type]
        return torch._foreach_add(gradients, totals, alpha=self.momentum)  # type: ignore[arg-type]


def orthogonal(matrices: Tensor) -> Tensor:
    """(N, rows, columns) -> the same with singular values near 1 (0.7 to 1.2), vectors kept.

    Newton-Schulz iterations of fifth degree on the smaller side; float32 in bfloat16 (its error
    does not matter here) where the device multiplies that faster, other dtypes as they are. A zero
    matrix stays zero.
    """
    shorter = matrices.dtype == torch.float32 and multiplies_bfloat16(matrices.device)
    x = matrices.bfloat16() if shorter else matrices
    wide = x.shape[-2] > x.shape[-1]
    x = x.mT if wide else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=B, alpha=C), x, beta=A)
    return x.mT if wide else x


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether ``device`` has instructions for products in bfloat16, which torch may use there."""
    if device.type == "cpu":  # where ATEN_CPU_CAPABILITY does not hold torch to less
        has = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()  # no public name as of 2.13
        return bool(has) and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return device.type == "cuda"
