"""Causal relative attention as one kernel for NVIDIA GPUs, in Triton: linear in memory.

Two plans for the skew, chosen by :class:`~musictx.attention.fused.config.Config` so that both can
be measured: ``gather`` (attention/fused/gather.py) and ``panel`` (attention/fused/panel.py). Both
compute the same thing; the forward pass costs 3 products where plain attention costs 2.

Inputs in bfloat16, float16 or float32; softmax, sums and the gradients of the tables in float32.
Triton is imported when the kernel first runs. With ``TRITON_INTERPRET=1`` set before that, it runs
on the CPU, very slowly: for tests.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch
from torch import Tensor

from musictx.attention.fused import op
from musictx.attention.fused.config import HEAD_DIMS, Config
from musictx.attention.terms import Positions, Span, Terms

__all__ = ["Config", "attend", "why_not"]

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def why_not(
    terms: Terms,
    query_positions: Positions | tuple[Positions, ...],
    key_positions: Positions | tuple[Positions, ...],
    causal: bool,
    q: Tensor | None = None,
) -> str | None:
    """Why this implementation cannot do the job, or None if it can. ``q`` tells device and dtype;
    without it they are not looked at."""
    if not causal:
        return "it computes causal attention only"
    if len(terms.axes) > 1:
        return f"it knows one axis of distance, not {len(terms.axes)}"
    if terms.axes and terms.axes[0].coordinate:
        return "it measures the order of tokens only, not further coordinates"
    at, over = terms.needed(query_positions)[0], terms.needed(key_positions)[0]
    if not (isinstance(at, Span) and isinstance(over, Span)):
        return "it needs consecutive positions (Span)"
    if at.stop != over.stop or len(at) > len(over):
        return (
            f"the queries must be the last of the keys, not positions {at.start}..{at.stop - 1} "
            f"over {over.start}..{over.stop - 1}"
        )
    if terms.scale <= 0:
        return f"it needs a scale above 0, not {terms.scale}"
    for name in ("content_bias", "position_bias", "value_table", "blocks"):
        if getattr(terms, name, None) is not None:
            return f"it knows no {name}"
    if q is None:
        return None
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if not (q.is_cuda or interpreted):
        return f"it needs tensors on a CUDA GPU, not on {q.device.type}"
    if find_spec("triton") is None:
        return "Triton is not installed (pip install triton)"
    if q.dtype not in DTYPES:
        return f"it computes in bfloat16, float16 or float32, not {q.dtype}"
    if q.shape[-1] not in HEAD_DIMS:
        return f"it knows heads of {', '.join(map(str, HEAD_DIMS))} numbers, not {q.shape[-1]}"
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
    config: Config | None = None,
    deterministic: bool | None = None,
) -> Tensor:
    """Attention of q (B, H, Tq, D), the last Tq of the Tk tokens, over k and v (B, H, Tk, D).

    Arguments are taken as checked (:func:`musictx.attention.api.attend`, :func:`why_not`).

    config         how to cut the work; the default depends on dtype and head size
    deterministic  equal bits in every run also for the gradients of the tables, whose parts are
                   otherwise added in the order in which they come; None asks
                   ``torch.are_deterministic_algorithms_enabled()``
    """
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    table = bias = None
    low = high = 0
    if terms.axes:
        axis = terms.axes[0].narrowed(keys)
        table, bias, low, high = axis.table, axis.bias, axis.low, axis.high
        if high < 0:  # every distance that occurs has the only row left
            low = high = 0
    first_query = first_key = last_query = None
    if query_pieces is not None and key_pieces is not None:
        first_query, first_key, last_query = piece_bounds(query_pieces, key_pieces)
    row_random = column_random = None
    if dropout:
        row_random = _random((batch, heads, queries), q.device)
        column_random = _random((batch, heads, keys), q.device)
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    out: Tensor = op.attention(
        q,
        k,
        v,
        table,
        bias,
        first_query,
        first_key,
        last_query,
        row_random,
        column_random,
        low,
        high,
        terms.scale,
        dropout,
        deterministic,
        "" if config is None else str(config),
    )[0]
    return out


def _random(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """32 random bits for each row: dropout hashes one of a query with one of a key."""
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, device=device)


def piece_bounds(query_pieces: Tensor, key_pieces: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where pieces begin and end, for any ids in any order: three int32 tensors.

    first_query (B, Tq)  the first key of the same piece as the query (Tk if there is none)
    first_key   (B, Tk)  the first key of the same piece as the key; equal to the query's first
                         exactly when they share the piece
    last_query  (B, Tk)  the last query of the same piece as the key (-1 if there is none)
    """
    keys, queries = key_pieces.shape[1], query_pieces.shape[1]
    ids, order = key_pieces.sort(dim=1, stable=True)  # stable: the leftmost is the earliest

    def first_of(wanted: Tensor) -> Tensor:
        place = torch.searchsorted(ids, wanted.contiguous()).clamp(max=keys - 1)
        found = ids.gather(1, place) == wanted
        return torch.where(found, order.gather(1, place), keys)

    query_ids, query_order = query_pieces.sort(dim=1, stable=True)
    place = torch.searchsorted(query_ids, key_pieces.contiguous(), right=True) - 1
    place = place.clamp(min=0)
    found = query_ids.gather(1, place) == key_pieces
    last_query = torch.where(found, query_order.gather(1, place), -1)
    assert queries > 0
    return (
        first_of(query_pieces).to(torch.int32),
        first_of(key_pieces).to(torch.int32),
        last_query.to(torch.int32),
    )
