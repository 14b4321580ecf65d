"""Tries a kernel of attention on this GPU and prints what came of it, as JSON (trial.py).

python -m musictx.speed.trying fused|cuda
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from musictx.attention import chunked
from musictx.attention.setting import Setting
from musictx.attention.terms import Axis, Span, Terms
from musictx.speed import fused
from musictx.speed.cuda import kernel
from musictx.speed.trial import Pass, judged


def passes(device: torch.device, tokens: int, name: str = "fused") -> tuple[Pass, Pass]:
    """The kernel and what it is held against over the same ``tokens``: output and gradients."""
    size = 64
    heads, rows = (8, 8) if name == "cuda" else (4, 2)  # against Triton: not the time to start
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        made = torch.randn(*shape, generator=generator).to(device, torch.bfloat16)
        return made.requires_grad_()

    q, k, v = (normal(rows, heads, tokens, size) for _ in range(3))
    table = normal(heads, tokens, size)
    terms = Terms(size**-0.5, (Axis(table, high=tokens - 1),))
    setting = Setting((Span(0, tokens),), (Span(0, tokens),), True)
    upstream = torch.randn(q.shape, generator=generator).to(q)

    def both(attend: Callable[..., Tensor], taken: bool = False) -> Pass:
        def run() -> Sequence[Tensor]:
            kernel.chosen = taken
            out = attend(q, k, v, terms, setting)
            return [out.detach(), *torch.autograd.grad(out, (q, k, v, table), upstream)]

        return run

    if name == "cuda":
        return both(fused.attend, taken=True), both(fused.attend)
    return both(fused.attend), both(chunked.attend)


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    wait = torch.cuda.synchronize if device.type == "cuda" else bool
    name = sys.argv[1]
    found = judged(*passes(device, 2000 if name == "cuda" else 500, name), wait)
    if kernel.FAILED:
        found = {"taken": False, "said": f"not taken: it failed ({kernel.FAILED})"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
