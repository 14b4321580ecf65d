"""What several test files of this folder share."""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.attention.terms import Axis, Span, Terms
from tests.attention import cases


def causal(queries: int, keys: int) -> dict[str, Span]:
    """The queries are the last of the keys."""
    return {"query_positions": Span(keys - queries, queries), "key_positions": Span(0, keys)}


def tensors(
    rows: int, heads: int, queries: int, keys: int, size: int, dtype: torch.dtype = torch.float32
) -> cases.Named:
    named: cases.Named = {}
    cases.qkv(named, rows, heads, queries, keys, size, dtype=dtype)
    return named


def everything(function, named: cases.Named, upstream: Tensor, dtype: torch.dtype) -> cases.Named:
    """Output and all gradients of ``function(**named)``, computed in ``dtype``."""
    inputs = {name: x.detach().to(dtype).requires_grad_() for name, x in named.items()}
    out = function(**inputs)
    wanted = list(inputs.values())
    found = torch.autograd.grad(out, wanted, upstream.to(out.dtype), allow_unused=True)
    zeros = (torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found))
    return {"out": out.detach()} | dict(zip(named, zeros))


def both(**own: Tensor) -> Terms:
    tables = [x for x in (own.get("table"), own.get("bias")) if x is not None]
    axis = Axis(own.get("table"), own.get("bias"), high=tables[0].shape[1] - 1)
    return Terms(0.4, (axis,))
