"""One new query over keys in a ring on CUDA: what the cache holds is read once.

op.py calls the Triton kernel in kernel.py, as far as it knows the terms; all else is computed by
``attention/decode.py`` in torch. Which of the two is decided here and nowhere else.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch
from torch import Tensor

from musictx.attention import decode
from musictx.attention.operators import constant, has_tangents
from musictx.attention.setting import Setting
from musictx.attention.terms import Ring, Terms
from musictx.speed.decode import op

__all__ = ["CAN", "attend", "kernel_why_not"]

CAN = decode.CAN


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, 1, D) over k, v (B, H, Tk, D): (B, H, 1, D) in the dtype of q.

    Keys in a Span stand no later than the query. Arguments are taken as checked
    (:func:`musictx.attention.attend`); ``setting.causal`` is true.
    """
    ring = setting.key_positions[0]
    plain = setting.query_pieces is None and not setting.dropout and not has_tangents(q, k, v)
    if plain and isinstance(ring, Ring) and q.is_cuda and kernel_why_not(q, terms) is None:
        with torch.autocast(q.device.type, enabled=False):
            return op.attend(q, k, v, terms, ring)
    return decode.attend(q, k, v, terms, setting)


def kernel_why_not(q: Tensor, terms: Terms) -> str | None:
    """Why the kernel cannot compute these terms, or None if it can."""
    size = q.shape[-1]
    if len(terms.axes) > 1 or any(axis.coordinate for axis in terms.axes):
        return "it knows one axis of distance, by order"
    if terms.value_table is not None or terms.blocks is not None:
        return "it knows no value_table and no blocks"
    if size < 16 or size > 256 or size & (size - 1):
        return f"it knows heads of 16, 32, 64, 128 or 256 numbers, not {size}"
    if q.dtype == torch.float64:
        return "it computes in float32"
    if not q.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return f"it needs tensors on a CUDA GPU, not on {q.device.type}"
    if not _triton():
        return "Triton is not installed (pip install triton)"
    return _unwanted() if q.is_cuda else None


@constant
def _unwanted() -> str | None:
    """On a GPU what its trial found."""
    from musictx.speed import trial  # which imports this module

    return trial.why_not("decode")


_FOUND: list[bool] = []


def _triton() -> bool:
    """Whether Triton is installed; looked up once a process."""
    if not _FOUND:
        _FOUND.append(find_spec("triton") is not None)
    return _FOUND[0]
