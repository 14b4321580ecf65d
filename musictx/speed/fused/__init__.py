"""Relative attention as one kernel for NVIDIA GPUs, in Triton: linear in memory.

It knows what attention in C++ knows: causal attention with a table or a bias for each distance,
labels, packed pieces and dropout. Other terms are computed by attention/chunked. The skew is one
gather in registers (skew.py); the forward pass costs 3 products where plain attention costs 2.
Tiles, warps and stages are those of a :class:`~musictx.speed.fused.config.Config`.

Inputs in bfloat16, float16 or float32; softmax, sums and the gradients of the tables in float32.
Triton is imported when the kernel first runs. With ``TRITON_INTERPRET=1`` set before that, it runs
on the CPU, very slowly: for tests.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import torch
from torch import Tensor

from musictx.attention.capabilities import LAST, Capabilities
from musictx.attention.operators import constant
from musictx.attention.setting import Setting
from musictx.attention.terms import Axis, Terms
from musictx.speed.fused import op
from musictx.speed.fused.config import HEAD_DIMS
from musictx.speed.fused.masks import Mask, mask

__all__ = ["CAN", "attend"]


@constant
def _missing() -> str | None:
    return None if find_spec("triton") else "Triton is not installed (pip install triton)"


@constant
def _unwanted() -> str | None:
    """On a GPU what its trial found."""
    from musictx.speed import trial  # which imports this module

    return trial.why_not() if torch.cuda.is_available() else None


CAN = Capabilities(
    causal_only=True,
    labels="channels",
    leaves_one_query=True,
    one_width=True,
    query_biases=False,
    value_table=False,
    blocks=False,
    positions=LAST,
    any_scale=False,
    fixed_order=False,
    devices=("cuda",),
    dtypes=(torch.bfloat16, torch.float16, torch.float32),
    head_sizes=HEAD_DIMS,
    missing=_missing,
    unwanted=_unwanted,
)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    setting: Setting,
    position: Tensor | None = None,
) -> Tensor:
    """Attention of q (B, H, Tq, D), the last Tq of the Tk tokens, over k and v (B, H, Tk, D).

    Arguments are taken as checked (:func:`musictx.attention.attend`); ``position`` is q, as there
    are no biases of queries. Parts of the gradients of tables are added in the order in which they
    come, so their last bits differ from run to run.
    """
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    axis = _narrowed(terms, keys)
    hidden = mask(setting) or [None] * len(Mask._fields)
    row_random = column_random = None
    if setting.dropout:
        row_random = _random((batch, heads, queries), q.device)
        column_random = _random((batch, heads, keys), q.device)
    out: Tensor = op.attention(
        *(q, k, v, axis.table, axis.bias),
        *hidden,
        *(row_random, column_random),
        *(axis.low, axis.high, terms.scale, setting.dropout),
    )[0]
    return out


def _narrowed(terms: Terms, keys: int) -> Axis:
    """The axis with rows for the distances that occur, from 0 to ``keys`` - 1."""
    if not terms.axes:
        return Axis()
    found = terms.axes[0].narrowed(0, keys - 1)
    if found.high < 0:  # every distance that occurs has the only row left
        found = replace(found, low=0, high=0)
    return found


def _random(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """32 random bits for each row: dropout hashes one of a query with one of a key."""
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, device=device)
