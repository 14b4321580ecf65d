"""Causal relative attention on the CPU in C++, compiled on first use: an option, needed by nothing.

The algorithm of attention/chunked (whose page explains the skew) without its passes over memory
between the products; a table, a bias, packed pieces and dropout, float32 and bfloat16. Who asks
for it by name gets it or a sentence that says why not; ``auto`` does not choose it, because the
answer would then depend, in the last bits, on what is installed.

kernel.cpp   the operator: no Python, no torch, nothing to link against
build.py     source -> shared library in the user's cache
library.py   the library loaded, with the matrix products that torch contains
op.py        operators of torch with their gradients
"""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.attention import labels as widen
from musictx.attention.native import library, op
from musictx.attention.terms import Positions, Span, Terms

__all__ = ["attend", "why_not"]

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def why_not(
    terms: Terms,
    query_positions: Positions | tuple[Positions, ...],
    key_positions: Positions | tuple[Positions, ...],
    causal: bool,
    q: Tensor | None = None,
) -> str | None:
    """Why this implementation cannot do the job, or None if it can; builds nothing.

    ``q`` tells device and dtype; without it they are not looked at.
    """
    queries, keys = terms.needed(query_positions)[0], terms.needed(key_positions)[0]
    _, terms = widen.split(terms)  # axes of labels are further channels
    if not causal:
        return "it computes causal attention only"
    if len(terms.axes) > 1:
        return f"it knows one axis of distance, not {len(terms.axes)}"
    if terms.axes and terms.axes[0].coordinate:
        return "it measures the order of tokens only, not further coordinates"
    if not (isinstance(queries, Span) and isinstance(keys, Span)):
        return "it needs consecutive positions (Span)"
    if queries.stop != keys.stop or len(queries) > len(keys):
        return (
            "the queries must be the last of the keys, not positions "
            f"{queries.start}..{queries.stop - 1} over {keys.start}..{keys.stop - 1}"
        )
    for name in ("content_bias", "position_bias", "value_table", "blocks"):
        if getattr(terms, name) is not None:
            return f"it knows no {name}"
    return None if q is None else _why_not_tensor(q)


def _why_not_tensor(q: Tensor) -> str | None:
    if q.device.type != "cpu":
        return f"it computes on the CPU, not on {q.device.type}"
    if q.dtype not in DTYPES:
        return f"it computes in float32, bfloat16 or float16, not {q.dtype}"
    return None


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    *,
    query_pieces: Tensor | None = None,
    key_pieces: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention of q (B, H, Tq, D), the last Tq of the Tk tokens, over k and v (B, H, Tk, D).

    Arguments are taken as checked (:func:`musictx.attention.api.attend`, :func:`why_not`), but for
    device and dtype: ``ValueError`` where they do not suit. Softmax and sums are float32. Products
    are float32, or bfloat16 in and float32 out for inputs in bfloat16 where the CPU has
    instructions for it. The first call compiles (a few seconds); UserError where that cannot be.
    """
    if reason := _why_not_tensor(q):
        raise ValueError(f"attention=native: {reason}; use attention=chunked")
    dtype, keys = q.dtype, k.shape[2]
    if dtype != torch.bfloat16 or not _brain():
        q, k, v = q.float(), k.float(), v.float()
    table = bias = None
    if terms.axes:
        axis = terms.axes[0].narrowed(keys)
        if axis.table is not None:
            table = axis.descending(axis.table, keys)
        if axis.bias is not None:
            bias = axis.descending(axis.bias, keys)
    seed = int(torch.randint(2**62, ())) if dropout else 0
    # The operator sees to precision itself.
    with torch.autocast("cpu", enabled=False):
        out, _ = op.attention(
            q, k, v, table, bias, query_pieces, key_pieces, terms.scale, dropout, seed
        )
        return out.to(dtype)


@torch.compiler.assume_constant_result
def _brain() -> bool:
    """Whether the kernel computes in bfloat16 here."""
    return library.load().brain
