"""What a call of ``attend`` asks for, as far as the choice of an implementation depends on it.

An implementation is a module with ``supports(job)``, the sentence why it cannot compute a
:class:`Job` or ``None``, and ``attend(q, k, v, terms, setting)``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from musictx.attention.setting import Setting
from musictx.attention.terms import Span, Terms

#: How queries and keys stand to each other, each a special case of the next: the same tokens; the
#: queries are the last of the keys; both consecutive; anything.
SQUARE, LAST, CONSECUTIVE, ANY = range(4)
_LAYOUTS = (
    "queries and keys must have equal positions",
    "the queries must be the last of the keys",
    "it needs consecutive positions (Span)",
)
_EXTRAS = ("content_bias", "position_bias", "value_table", "blocks")


class Job(NamedTuple):
    """The properties of a call of ``attend`` that decide who can compute it. None changes from
    token to token, so that the choice can be cached.

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
        """The properties of a call; without ``q``, device, dtype and size stay open."""
        left = [axis for axis in terms.axes if axis.labels is None]
        at, over = setting.query_positions[0], setting.key_positions[0]
        layout, single = ANY, False
        if isinstance(at, Span) and isinstance(over, Span):
            last = at.stop == over.stop and len(at) <= len(over)
            layout = SQUARE if at == over else LAST if last else CONSECUTIVE
            single = setting.causal and len(at) == 1 and at.start >= over.stop - 1
        return cls(
            axes=len(left),
            further=any(axis.coordinate for axis in left),
            table=any(axis.table is not None for axis in left),
            bias=any(axis.bias is not None for axis in left),
            labels=sum(len(axis.labels) for axis in terms.axes if axis.labels is not None),
            extras=tuple(name for name in _EXTRAS if getattr(terms, name) is not None),
            scale=terms.scale > 0,
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

    def beyond(
        self,
        *,
        causal: bool = False,
        extras: bool = True,
        layout: int = ANY,
        devices: tuple[str, ...] = (),
        dtypes: tuple[torch.dtype, ...] = (),
    ) -> str | None:
        """Why it is too much for an implementation of one axis of distance by the order of tokens,
        without derivatives in forward mode; ``None`` if it is not.

        causal   whether the implementation computes causal attention only
        extras   whether it computes :attr:`extras`
        layout   the most general that it computes
        devices, dtypes   all that it computes on, and in; none: any
        """
        if self.tangents:
            return (
                "it computes no derivatives in forward mode or by torch.func (jvp, hessian, vmap)"
            )
        if not self.scale:
            return "it needs a scale above 0"
        if causal and not self.causal:
            return "it computes causal attention only"
        if self.axes > 1:
            return f"it computes one axis of distance without labels for keys, not {self.axes}"
        if self.further:
            return "it measures the order of tokens only, not further coordinates without labels"
        if self.extras and not extras:
            return f"it computes no {self.extras[0]}"
        if self.layout > layout:
            return _LAYOUTS[layout]
        if devices and self.device not in (None, *devices):
            return f"it computes on {' and '.join(devices)}, not on {self.device}"
        if dtypes and self.dtype not in (None, *dtypes):
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
            return f"it computes in {names}, not {self.dtype}"
        return None
