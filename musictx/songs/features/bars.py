"""A feature of repetition: the next id if an earlier bar were repeated, for notes in groups
(songs/bar_tokens.py).

Music repeats the notes of one, two, four or eight bars ago at the same place of the bar. Groups
are in the order of bar, place, part and pitch, so the id that follows in a repetition is one
lookup: shift the key of the last group back by that many bars, and take the first group after
it. For each distance in bars the feature gives this id, and a class of agreement: how many of the
last notes were repeated from that distance. Two further distances depend on the music: the one up
to a limit with the best agreement, and the one that the bar line names (``songs/repeats.py``).
Learned weights for each field, distance and class of agreement score these ids.

Related: :mod:`musictx.chorale`'s ``repeats``, the neural cache (Grave et al. 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.model.features.base import NativeForm
from musictx.model.features.predicted import Predictions
from musictx.songs.bar_codec import REPEATS
from musictx.songs.features.group_keys import BAR, SIZE, GatedGroups, Groups, at
from musictx.songs.repeats import FARTHEST_BARS

#: Distances in bars that are always looked up; after them come the best of 1 to ``FARTHEST_BARS``
#: and the one of the bar line.
DISTANCES = (1, 2, 4, 8)
COUNT = len(DISTANCES) + 2
#: Agreement is measured over this many of the last notes, in classes: 0 if there is no such bar,
#: then one for each fifth of the notes.
AGREEMENT_NOTES, CLASSES = 16, 6


@dataclass
class BarsState(Predictions):
    """The next id in a repetition at each of ``COUNT`` distances, with the class of its agreement.

    meter  (B, T): the meter of the bar, 0 before the first bar line
    """

    meter: Tensor


class EarlierBars(GatedGroups):
    """Embeddings and scores of the ids that would repeat earlier bars, and of the meter.

    All parameters begin at zero, or so that they have no effect.
    """

    name = "bars"
    classes = CLASSES
    further = ("section",)

    def __init__(self, size: int, width: int, **kinds: list[list[int]]) -> None:
        super().__init__(size, width, **kinds)
        self.in_meter = nn.Parameter(torch.zeros(int(self.meter.max()) + 1, width))
        self.gates = nn.Parameter(torch.zeros(COUNT, CLASSES))
        self.trust = nn.Parameter(torch.zeros(COUNT * CLASSES, width))
        self.scores = nn.Parameter(torch.zeros(SIZE * COUNT * CLASSES, width))

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> BarsState:
        """The lookup after each of ``ids``; see :meth:`Feature.read`."""
        groups = Groups.read(self, ids, earlier, places)
        begins, last = groups.begins, groups.last
        # The first bar of the piece, whose line may follow a group of controls.
        opening = (groups.bar + groups.other.long()).gather(1, begins)
        # The last complete group of each row, and the smallest key of a group after it.
        after = torch.where(groups.some, groups.key.gather(1, last) + 1, 0)
        bar = torch.where(groups.some, groups.bar.gather(1, last), opening - 1)
        trust, distance = self._trust(groups, bar, opening)

        least, below = groups.spans(after, bar)
        shift = distance[:, :, None] * BAR  # (B, n, 1, COUNT)
        index = torch.searchsorted(groups.key, (least[..., None] - shift).flatten(1))
        index = index.view(*least.shape, COUNT)
        key = at(groups.key, index)
        inside = (key < below[..., None] - shift) & (index >= begins[:, :, None, None])
        line_next = ~inside & (groups.field == 0)[..., None]
        following = torch.where(inside, groups.following(index), line_next * self.bar_id)
        following = following * (trust > 0)[:, :, None]
        wide = trust[:, :, None].expand(-1, -1, SIZE, -1) * (following > 0)
        meter = self._last_line(groups, self.meter[groups.ids[:, :, 1]])
        meter = meter[:, :, None].expand(-1, -1, SIZE)
        return BarsState(*groups.of_new_ids(following, wide, groups.field, meter))

    def _trust(self, groups: Groups, bar: Tensor, opening: Tensor) -> tuple[Tensor, Tensor]:
        """The class of agreement and the distance in bars, (B, n, COUNT) each. ``bar`` is the bar
        of the last complete group, and ``opening`` the first bar of the piece."""
        lags = torch.arange(1, FARTHEST_BARS + 1, device=bar.device)
        keys, begins = groups.key, groups.begins
        earlier_keys = keys[:, None] - lags[:, None] * BAR
        index = torch.searchsorted(keys, earlier_keys.flatten(1)).view_as(earlier_keys)
        is_note = ~groups.is_line & ~groups.other
        same = (at(keys, index) == earlier_keys) & (index >= begins[:, None])
        same &= at(groups.ids[:, :, 3], index) == groups.ids[:, None, :, 3]
        hits = F.pad((same & is_note[:, None]).cumsum(2), (1, 0))
        notes = F.pad(is_note.cumsum(1), (1, 0))
        # The first of the groups that hold the last AGREEMENT_NOTES notes.
        upto = torch.where(groups.some, groups.last + 1, begins)
        least = (notes.gather(1, upto) - AGREEMENT_NOTES).clamp(min=0)
        since = torch.searchsorted(notes, least.contiguous(), right=True) - 1
        since = torch.maximum(since, begins)
        took = (notes.gather(1, upto) - notes.gather(1, since)).clamp(min=1)[:, None]
        wide = earlier_keys.shape
        agreed = hits.gather(2, upto[:, None].expand(wide))
        agreed = agreed - hits.gather(2, since[:, None].expand(wide))
        exists = (bar[:, None] - lags[:, None] >= opening[:, None]) & groups.some[:, None]
        trust = torch.where(exists, 1 + (5 * agreed // took).clamp(max=CLASSES - 2), 0)
        nearer_first = torch.arange(len(lags), 0, -1, device=bar.device)[:, None]
        best = 1 + (torch.where(exists, agreed, -1) * 64 + nearer_first).argmax(1)
        section = self._last_line(groups, self.section[groups.ids[:, :, 3]])
        fixed = torch.tensor(DISTANCES, device=bar.device)[:, None].expand(
            len(bar), -1, bar.shape[1]
        )
        distance = torch.cat(
            [fixed, best[:, None], (section - REPEATS + 1).clamp(min=0)[:, None]], 1
        )
        trust = trust.gather(1, (distance - 1).clamp(min=0)) * (distance > 0)
        return trust.transpose(1, 2), distance.transpose(1, 2)

    def _last_line(self, groups: Groups, values: Tensor) -> Tensor:
        """(B, n) the entry of ``values`` (B, n), one for each group, at the last complete bar line
        of the piece."""
        line = torch.where(groups.is_line, groups.number, -1).cummax(1).values
        line = F.pad(line, (1, 0), value=-1)[:, :-1]  # complete with the row after
        return torch.where(line >= groups.begins, values.gather(1, line.clamp(min=0)), 0)

    @property
    def by_class(self) -> Tensor:
        return self.trust

    def embed(self, x: Tensor, seen: Predictions) -> Tensor:
        """As :meth:`GatedGroups.embed`, plus the embedding of the meter."""
        assert isinstance(seen, BarsState)
        more = self.embedded(seen).view_as(x) + F.embedding(seen.meter, self.in_meter)
        return x + more.to(x.dtype)

    def native(self) -> NativeForm:
        return self.gated_form("Bars", in_meter=self.in_meter)
