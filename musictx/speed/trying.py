"""Tries a kernel on this GPU and prints what came of it, as JSON (trial.py).

python -m musictx.speed.trying fused
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from musictx.attention import chunked, decode
from musictx.attention.setting import Setting
from musictx.attention.terms import Axis, Ring, Span, Terms
from musictx.speed import fused
from musictx.speed.decode import op
from musictx.speed.trial import Pass, judged


def passes(name: str, device: torch.device, tokens: int) -> tuple[Pass, Pass]:
    """The kernel ``name`` and plain torch over the same ``tokens``: output and gradients."""
    heads, size, rows = 4, 64, 2
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        made = torch.randn(*shape, generator=generator).to(device, torch.bfloat16)
        return made.requires_grad_(name == "fused")

    one = name == "decode"
    q = normal(rows, heads, 1 if one else tokens, size)
    k, v = (normal(rows, heads, tokens, size) for _ in range(2))
    table = normal(heads, tokens, size)
    terms = Terms(size**-0.5, (Axis(table, high=tokens - 1),))
    if one:
        newest = torch.tensor([tokens - 1], device=device)
        ring = Ring.of(newest, torch.zeros_like(newest), tokens)
        setting = Setting((Span(tokens - 1, 1),), (ring,), True)
        return (
            lambda: [op.attend(q, k, v, terms, ring)],
            lambda: [decode.attend(q, k, v, terms, setting)],
        )
    setting = Setting((Span(0, tokens),), (Span(0, tokens),), True)
    upstream = torch.randn(q.shape, generator=generator).to(q)

    def both(attend: Callable[..., Tensor]) -> Pass:
        def run() -> Sequence[Tensor]:
            out = attend(q, k, v, terms, setting)
            return [out.detach(), *torch.autograd.grad(out, (q, k, v, table), upstream)]

        return run

    return both(fused.attend), both(chunked.attend)


def main(name: str) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    wait = torch.cuda.synchronize if device.type == "cuda" else bool
    with torch.set_grad_enabled(name == "fused"):
        print(json.dumps(judged(*passes(name, device, 500), wait)))


if __name__ == "__main__":
    main(sys.argv[1])
