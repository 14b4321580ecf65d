"""A feature of repetition: the next id if an earlier bar were repeated, in bar tokens
(songs/bar_tokens.py).

Music repeats the notes of one, two, four or eight bars ago at the same place of the bar. Groups
are in the order of bar, place, part and pitch, so the id that follows in a repetition is one
lookup: shift the key of the last group back by that many bars, and take the first group after
it. For each distance in bars the feature predicts this id, with a class of agreement: how many of
the last notes were the same at that distance. Two more distances depend on the music: the one with
the best agreement, up to ``FARTHEST_BARS``, and the one that the bar line names
(``songs/repeats.py``). Learned weights for each field, distance and class score these ids.

Related: :mod:`musictx.chorale`'s ``repeats``, the neural cache (Grave et al. 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.model.features.base import NativeForm, Predictions
from musictx.songs.bar_codec import FIRST_REPEAT
from musictx.songs.features.group_keys import BAR, SIZE, GatedGroups, Groups, gather
from musictx.songs.repeats import FARTHEST_BARS

#: Distances in bars that are always looked up; two more follow, the one with the best agreement and
#: the one that the bar line names.
DISTANCES = (1, 2, 4, 8)
COUNT = len(DISTANCES) + 2
#: The number of last notes over which agreement is measured, and the number of its classes: 0 if
#: there is no bar at the distance, then one for each fifth of the notes.
AGREEMENT_NOTES, CLASSES = 16, 6


@dataclass
class BarsState(Predictions):
    """The next id in a repetition at each of ``COUNT`` distances, with the class of its agreement.

    meter  (B, T) the numerator of the meter of the bar; 0 before the first bar line
    """

    meter: Tensor


class EarlierBars(GatedGroups):
    """Embeddings and scores of the ids that would repeat earlier bars, and embeddings of the meter.

    The initial parameters have no effect.
    """

    name = "bars"
    classes = CLASSES
    extra_kinds = ("section",)
    class_embeddings = "trust"

    def __init__(self, size: int, width: int, **kinds: list[list[int]]) -> None:
        super().__init__(size, width, **kinds)
        self.in_meter = nn.Parameter(torch.zeros(int(self.meter.max()) + 1, width))
        self.gates = nn.Parameter(torch.zeros(COUNT, CLASSES))
        self.trust = nn.Parameter(torch.zeros(COUNT * CLASSES, width))
        self.scores = nn.Parameter(torch.zeros(SIZE * COUNT * CLASSES, width))

    @torch.no_grad()
    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> BarsState:
        groups = Groups(self, ids, previous_ids, positions)
        first, previous = groups.first, groups.previous
        # The first bar of the piece, whose line may follow a group of controls.
        first_bar = (groups.bar + groups.is_outside.long()).gather(1, first)
        # The smallest key of a group after the previous one, and the bar of the previous one.
        after = torch.where(groups.has_previous, groups.key.gather(1, previous) + 1, 0)
        bar = torch.where(groups.has_previous, groups.bar.gather(1, previous), first_bar - 1)
        agreement, distance = self._agreement(groups, bar, first_bar)

        low, stop = groups.spans(after, bar)
        shift = distance[:, :, None] * BAR  # (B, n, 1, COUNT)
        index = torch.searchsorted(groups.key, (low[..., None] - shift).flatten(1))
        index = index.view(*low.shape, COUNT)
        key = gather(groups.key, index)
        is_found = (key < stop[..., None] - shift) & (index >= first[:, :, None, None])
        is_bar_id = ~is_found & (groups.field == 0)[..., None]
        following = torch.where(is_found, groups.ids_at(index), is_bar_id * self.bar_id)
        following = following * (agreement > 0)[:, :, None]
        confidence = agreement[:, :, None].expand(-1, -1, SIZE, -1) * (following > 0)
        meter = self._last_line(groups, self.meter[groups.ids[:, :, 1]])
        meter = meter[:, :, None].expand(-1, -1, SIZE)
        return BarsState(*groups.at_new_ids(following, confidence, groups.field, meter))

    def _agreement(self, groups: Groups, bar: Tensor, first_bar: Tensor) -> tuple[Tensor, Tensor]:
        """The class of agreement and the distance in bars, (B, n, COUNT) each.

        bar        (B, n) the bar of the previous group
        first_bar  (B, n) the first bar of the piece
        """
        lags = torch.arange(1, FARTHEST_BARS + 1, device=bar.device)
        keys, first = groups.key, groups.first
        earlier_keys = keys[:, None] - lags[:, None] * BAR
        index = torch.searchsorted(keys, earlier_keys.flatten(1)).view_as(earlier_keys)
        is_note = ~groups.is_line & ~groups.is_outside
        is_repeated = (gather(keys, index) == earlier_keys) & (index >= first[:, None])
        is_repeated &= gather(groups.ids[:, :, 3], index) == groups.ids[:, None, :, 3]
        repeated_notes = F.pad((is_repeated & is_note[:, None]).cumsum(2), (1, 0))
        notes = F.pad(is_note.cumsum(1), (1, 0))
        # The groups ``begin`` to ``stop`` - 1 contain the last AGREEMENT_NOTES notes.
        stop = torch.where(groups.has_previous, groups.previous + 1, first)
        notes_before = (notes.gather(1, stop) - AGREEMENT_NOTES).clamp(min=0)
        begin = torch.searchsorted(notes, notes_before.contiguous(), right=True) - 1
        begin = torch.maximum(begin, first)
        count = (notes.gather(1, stop) - notes.gather(1, begin)).clamp(min=1)[:, None]
        shape = earlier_keys.shape
        agreed = repeated_notes.gather(2, stop[:, None].expand(shape))
        agreed = agreed - repeated_notes.gather(2, begin[:, None].expand(shape))
        exists = (bar[:, None] - lags[:, None] >= first_bar[:, None]) & groups.has_previous[:, None]
        agreement = torch.where(exists, 1 + (5 * agreed // count).clamp(max=CLASSES - 2), 0)
        nearer_first = torch.arange(len(lags), 0, -1, device=bar.device)[:, None]
        best = 1 + (torch.where(exists, agreed, -1) * 64 + nearer_first).argmax(1)
        section = self._last_line(groups, self.section[groups.ids[:, :, 3]])
        repeated = (section - FIRST_REPEAT + 1).clamp(min=0)
        fixed = torch.tensor(DISTANCES, device=bar.device)[:, None]
        fixed = fixed.expand(len(bar), -1, bar.shape[1])
        distance = torch.cat([fixed, best[:, None], repeated[:, None]], 1)
        agreement = agreement.gather(1, (distance - 1).clamp(min=0)) * (distance > 0)
        return agreement.mT, distance.mT

    def _last_line(self, groups: Groups, values: Tensor) -> Tensor:
        """(B, n) for each block, the entry of ``values`` (B, n) at the group of the last complete
        bar line of the piece; 0 if there is none."""
        line = torch.where(groups.is_line, groups.index, -1).cummax(1).values
        line = F.pad(line, (1, 0), value=-1)[:, :-1]  # a group is complete in the block after it
        return torch.where(line >= groups.first, values.gather(1, line.clamp(min=0)), 0)

    def summed_embeddings(self, state: BarsState) -> Tensor:
        return super().summed_embeddings(state) + F.embedding(state.meter.flatten(), self.in_meter)

    def native(self) -> NativeForm:
        return self.gated_form("Bars", in_meter=self.in_meter)
