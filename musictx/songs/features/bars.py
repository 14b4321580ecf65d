"""A feature of repetition: the next id if an earlier bar were repeated, for notes in groups
(songs/bar_tokens.py).

Music repeats what it played one, two, four or eight bars ago at the same place of the bar. Groups
are in the order of bar, place, part and pitch, so the id that follows in a repetition is one
lookup: shift the key of the group just written by that many bars, and take the first group after
it. For each distance in bars the feature gives this id, and a class of agreement: how many of the
last notes were repeated from that distance. Two further distances depend on the music: the one up
to a limit with the best agreement, and the one that the bar line names (``songs/repeats.py``).
Learned weights for each field, distance and class of agreement score these ids.

Related: :mod:`musictx.chorale`'s ``repeats``, the neural cache (Grave et al. 2017).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.model.features.base import NativeForm
from musictx.model.features.predicted import Predictions
from musictx.songs.bar_codec import REPEATS
from musictx.songs.features import group_keys as keys
from musictx.songs.features.group_keys import BAR, SIZE, at
from musictx.songs.repeats import FARTHEST_BARS

#: Distances in bars that are always looked up; after them come the best of 1 to ``FARTHEST_BARS``
#: and the one of the bar line.
DISTANCES = (1, 2, 4, 8)
COUNT = len(DISTANCES) + 2
#: Agreement is measured over this many of the last notes, in classes: 0 if there is no such bar,
#: then one for each fifth of the notes.
AGREEMENT_NOTES, CLASSES = 16, 6


class BarState(NamedTuple):
    """The lookup after each of (B, T) ids.

    ids    (B, T, COUNT): the next id in a repetition at each distance, 0 for none
    trust  (B, T, COUNT): class of agreement of each distance
    field  (B, T): number of the field of a group that is next
    meter  (B, T): the meter of the bar, 0 before the first bar line
    """

    ids: Tensor
    trust: Tensor
    field: Tensor
    meter: Tensor


class Bars(keys.GatedGroups):
    """Embeddings and scores of the ids that would repeat earlier bars.

    size    number of ids
    harmony, meter, section   ranges of ids as in ``coordinates.ranges``
    kinds   the ranges of place, bar, program, drums, pitch, drum, root and optionally known

    All parameters begin at zero, or so that they have no effect.
    """

    name = "bars"
    classes = CLASSES
    products = ("stood",)
    further = ("section",)
    meter: Tensor
    back: Tensor

    def __init__(
        self,
        size: int,
        width: int,
        *,
        harmony: list[list[int]],
        meter: list[list[int]],
        section: list[list[int]],
        **kinds: list[list[int]],
    ) -> None:
        super().__init__()
        table = keys.table(size, **{"known": []} | kinds)
        self.keep(**table._asdict(), meter=ranges("meter", size, meter, 0))
        self.keep(back=(ranges("section", size, section, 0) - REPEATS + 1).clamp(min=0))
        self.bar_id = int(torch.nonzero(self.is_bar)[0])
        self.in_meter = nn.Parameter(torch.zeros(int(self.meter.max()) + 1, width))
        self.stood = nn.Parameter(torch.randn(size, width) * 0.25 * width**-0.5)
        self.gates = nn.Parameter(torch.zeros(COUNT, CLASSES))
        self.trust = nn.Parameter(torch.zeros(COUNT * CLASSES, width))
        self.scores = nn.Parameter(torch.zeros(SIZE * COUNT * CLASSES, width))

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> BarState:
        """The lookup after each of ``ids``; see :meth:`Feature.read`. The first of ``earlier``, or
        else of ``ids``, must be the first id of a group: its place is a multiple of five."""
        laid = keys.rows(ids, earlier, places)
        rows, number, begins = laid.ids, laid.number, laid.begins
        of = self.table
        groups = keys.groups(rows, of)
        # The bar with which the piece begins, maybe after a group of controls.
        opening = (groups.bar + groups.other.long()).gather(1, begins)

        # The last complete group of each row, and the smallest key of a group after it.
        last, some = laid.last, laid.some
        after = torch.where(some, groups.key.gather(1, last) + 1, 0)
        bar = torch.where(some, groups.bar.gather(1, last), opening - 1)
        lags = torch.arange(1, FARTHEST_BARS + 1, device=ids.device)
        back = self._last_line(self.back[rows[:, :, 4]], rows, number, begins)
        trust, distance = self._trust(groups, begins, last, some, bar, opening, lags, back)

        least, below = keys.spans(rows, after, bar, of)
        shift = distance[:, :, None] * BAR  # (B, n, 1, COUNT)
        index = torch.searchsorted(groups.key, (least[..., None] - shift).flatten(1))
        index = index.view(*least.shape, COUNT)
        key = at(groups.key, index)
        inside = (key < below[..., None] - shift) & (index >= begins[:, :, None, None])
        exists = (trust > 0)[:, :, None]
        line_next = torch.zeros_like(inside)
        line_next[:, :, 0] = ~inside[:, :, 0]
        following = keys.following(groups, index)
        following = torch.where(inside, following, torch.where(line_next, self.bar_id, 0)) * exists
        field = torch.arange(SIZE, device=ids.device).expand(*rows.shape)
        new = laid.new
        wide = trust[:, :, None].expand(-1, -1, SIZE, -1)
        meter = self._last_line(self.meter[rows[:, :, 2]], rows, number, begins)
        return BarState(
            following.flatten(1, 2)[:, new],
            (wide * (following > 0)).flatten(1, 2)[:, new],
            field.flatten(1)[:, new],
            meter[:, :, None].expand(-1, -1, SIZE).flatten(1)[:, new],
        )

    def _trust(
        self,
        groups: keys.Groups,
        begins: Tensor,
        last: Tensor,
        some: Tensor,
        bar: Tensor,
        opening: Tensor,
        lags: Tensor,
        back: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The class of agreement and the distance in bars, (B, n, COUNT) each."""
        rows, total = groups.key.shape
        earlier_keys = groups.key[:, None] - lags[:, None] * BAR
        index = torch.searchsorted(groups.key, earlier_keys.flatten(1)).view_as(earlier_keys)
        is_note = ~self.is_bar[groups.first] & ~groups.other
        same = (at(groups.key, index) == earlier_keys) & (index >= begins[:, None])
        same &= at(groups.ids[:, :, 3], index) == groups.ids[:, None, :, 3]
        hits = F.pad((same & is_note[:, None]).cumsum(2), (1, 0))
        notes = F.pad(is_note.cumsum(1), (1, 0))
        # The first of the groups that hold the last AGREEMENT_NOTES notes.
        upto = torch.where(some, last + 1, begins)
        least = (notes.gather(1, upto) - AGREEMENT_NOTES).clamp(min=0)
        since = torch.searchsorted(notes, least.contiguous(), right=True) - 1
        since = torch.maximum(since, begins)
        took = (notes.gather(1, upto) - notes.gather(1, since)).clamp(min=1)[:, None]
        wide = (rows, len(lags), total)
        agreed = hits.gather(2, upto[:, None].expand(wide))
        agreed = agreed - hits.gather(2, since[:, None].expand(wide))
        exists = (bar[:, None] - lags[:, None] >= opening[:, None]) & some[:, None]
        trust = torch.where(exists, 1 + (5 * agreed // took).clamp(max=CLASSES - 2), 0)
        nearer_first = torch.arange(len(lags), 0, -1, device=bar.device)[:, None]
        best = (torch.where(exists, agreed, -1) * 64 + nearer_first).argmax(1)
        fixed = [lag - 1 for lag in DISTANCES]
        further = torch.stack([1 + best, back], 1)
        further_trust = trust.gather(1, (further - 1).clamp(min=0)) * (further > 0)
        distance = torch.cat([lags[fixed, None].expand(rows, -1, total), further], 1)
        trust = torch.cat([trust[:, fixed], further_trust], 1)
        return trust.transpose(1, 2), distance.transpose(1, 2)

    def _last_line(self, values: Tensor, rows: Tensor, number: Tensor, begins: Tensor) -> Tensor:
        """(B, n) the entry of ``values`` (B, n), one for each group, at the last complete bar line
        of the piece."""
        at = torch.where(self.is_bar[rows[:, :, 1]], number, -1).cummax(1).values
        at = F.pad(at, (1, 0), value=-1)[:, :-1]  # complete with the row after
        return torch.where(at >= begins, values.gather(1, at.clamp(min=0)), 0)

    @property
    def by_class(self) -> Tensor:
        return self.trust

    def embed(self, x: Tensor, seen: Predictions) -> Tensor:
        """As :meth:`GatedGroups.embed`, and the meter."""
        assert isinstance(seen, BarState)
        more = self.embedded(seen).view_as(x) + F.embedding(seen.meter, self.in_meter)
        return x + more.to(x.dtype)

    def native(self) -> NativeForm:
        names = (*keys.Table._fields, "meter", "back", "in_meter")
        return NativeForm(
            Path(__file__).with_name("bars.h"),
            "Bars",
            {
                **self.native_fields(),
                **{name: getattr(self, name) for name in names},
                "bar_id": self.bar_id,
            },
            scores=self.scores,
        )
