"""The given notes of the bar that is being written, at each of its ids (songs/bar_layout.py).

The groups with the given notes of a bar stand bars before it. The feature looks up for each id
which id would follow if only given notes were written: the next given group of this bar from the
last one on, or the bar line; and whether anything else is to be composed in this bar, or whether
the bar is a variation of what is given. Learned weights by field score that id. The given notes of
a bar stand before its bar line, so the lookup is causal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from musictx.attention.positions.coordinates import ranges
from musictx.model.features.base import NativeForm
from musictx.songs.bar_layout import VARIED, WHOLE
from musictx.songs.features import group_keys as keys
from musictx.songs.features.group_keys import BAR, SIZE, at
from musictx.tokens.controls import KNOWN
from musictx.tokens.tokenizer import Tokenizer

#: What is given of a bar: nothing; something; everything; the bar that it varies.
CLASSES = 4


class LookaheadState(NamedTuple):
    """The lookup after each of (B, T) ids.

    ids    (B, T, 1): what would follow, 0 where nothing is given
    trust  (B, T, 1): the class of the bar
    field  (B, T): which field of a group is next
    """

    ids: Tensor
    trust: Tensor
    field: Tensor


class Lookahead(keys.GatedGroups):
    """Embeddings and scores of the given notes ahead.

    size  how many ids there are;  classes  :data:`CLASSES`
    harmony, meter, section   ranges of ids as in ``coordinates.ranges``
    kinds   of place, bar, program, drums, pitch, drum, root and known

    Everything begins at zero or without effect.
    """

    name = "ahead"
    further = (KNOWN, "section")
    products = ("stood",)
    is_meter: Tensor
    section: Tensor

    def __init__(
        self,
        size: int,
        width: int,
        *,
        harmony: list[list[int]],
        meter: list[list[int]],
        section: list[list[int]],
        classes: int,
        **kinds: list[list[int]],
    ) -> None:
        super().__init__()
        self.keep(
            **keys.table(size, **kinds)._asdict(),
            is_meter=ranges("meter", size, meter, -1) >= 0,
            section=ranges("section", size, section, 0),
        )
        self.bar_id = int(torch.nonzero(self.is_bar)[0])
        self.stood = nn.Parameter(torch.randn(size, width) * 0.25 * width**-0.5)
        self.classes = classes
        self.gates = nn.Parameter(torch.zeros(classes))
        self.state = nn.Parameter(torch.zeros(classes, width))
        self.scores = nn.Parameter(torch.zeros(SIZE * classes, width))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        return {**super().of_tokens(tokenizer), "classes": CLASSES}

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> LookaheadState:
        """The lookup after each of ``ids``; see :meth:`Feature.read` and :class:`Bars`."""
        laid = keys.rows(ids, earlier, places)
        rows, of = laid.ids, self.table
        groups = keys.groups(rows, of)
        given, bar = keys.given_keys(laid, groups, of, self.is_meter)

        lines = self.is_bar[rows[:, :, 1]]
        within = torch.where(laid.some, groups.key.gather(1, laid.last) % BAR, BAR - 1)
        least, below = keys.spans(rows, bar * BAR + within + 1, bar, of)
        index = torch.searchsorted(given, least.flatten(1)).view_as(least)
        key = at(given, index)
        inside = (key >= least) & (key < below)
        now = torch.where(lines, bar + 1, bar)[:, :, None].expand(-1, -1, SIZE).contiguous()
        now[:, :, 0] = bar
        line = torch.searchsorted(given, (now * BAR).flatten(1)).view_as(now)
        is_given = at(given, line) == now * BAR
        section = self.section[at(groups.ids[:, :, 3], line)]
        kind = 1 + (section == WHOLE).long()
        kind = torch.where(section == VARIED, VARIED + 1, kind)
        field = torch.arange(SIZE, device=ids.device).expand(*rows.shape)
        line_next = (field == 0) & ~inside & is_given
        following = torch.where(
            inside & is_given, keys.following(groups, index), torch.where(line_next, self.bar_id, 0)
        )
        state = torch.where(is_given, kind, 0)
        every = (following[..., None], state[..., None], field)
        return LookaheadState(*(each.flatten(1, 2)[:, laid.new] for each in every))

    @property
    def by_class(self) -> Tensor:
        return self.state

    def native(self) -> NativeForm:
        names = (*keys.Table._fields, "is_meter", "section")
        return NativeForm(
            Path(__file__).with_name("lookahead.h"),
            "Ahead",
            {
                **self.native_fields(),
                **{name: getattr(self, name) for name in names},
                "bar_id": self.bar_id,
            },
            scores=self.scores,
        )
