"""Muon: an optimizer whose steps are orthogonalised momentum matrices.

K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024), with the scale
of Liu et al., "Muon is scalable for LLM training" (arXiv 2502.16982, section 2.2): an orthogonal
matrix times 0.2 sqrt(max(rows, columns)) has the root mean square of a usual AdamW step, so
learning rate and weight decay are those of AdamW. Embeddings, norms, biases, tables of positions
and the output matrix are not maps between hidden layers: AdamW trains them.

Why not ``torch.optim.Muon``: it orthogonalises each parameter as one matrix, but here queries, keys
and values are three maps in one parameter. It steps one matrix at a time instead of stacking equal
shapes. And it would be a second optimizer, next to AdamW; Lightning's automatic optimization allows
only one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

#: Coefficients of x -> a x + b x^3 + c x^5: as steep as possible at 0, while iterations bring
#: singular values near 1.
A, B, C = 3.4445, -4.7750, 2.0315
ITERATIONS = 5
#: Root mean square of a usual AdamW step, as a multiple of the learning rate.
RMS = 0.2


class Muon(torch.optim.AdamW):
    """AdamW, but with Muon for groups with ``split`` of at least 1 (2-D parameters only).

    momentum  decay of the running sum of gradients (Nesterov momentum)

    Each matrix of such a group consists of ``split`` maps, stacked by rows, which are
    orthogonalised separately (queries, keys and values in one matrix: 3).
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
        all_groups = self.param_groups
        for group in all_groups:
            if group.get("split"):
                self._step_matrices(group)
        self.param_groups = [group for group in all_groups if not group.get("split")]
        try:
            super().step()
        finally:
            self.param_groups = all_groups
        return loss

    def _step_matrices(self, group: dict[str, Any]) -> None:
        """Step matrices of equal shapes together: few large products instead of many small ones."""
        by_shape: dict[tuple[int, ...], list[Tensor]] = {}
        for p in group["params"]:
            if p.grad is not None:
                by_shape.setdefault(tuple(p.shape), []).append(p)
        for (rows, columns), matrices in by_shape.items():
            map_rows = rows // group["split"]
            steps = torch.stack(self._momentum(matrices))
            steps = orthogonalise(steps.view(-1, map_rows, columns)).to(matrices[0].dtype)
            scale = RMS * max(map_rows, columns) ** 0.5
            torch._foreach_mul_(matrices, 1.0 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(
                matrices, list(steps.view(-1, rows, columns)), alpha=-group["lr"] * scale
            )

    def _momentum(self, matrices: list[Tensor]) -> tuple[Tensor, ...]:
        """Update and return the Nesterov momentum of each matrix."""
        gradients, totals = [p.grad for p in matrices], []
        for p in matrices:
            state = self.state[p]
            if not state:
                state["step"] = torch.zeros(())  # AdamW requires it when it loads a state
                state["momentum"] = torch.zeros_like(p)
            totals.append(state["momentum"])
        torch._foreach_mul_(totals, self.momentum)
        torch._foreach_add_(totals, gradients)  # type: ignore[arg-type]
        return torch._foreach_add(gradients, totals, alpha=self.momentum)  # type: ignore[arg-type]


def orthogonalise(matrices: Tensor) -> Tensor:
    """Move the singular values of matrices (N, rows, columns) near 1 (0.7 to 1.2), with the same
    singular vectors.

    Newton-Schulz iterations of fifth degree on the smaller side. float32 is computed in bfloat16 on
    devices where this is faster; the error does not matter here. A zero matrix stays zero.
    """
    as_bfloat16 = matrices.dtype == torch.float32 and multiplies_bfloat16(matrices.device)
    x = matrices.bfloat16() if as_bfloat16 else matrices
    is_tall = x.shape[-2] > x.shape[-1]
    x = x.mT if is_tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=B, alpha=C), x, beta=A)
    return x.mT if is_tall else x


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether ``device`` has instructions for products in bfloat16, and torch uses them."""
    if device.type != "cpu":
        return device.type == "cuda"
    # The function is not public as of torch 2.13. ATEN_CPU_CAPABILITY may restrict torch.
    is_supported = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
    return bool(is_supported) and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
