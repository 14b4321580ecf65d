"""What each implementation of attention can compute, as data, and the one function that compares.

Each implementation states its :class:`Capabilities` beside its code; a call is summed up as a
:class:`AttentionJob`; :func:`why_not` compares the two and says in a sentence what is missing.
Nothing in an AttentionJob changes from token to token, so answers can be remembered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from musictx.attention.setting import Setting
from musictx.attention.terms import Span, Terms

#: How queries and keys stand to each other, each a special case of the next: the same tokens; the
#: queries are the last of the keys; both consecutive; anything.
SQUARE, LAST, CONSECUTIVE, ANY = "square", "last", "consecutive", "any"
_LAYOUTS = (SQUARE, LAST, CONSECUTIVE, ANY)
_LAYOUT_WORDS = {
    SQUARE: "causal attention needs equal positions of queries and keys, or one last query",
    LAST: "the queries must be the last of the keys",
    CONSECUTIVE: "it needs consecutive positions (Span)",
}


@dataclass(frozen=True)
class Capabilities:
    """What an implementation can compute, and where.

    causal_only    no attention to later keys
    table_only     exactly one axis by order with a table of vectors, and nothing else
    axes           axes of distance at most, those with labels apart; None: any number; 0: plain
                   attention only
    further        axes without labels may measure other coordinates than the order
    bias           numbers for distances (``Axis.bias``)
    labels         axes with labels: "channels" as further channels of the heads (labels.py),
                   "numbers" by itself, None not at all
    one_width      queries, keys, values and tables have heads of one size
    query_biases   ``Terms.content_bias`` and ``position_bias``
    value_table, blocks   these terms
    positions      the layouts of positions it takes; ``causal_positions``: if causal
    any_scale      also ``Terms.scale`` of 0 and below
    forward_mode   derivatives in forward mode and by ``torch.func``
    fixed_order    sums run in a fixed order: equal bits in every run
    one_query      the layouts in which it takes, or leaves to attention/decode.py, a single causal
                   query over earlier keys; None: no more than ``positions`` says
    leaves_one_query   such a query is computed by attention/decode.py instead
    devices, dtypes, head_sizes   None: all
    missing        why this machine lacks what it needs, or None; asked once a process
    unwanted       why auto does not take it on this machine though it could, or None
    """

    causal_only: bool = False
    table_only: bool = False
    axes: int | None = 1
    further: bool = False
    bias: bool = True
    labels: str | None = None
    one_width: bool = False
    query_biases: bool = True
    value_table: bool = True
    blocks: bool = True
    any_scale: bool = True
    forward_mode: bool = False
    fixed_order: bool = True
    positions: str = CONSECUTIVE
    causal_positions: str | None = None
    one_query: str | None = ANY
    leaves_one_query: bool = False
    devices: tuple[str, ...] | None = None
    dtypes: tuple[torch.dtype, ...] | None = None
    head_sizes: tuple[int, ...] | None = None
    missing: Callable[[], str | None] | None = None
    unwanted: Callable[[], str | None] | None = None


class AttentionJob(NamedTuple):
    """The properties of a call of ``attend`` on which the choice of an implementation depends.

    axes, further, table, bias   of the axes without labels: how many, whether one measures another
        coordinate than order, what they have
    labels      channels that the axes with labels would need, 0 without
    layout      of positions; ``one``: a single causal query over earlier keys
    device, dtype, size   of the queries; None: not looked at
    packed, dropout       whether pieces are kept apart, whether weights are dropped
    tangents              whether an input carries a derivative in forward mode, or torch.func works
    deterministic         whether ``torch.use_deterministic_algorithms`` asks for equal bits
    """

    axes: int
    further: bool
    table: bool
    bias: bool
    labels: int
    content_bias: bool
    position_bias: bool
    value_table: bool
    blocks: bool
    scale: bool
    causal: bool
    layout: str
    one: bool
    device: str | None = None
    dtype: torch.dtype | None = None
    size: int | None = None
    packed: bool = False
    dropout: bool = False
    tangents: bool = False
    deterministic: bool = False


def job(terms: Terms, setting: Setting, q: Tensor | None = None) -> AttentionJob:
    """The properties of a call with ``terms``; without ``q``, device, dtype and size stay open."""
    left = [axis for axis in terms.axes if axis.labels is None]
    layout, one = _layout(setting)
    return AttentionJob(
        axes=len(left),
        further=any(axis.coordinate for axis in left),
        table=any(axis.table is not None for axis in left),
        bias=any(axis.bias is not None for axis in left),
        labels=sum(len(axis.labels) for axis in terms.axes if axis.labels is not None),
        content_bias=terms.content_bias is not None,
        position_bias=terms.position_bias is not None,
        value_table=terms.value_table is not None,
        blocks=terms.blocks is not None,
        scale=terms.scale > 0,
        causal=setting.causal,
        layout=layout,
        one=one,
        device=None if q is None else q.device.type,
        dtype=None if q is None else q.dtype,
        size=None if q is None else q.shape[-1],
        packed=setting.query_pieces is not None,
        dropout=setting.dropout > 0,
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )


def _layout(setting: Setting) -> tuple[str, bool]:
    """(how the positions lie, whether it is a single causal query)."""
    queries, keys, causal = setting.query_positions[0], setting.key_positions[0], setting.causal
    if not (isinstance(queries, Span) and isinstance(keys, Span)):
        return ANY, False
    one = causal and len(queries) == 1 and queries.start >= keys.stop - 1
    if queries == keys:
        return SQUARE, one
    if queries.stop == keys.stop and len(queries) <= len(keys):
        return LAST, one
    return CONSECUTIVE, one


def why_not(can: Capabilities, job: AttentionJob) -> str | None:
    """Why an implementation that can do so much cannot do the job, or None if it can."""
    if can.causal_only and not job.causal:
        return "it computes causal attention only"
    if job.tangents and not can.forward_mode:
        return "it computes no derivatives in forward mode or by torch.func (jvp, hessian, vmap)"
    if job.deterministic and not can.fixed_order:
        return "its sums have other last bits in every run (torch.use_deterministic_algorithms)"
    reason = _terms_why_not(can, job) or _positions_why_not(can, job)
    if reason or job.device is None:
        return reason
    if can.devices is not None and job.device not in can.devices and not _interpreted(can):
        return f"it computes on {' and '.join(can.devices)}, not on {job.device}"
    if can.dtypes is not None and job.dtype not in can.dtypes:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in can.dtypes)
        return f"it computes in {known}, not {job.dtype}"
    if can.head_sizes is not None and job.size is not None:
        fits = job.size in can.head_sizes
        if job.labels:
            fits = job.size + job.labels <= max(can.head_sizes)
        if not fits:
            sizes = ", ".join(map(str, can.head_sizes))
            return f"it knows heads of {sizes} numbers, not {job.size + job.labels}"
    return at_hand(can)


def _terms_why_not(can: Capabilities, job: AttentionJob) -> str | None:
    """What of the terms is too much."""
    if can.table_only and (job.axes, job.table, job.further, job.labels) != (1, True, False, 0):
        return "it computes one table of vectors by the order of tokens"
    if can.axes == 0 and (job.axes or job.labels):
        return "it knows no relative terms"
    if job.labels and not can.labels:
        return "it knows no axes with labels for keys"
    if can.axes is not None and job.axes > can.axes:
        return f"it knows one axis of distance, not {job.axes}, beside those with labels for keys"
    if job.further and not can.further:
        return "it measures the order of tokens only, not further coordinates without labels"
    if job.bias and not can.bias:
        return "it knows no bias"
    for name, able in (
        ("content_bias", can.query_biases),
        ("position_bias", can.query_biases),
        ("value_table", can.value_table),
        ("blocks", can.blocks),
    ):
        if getattr(job, name) and not able:
            return f"it knows no {name}"
    return None if job.scale or can.any_scale else "it needs a scale above 0"


def _positions_why_not(can: Capabilities, job: AttentionJob) -> str | None:
    """What of the positions is too irregular."""
    if job.one and can.one_query and _within(job.layout, can.one_query):
        return None
    most = can.positions
    if job.causal and can.causal_positions:
        most = can.causal_positions
    if _within(job.layout, most):
        return None
    return _LAYOUT_WORDS[CONSECUTIVE if job.layout == ANY else most]


def _within(layout: str, most: str) -> bool:
    return _LAYOUTS.index(layout) <= _LAYOUTS.index(most)


def _interpreted(can: Capabilities) -> bool:
    """Whether kernels for CUDA run on the CPU here, by Triton's interpreter: for tests."""
    return can.devices == ("cuda",) and os.environ.get("TRITON_INTERPRET") == "1"


_MISSING: dict[Capabilities, str | None] = {}


def at_hand(can: Capabilities) -> str | None:
    """Why this machine lacks what the implementation needs, or None; found out once a process."""
    if can.missing is None:
        return None
    if can not in _MISSING:
        _MISSING[can] = can.missing()
    return _MISSING[can]
