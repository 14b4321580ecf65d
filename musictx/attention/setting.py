"""The arguments of ``attend`` other than tensors and terms, and the properties of a call that
decide which implementation can compute it.

An implementation is a module with ``supports(job)``, the sentence why it cannot compute a
:class:`Job` or ``None``, and ``attend(q, k, v, terms, setting)``. Below are sentences that several
of them use, as pairs (whether it holds, the sentence) for :func:`refusal`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from musictx.attention.terms import Positions, Span, Terms


@dataclass(frozen=True, eq=False)
class Setting:
    """Where queries and keys stand, what hides keys, and dropout: arguments of
    :func:`musictx.attention.attend`, checked, as every implementation takes them.

    query_positions, key_positions  an entry for each coordinate that the terms measure
    query_pieces, key_pieces        int64 (B, Tq) and (B, Tk), or both None
    hidden                          bool (1 or B, 1 or H, Tq, Tk): keys that queries must not see
    """

    query_positions: tuple[Positions, ...]
    key_positions: tuple[Positions, ...]
    causal: bool = True
    query_pieces: Tensor | None = None
    key_pieces: Tensor | None = None
    dropout: float = 0.0
    hidden: Tensor | None = None

    def same_piece(self) -> Tensor | None:
        """Which query and key are of one piece: bool (B, 1, Tq, Tk); None without pieces."""
        if self.query_pieces is None or self.key_pieces is None:
            return None
        return self.query_pieces[:, None, :, None] == self.key_pieces[:, None, None, :]


#: How queries and keys stand to each other, each a special case of the next: the same tokens; the
#: queries are the last of the keys; both consecutive; anything.
SQUARE, LAST, CONSECUTIVE, ANY = "square", "last", "consecutive", "any"


class Job(NamedTuple):
    """The properties of a call of ``attend`` on which the choice of an implementation depends.
    None changes from token to token, so that answers can be cached.

    axes        number of axes without labels
    further     whether one of them measures another coordinate than order
    table, bias  whether one of them has a table, and a bias
    labels      channels that the axes with labels would need, 0 without such axes
    extras      which of the terms content_bias, position_bias, value_table and blocks there are
    scale       whether it is above 0
    layout      of the positions: SQUARE, LAST, CONSECUTIVE or ANY
    single_query          whether there is one causal query, which sees all keys
    device, dtype, size   of the queries; None: any, and the machine is not examined either
    packed      whether queries see only keys of their piece
    dropout     whether weights are dropped
    tangents              whether an input carries a derivative in forward mode, or torch.func works
    masked                whether a mask hides keys one by one
    deterministic         whether ``torch.use_deterministic_algorithms`` asks for equal bits
    """

    axes: int = 1
    further: bool = False
    table: bool = True
    bias: bool = False
    labels: int = 0
    extras: tuple[str, ...] = ()
    scale: bool = True
    causal: bool = True
    layout: str = SQUARE
    single_query: bool = False
    device: str | None = None
    dtype: torch.dtype | None = None
    size: int | None = None
    packed: bool = False
    dropout: bool = False
    tangents: bool = False
    masked: bool = False
    deterministic: bool = False

    @classmethod
    def of(cls, terms: Terms, setting: Setting, q: Tensor | None = None) -> Job:
        """The properties of a call with ``terms``; without ``q``, device, dtype and size stay
        open."""
        left = [axis for axis in terms.axes if axis.labels is None]
        extras = ("content_bias", "position_bias", "value_table", "blocks")
        layout, one = _layout(setting)
        return cls(
            axes=len(left),
            further=any(axis.coordinate for axis in left),
            table=any(axis.table is not None for axis in left),
            bias=any(axis.bias is not None for axis in left),
            labels=sum(len(axis.labels) for axis in terms.axes if axis.labels is not None),
            extras=tuple(name for name in extras if getattr(terms, name) is not None),
            scale=terms.scale > 0,
            causal=setting.causal,
            layout=layout,
            single_query=one,
            device=None if q is None else q.device.type,
            dtype=None if q is None else q.dtype,
            size=None if q is None else q.shape[-1],
            packed=setting.query_pieces is not None,
            dropout=setting.dropout > 0,
            masked=setting.hidden is not None,
            deterministic=torch.are_deterministic_algorithms_enabled(),
        )


def _layout(setting: Setting) -> tuple[str, bool]:
    """(how the positions lie, whether it is a single causal query)."""
    queries, keys = setting.query_positions[0], setting.key_positions[0]
    if not (isinstance(queries, Span) and isinstance(keys, Span)):
        return ANY, False
    one = setting.causal and len(queries) == 1 and queries.start >= keys.stop - 1
    if queries == keys:
        return SQUARE, one
    if queries.stop == keys.stop and len(queries) <= len(keys):
        return LAST, one
    return CONSECUTIVE, one


Case = tuple[bool, str]
CAUSAL_ONLY = "it computes causal attention only"
NO_TANGENTS = "it computes no derivatives in forward mode or by torch.func (jvp, hessian, vmap)"
SPANS_ONLY = "it needs consecutive positions (Span)"


def refusal(*cases: Case) -> str | None:
    """The sentence of the first case that holds, or None."""
    return next((sentence for holds, sentence in cases if holds), None)


def no_extras(job: Job) -> Iterator[Case]:
    """For implementations without ``Job.extras``."""
    for name in job.extras:
        yield True, f"it computes no {name}"


def last_of_keys(job: Job) -> Iterator[Case]:
    """For implementations whose queries are the last of the keys."""
    yield job.layout == ANY, SPANS_ONLY
    yield job.layout == CONSECUTIVE, "the queries must be the last of the keys"
