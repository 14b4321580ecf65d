"""Relative attention as one kernel for NVIDIA GPUs, in Triton: linear in memory.

The skew is one gather in registers (skew.py); the forward pass costs 3 products where plain
attention costs 2. Tiles, warps and stages are those of a
:class:`~musictx.speed.fused.config.Config`.

Inputs in bfloat16, float16 or float32; softmax, sums and the gradients of the tables in float32.
Triton is imported when the kernel first runs. With ``TRITON_INTERPRET=1`` set before that, it runs
on the CPU, very slowly: for tests.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import torch
from torch import Tensor

from musictx.attention.capabilities import Capabilities
from musictx.attention.operators import constant
from musictx.attention.setting import Setting
from musictx.attention.terms import Axis, Terms
from musictx.speed.fused import op
from musictx.speed.fused.config import HEAD_DIMS, Config
from musictx.speed.fused.masks import Mask, mask

__all__ = ["CAN", "Config", "attend"]


@constant
def _missing() -> str | None:
    return None if find_spec("triton") else "Triton is not installed (pip install triton)"


@constant
def _unwanted() -> str | None:
    """On a GPU what its trial found."""
    from musictx.speed import trial  # which imports this module

    return trial.why_not() if torch.cuda.is_available() else None


CAN = Capabilities(
    labels="channels",
    leaves_one_query=True,
    one_width=True,
    any_scale=False,
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
    *,
    position: Tensor | None = None,
    config: Config | None = None,
    deterministic: bool | None = None,
) -> Tensor:
    """Attention of q (B, H, Tq, D) over k and v (B, H, Tk, D): (B, H, Tq, D) in the dtype of q.

    ``position`` (B, H, Tq, D): the queries that meet tables, where labels.py has widened q and k.
    Arguments are taken as checked (:func:`musictx.attention.attend`).

    config         how to cut the work; the default depends on dtype and head size
    deterministic  equal bits in every run also for the gradients of the tables, whose parts are
                   otherwise added in the order in which they come; None asks
                   ``torch.are_deterministic_algorithms_enabled()``
    """
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    offset, causal, dropout = setting.offset, setting.causal, setting.dropout
    axis, values = _narrowed(terms, offset, queries, keys, causal)
    if position is None:
        content, position = _queries(q, terms)
    else:
        content, position = q, position if terms.axes and axis.table is not None else None
    hidden = mask(setting, terms.blocks, batch, q.device) or [None] * len(Mask._fields)
    row_random = column_random = None
    if dropout:
        row_random = _random((batch, heads, queries), q.device)
        column_random = _random((batch, heads, keys), q.device)
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    out: Tensor = op.attention(
        *(content, k, v, position, axis.table, axis.bias, values),
        *hidden,
        *(row_random, column_random),
        *(axis.low, axis.high, offset, causal, terms.blocks is not None, terms.scale),
        *(dropout, deterministic, "" if config is None else str(config)),
    )[0]
    return out


def _queries(q: Tensor, terms: Terms) -> tuple[Tensor, Tensor | None]:
    """What meets the keys, and what meets the table if that is something else; in the dtype of q,
    with sums, and so gradients of the biases, in float32."""
    u, v = terms.content_bias, terms.position_bias
    content = q if u is None else (q + u.float()[:, None]).to(q.dtype)
    if not terms.axes or terms.axes[0].table is None or (u is None and v is None):
        return content, None
    return content, q if v is None else (q + v.float()[:, None]).to(q.dtype)


def _narrowed(
    terms: Terms, offset: int, queries: int, keys: int, causal: bool
) -> tuple[Axis, Tensor | None]:
    """The axis and the table of values with rows for the distances that occur."""
    if not terms.axes:
        return Axis(), None
    axis, values, first = terms.axes[0], terms.value_table, offset - (keys - 1)
    found = axis.narrowed(max(0, first) if causal else first, offset + queries - 1)
    if values is not None:
        values = values[:, found.low - axis.low : found.high - axis.low + 1]
    if causal and found.high < 0:  # every distance that occurs has the only row left
        found = replace(found, low=0, high=0)
    return found, values


def _random(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """32 random bits for each row: dropout hashes one of a query with one of a key."""
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, device=device)
