"""The given notes of the bar that is being written, at each of its ids (songs/bar_codec.py).

The groups with the given notes of a bar precede the bar. For each id the feature looks up the id
that would follow if only given notes were written: of the next given group of this bar after the
last group, or of the bar line. It also looks up whether anything else is to be composed in this
bar, and whether the bar varies its given notes. Learned weights by field score the id. The given
notes of a bar precede its bar line, so the lookup is causal.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from musictx.model.features.base import NativeForm
from musictx.model.features.predicted import Predictions
from musictx.songs.bar_codec import VARIED, WHOLE
from musictx.songs.features.group_keys import BAR, SIZE, GatedGroups, Groups, at
from musictx.tokens.controls import KNOWN
from musictx.tokens.tokenizer import Tokenizer

#: Classes of bars: nothing is given; some notes are; all notes are; the notes to vary are.
CLASSES = 4


class Lookahead(GatedGroups):
    """Embeddings and scores of the given notes ahead; ``classes`` is :data:`CLASSES`.

    It predicts one id, none in a bar that is not given ahead, with confidence by the class of the
    bar.

    All parameters begin at zero, or so that they have no effect.
    """

    name = "ahead"
    further = (KNOWN, "section")

    def __init__(self, size: int, width: int, *, classes: int, **kinds: list[list[int]]) -> None:
        super().__init__(size, width, **kinds)
        self.classes = classes
        self.gates = nn.Parameter(torch.zeros(classes))
        self.state = nn.Parameter(torch.zeros(classes, width))
        self.scores = nn.Parameter(torch.zeros(SIZE * classes, width))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        return {**super().of_tokens(tokenizer), "classes": CLASSES}

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Predictions:
        """The lookup after each of ``ids``; see :meth:`Feature.read`."""
        groups = Groups.read(self, ids, earlier, places)
        given, bar = groups.given()
        within = torch.where(groups.some, groups.key.gather(1, groups.last) % BAR, BAR - 1)
        least, below = groups.spans(bar * BAR + within + 1, bar)
        index = torch.searchsorted(given, least.flatten(1)).view_as(least)
        key = at(given, index)
        inside = (key >= least) & (key < below)
        # From the second field of a bar line on, its bar is the current one.
        now = (bar[:, :, None] + (groups.is_line[:, :, None] & (groups.field > 0))) * BAR
        line = torch.searchsorted(given, now.flatten(1)).view_as(now)
        is_given = at(given, line) == now
        section = self.section[at(groups.ids[:, :, 3], line)]
        kind = torch.where(section == VARIED, VARIED + 1, 1 + (section == WHOLE).long())
        line_next = ~inside & (groups.field == 0)
        following = torch.where(inside, groups.following(index), line_next * self.bar_id)
        ids, trust = ((each * is_given)[..., None] for each in (following, kind))
        return Predictions(*groups.of_new_ids(ids, trust, groups.field))

    @property
    def by_class(self) -> Tensor:
        return self.state

    def native(self) -> NativeForm:
        return self.gated_form("Ahead")
