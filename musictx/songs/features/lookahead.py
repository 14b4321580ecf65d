"""The given notes of the bar that is being written, at each of its ids (songs/bar_codec.py).

The groups ahead with the given notes of a bar precede its bar line, so the feature is causal. For
each id it predicts the id that would follow if only given notes were written: from the next given
group of this bar after the last group, or from the bar line. The class of confidence is whether
anything else is to be composed in this bar, and whether the bar varies its given notes. Learned
weights for each field and class score the id.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from musictx.model.features.base import NativeForm, Predictions
from musictx.songs.bar_codec import VARIED, WHOLE
from musictx.songs.features.group_keys import BAR, SIZE, GatedGroups, Groups, gather
from musictx.tokens.controls import KNOWN
from musictx.tokens.tokenizer import Tokenizer

#: The number of classes of bars: nothing, some notes, all notes, or notes to vary are given.
CLASSES = 4


class Lookahead(GatedGroups):
    """Embeddings and scores of the given notes ahead; ``classes`` is :data:`CLASSES`.

    It predicts one id, or none in a bar without groups ahead; the class of confidence is the class
    of the bar. The initial parameters have no effect.
    """

    name = "ahead"
    extra_kinds = (KNOWN, "section")
    class_embeddings = "state"

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
    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> Predictions:
        groups = Groups(self, ids, previous_ids, positions)
        given, bar = groups.given_keys()
        previous_key = groups.key.gather(1, groups.previous) % BAR
        key_in_bar = torch.where(groups.has_previous, previous_key, BAR - 1)
        low, stop = groups.spans(bar * BAR + key_in_bar + 1, bar)
        index = torch.searchsorted(given, low.flatten(1)).view_as(low)
        key = gather(given, index)
        is_next = (key >= low) & (key < stop)
        # From the second field of a bar line on, its bar is the current one.
        line_key = (bar[:, :, None] + (groups.is_line[:, :, None] & (groups.field > 0))) * BAR
        line = torch.searchsorted(given, line_key.flatten(1)).view_as(line_key)
        is_given = gather(given, line) == line_key
        section = self.section[gather(groups.ids[:, :, 3], line)]
        bar_class = torch.where(section == VARIED, VARIED + 1, 1 + (section == WHOLE).long())
        is_bar_id = ~is_next & (groups.field == 0)
        following = torch.where(is_next, groups.ids_at(index), is_bar_id * self.bar_id)
        ids, confidence = ((tensor * is_given)[..., None] for tensor in (following, bar_class))
        return Predictions(*groups.at_new_ids(ids, confidence, groups.field))

    def native(self) -> NativeForm:
        return self.gated_form("Ahead")
