"""The arguments of an implementation of attention.

An implementation is a module with ``attend(q, k, v, terms, setting)`` and
``unsupported_reason(job)``, which returns why it cannot compute a job, or ``None``. A
:class:`Setting` has the positions and masks of a call, a :class:`Job` the properties on which the
choice of an implementation depends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from musictx.attention.terms import Positions, Span, Terms

#: Layouts of queries and keys, each a special case of the next: equal positions; the queries are
#: the last of the keys; both have consecutive positions; any positions.
SQUARE, LAST, CONSECUTIVE, ANY = range(4)
#: By layout: why an implementation that supports only this layout does not support a job.
_LAYOUT_REASONS = (
    "queries and keys must have equal positions",
    "the queries must be the last of the keys",
    "it needs consecutive positions (Span)",
)
_EXTRAS = ("content_bias", "position_bias", "value_table", "blocks")


@dataclass(frozen=True, eq=False)
class Setting:
    """Positions, masks and dropout: the checked arguments of :func:`musictx.attention.attend`.

    query_positions, key_positions  an entry for each coordinate that the terms measure
    query_pieces, key_pieces        int64 (B, Tq) and (B, Tk), or both None
    hidden                          bool (1 or B, 1 or H, Tq, Tk): True masks a key for a query
    """

    query_positions: tuple[Positions, ...]
    key_positions: tuple[Positions, ...]
    causal: bool = True
    query_pieces: Tensor | None = None
    key_pieces: Tensor | None = None
    dropout: float = 0.0
    hidden: Tensor | None = None

    def positions(self, coordinate: int) -> tuple[Positions, Positions]:
        """The positions of queries and of keys along one coordinate."""
        return self.query_positions[coordinate], self.key_positions[coordinate]

    def same_piece(self) -> Tensor | None:
        """Whether query and key are of the same piece: bool (B, 1, Tq, Tk); None without pieces."""
        if self.query_pieces is None or self.key_pieces is None:
            return None
        return self.query_pieces[:, None, :, None] == self.key_pieces[:, None, None, :]


def first_keys(
    query_pieces: Tensor | None, key_pieces: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """For each query and key (B, Tq) and (B, Tk), the index of the first key of its piece, or Tk if
    the piece has no key: int64. None without pieces."""
    if query_pieces is None or key_pieces is None:
        return None
    ids, order = key_pieces.sort(dim=1, stable=True)  # stable: the leftmost is the earliest

    def first_key(pieces: Tensor) -> Tensor:
        index = torch.searchsorted(ids, pieces.contiguous()).clamp(max=ids.shape[1] - 1)
        return torch.where(ids.gather(1, index) == pieces, order.gather(1, index), ids.shape[1])

    return first_key(query_pieces), first_key(key_pieces)


class Job(NamedTuple):
    """The properties of a call of ``attend``. They do not change from token to token in generation,
    so the choice of an implementation can be cached.

    axes           number of axes without labels
    further        whether one of them measures a coordinate other than order
    table, bias    whether any axis has a table; whether any has a bias
    labels         number of labels of all axes with labels
    extras         names of the other terms: content_bias, position_bias, value_table, blocks
    positive_scale  whether the scale is above 0
    layout         SQUARE, LAST, CONSECUTIVE or ANY
    single_query   whether there is one causal query, which attends to all keys
    device, dtype, size  of the queries (``size`` is head_dim); None: not known, so not checked
    packed         whether there are pieces
    dropout        whether there is dropout
    tangents       whether an input has a forward-mode derivative, or torch.func is active
    masked         whether there is a mask of single keys (``hidden``)
    deterministic  whether ``torch.use_deterministic_algorithms`` is on
    """

    axes: int = 1
    further: bool = False
    table: bool = True
    bias: bool = False
    labels: int = 0
    extras: tuple[str, ...] = ()
    positive_scale: bool = True
    causal: bool = True
    layout: int = SQUARE
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
        """The properties of a call; without ``q``, device, dtype and size are None."""
        axes = [axis for axis in terms.axes if axis.labels is None]
        queries, keys = setting.query_positions[0], setting.key_positions[0]
        layout, single = ANY, False
        if isinstance(queries, Span) and isinstance(keys, Span):
            layout = CONSECUTIVE
            if queries == keys:
                layout = SQUARE
            elif queries.stop == keys.stop and len(queries) <= len(keys):
                layout = LAST
            single = setting.causal and len(queries) == 1 and queries.start >= keys.stop - 1
        return cls(
            axes=len(axes),
            further=any(axis.coordinate for axis in axes),
            table=any(axis.table is not None for axis in axes),
            bias=any(axis.bias is not None for axis in axes),
            labels=sum(len(axis.labels) for axis in terms.axes if axis.labels is not None),
            extras=tuple(name for name in _EXTRAS if getattr(terms, name) is not None),
            positive_scale=terms.scale > 0,
            causal=setting.causal,
            layout=layout,
            single_query=single,
            device=None if q is None else q.device.type,
            dtype=None if q is None else q.dtype,
            size=None if q is None else q.shape[-1],
            packed=setting.query_pieces is not None,
            dropout=setting.dropout > 0,
            masked=setting.hidden is not None,
            deterministic=torch.are_deterministic_algorithms_enabled(),
        )

    def reason_against(
        self,
        *,
        causal: bool = False,
        extras: bool = True,
        layout: int = ANY,
        devices: tuple[str, ...] = (),
        dtypes: tuple[torch.dtype, ...] = (),
    ) -> str | None:
        """Return why an implementation cannot compute this job; ``None``: it can. It supports at
        most one axis without labels, of order, and no forward-mode derivatives.

        causal   whether it supports only causal attention
        extras   whether it supports :attr:`extras`
        layout   the most general layout that it supports
        devices, dtypes  those that it supports; empty: any
        """
        if self.tangents:
            return "it computes no derivatives by torch.func (jvp, hessian, vmap) or forward mode"
        if not self.positive_scale:
            return "it needs a scale above 0"
        if causal and not self.causal:
            return "it computes causal attention only"
        if self.axes > 1:
            return f"it computes at most one axis without labels, not {self.axes}"
        if self.further:
            return "without labels, it measures only the order of tokens, not further coordinates"
        if self.extras and not extras:
            return f"it computes no {self.extras[0]}"
        if self.layout > layout:
            return _LAYOUT_REASONS[layout]
        if devices and self.device not in (None, *devices):
            return f"it computes on {' and '.join(devices)}, not on {self.device}"
        if dtypes and self.dtype not in (None, *dtypes):
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
            return f"it computes in {names}, not {self.dtype}"
        return None
