"""Sortable keys of compound tokens (songs/bar_tokens.py), for the features that search them.

A piece in groups is in the order of bar, place, part and tone. A group's key is one whole number
that encodes all four, so "what comes next at this place of that bar" is one search among sorted
keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.errors import ConfigError
from musictx.model.features.base import Feature
from musictx.model.features.predicted import Predicted, Predictions
from musictx.tokens.controls import KNOWN
from musictx.tokens.tokenizer import Tokenizer

#: Ids in a group.
SIZE = 5
#: A key: bar, place + 1 (0 for the bar line), part, tone.
TONES, PARTS, PLACES = 128, 130, 512
PLACE = PARTS * TONES
BAR = PLACES * PLACE
#: Parts are programs + 1, between chords and drums.
DRUM_PART = 129
#: The kinds of ids that every feature of groups reads; a numerator tells the meter.
ALWAYS = ("place", "bar", "program", "drums", "harmony", "pitch", "drum", "root", "meter")
#: Bars of the next piece in a row count from so many more on.
NEXT_PIECE = 4096
#: The key of what is not written yet.
LATER = 1 << 60


class GroupFeature(Feature):
    """A feature that looks things up by keys. It has tables of what each id says, (size,) each:

    place    place + 1, 0 for other ids;  is_bar  whether it begins a bar line;  part, tone  of keys
    is_known  whether it begins a group ahead (songs/bar_layout.py)
    meter, section  of a bar line, 0 for other ids

    further  kinds of ids that it reads in addition to :data:`ALWAYS` and, if any, ``known``
    kinds    the ranges of ids of all of them, as in ``coordinates.ranges``
    """

    sparse = False
    further: ClassVar[tuple[str, ...]] = ()
    #: The tables as ``GroupTable`` in ``group_keys.h`` has them.
    tables = ("place", "is_bar", "part", "tone", "is_known", "meter", "section")
    place: Tensor
    is_bar: Tensor
    part: Tensor
    tone: Tensor
    is_known: Tensor
    meter: Tensor
    section: Tensor

    def __init__(self, size: int, **kinds: list[list[int]]) -> None:
        super().__init__()

        def of(kind: str) -> Tensor:
            return ranges(kind, size, kinds.get(kind, []), -1)

        part = torch.where(of("drums") >= 0, DRUM_PART, of("program") + 1)
        tone = torch.stack([of(kind) for kind in ("pitch", "drum", "root")]).amax(0).clamp(min=0)
        meter, section = of("meter").clamp(min=0), of("section").clamp(min=0)
        self.keep(place=of("place") + 1, part=part, tone=tone, meter=meter, section=section)
        self.keep(is_bar=of("bar") >= 0, is_known=of("known") >= 0)

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        table = tokenizer.vocabulary
        if tokenizer.group == 1 or not set(cls.further) <= set(table.kinds):
            raise ConfigError(
                f"model.features={cls.name}: expected tokenizer=notes"
                + " tokenizer.controls=true" * (KNOWN in cls.further)
                + f", whose notes stand in bars, not {tokenizer.name}"
            )
        names = (*ALWAYS, *sorted({KNOWN} & set(table.kinds) | set(cls.further)))
        return {name: [table.row({"meter": "numerator"}.get(name, name))] for name in names}

    def within(self, rows: Tensor) -> Tensor:
        """What place, part and tone of groups add to the key of a bar; (..., 5) -> (...)."""
        place, part = self.place[rows[..., 1]] * PLACE, self.part[rows[..., 2]] * TONES
        return place + part + self.tone[rows[..., 3]]

    def native_tables(self) -> dict[str, Tensor]:
        """The fields of ``GroupTable``."""
        return {name: getattr(self, name) for name in self.tables}


class GatedGroups(GroupFeature, Predicted):
    """A feature of groups that scores predicted ids and adds their embeddings, each times the gate
    of its class.

    bar_id  the id that begins a bar line
    stood   (size, width): of ids;  gates  (K * classes,): of classes, in any shape
    """

    products = ("stood",)
    gates: nn.Parameter

    def __init__(self, size: int, width: int, **kinds: list[list[int]]) -> None:
        super().__init__(size, **kinds)
        self.bar_id = int(torch.nonzero(self.is_bar)[0])
        self.stood = nn.Parameter(torch.randn(size, width) * 0.25 * width**-0.5)

    @property
    def by_class(self) -> Tensor:
        """(K * classes, width): embeddings of the classes."""
        raise NotImplementedError

    def embed(self, x: Tensor, seen: Predictions) -> Tensor:
        """``x`` (B, T, width) and the embeddings of predicted ids and of their classes."""
        return x + self.embedded(seen).view_as(x).to(x.dtype)

    def embedded(self, seen: Predictions) -> Tensor:
        """(B * T, width): the sum of both embeddings."""
        row = self._by_class(seen)
        ids = seen.ids.flatten(0, 1).clamp(max=len(self.stood) - 1)
        gates = (self.gates.flatten()[row] * (seen.ids > 0)).flatten(0, 1)
        predicted = F.embedding_bag(
            ids, self.stood, mode="sum", per_sample_weights=gates.to(self.stood.dtype)
        )
        return predicted + F.embedding_bag(row.flatten(0, 1), self.by_class, mode="sum")

    def native_fields(self) -> dict[str, Tensor | int]:
        """The fields of ``Gated`` in ``predicted.h`` of the native step, and the tables."""
        gated: dict[str, Tensor | int] = {"classes": self.classes, "stood": self.stood}
        gated |= {"gates": self.gates, "by_class": self.by_class, "size": len(self.stood)}
        return {**gated, **self.native_tables(), "bar_id": self.bar_id}


class Span(NamedTuple):
    """The keys that the next id of a group leaves open, (B, n, 5) for each field.

    least  the smallest key that may follow;  below  that it must lie below
    """

    least: Tensor
    below: Tensor


@dataclass(frozen=True)
class Groups:
    """Ids in groups, laid out as in :mod:`musictx.songs.grouped`; (B, n) each, (B, n, 5) of ids.

    of      the feature that reads them
    rows    row k ends with the fourth id of group k;  new  those asked for, a slice of all ids
    begins  the row with which the piece of each row begins;  number  k
    ids     of group k
    key     of what stands in the piece; of any other group, the last key of the bar it stands in
    bar     the number of bar lines so far, with this one
    is_line  whether the group is a bar line of the piece
    other   whether it is not music of the piece: controls and given notes ahead
    ahead   whether it is a given note ahead
    """

    of: GroupFeature
    rows: Tensor
    new: slice
    begins: Tensor
    number: Tensor
    ids: Tensor
    key: Tensor
    bar: Tensor
    is_line: Tensor
    other: Tensor
    ahead: Tensor

    @classmethod
    def read(cls, of: GroupFeature, ids: Tensor, earlier: Tensor, places: Tensor) -> Groups:
        """The groups of ``ids`` (B, T) and ``earlier`` (B, N), as of :meth:`Feature.read`. The
        first of all must be the first id of a group: its place is a multiple of five."""
        every = torch.cat([earlier, ids], 1).clamp(min=0)
        back = torch.arange(-earlier.shape[1], 0, device=ids.device)
        place = torch.cat([places[:, :1] + back, places], 1)
        pad = -every.shape[1] % SIZE
        rows = F.pad(every, (0, pad)).unflatten(1, (-1, SIZE))
        place = F.pad(place, (0, pad), value=-1)[:, ::SIZE]
        number = torch.arange(rows.shape[1], device=ids.device).expand(len(rows), -1)
        begins = torch.where(place == 0, number, 0).cummax(1).values

        first = rows[:, :, 1]
        is_line, is_known = of.is_bar[first], of.is_known[first]
        bar = is_line.cumsum(1)
        opened = torch.where(is_line | is_known, number, 0).cummax(1).values
        ahead = is_known.gather(1, opened)
        other = ahead | (~is_line & (of.place[first] == 0))
        within = torch.where(other, BAR - 1, torch.where(is_line, 0, of.within(rows)))
        unwritten = (rows[:, :, 1:] == 0).any(-1)
        key = torch.where(unwritten, LATER, bar * BAR + within)
        following = key.flip(1).cummin(1).values.flip(1)
        key = torch.where(unwritten, following - 1, key).contiguous()
        fifth = torch.cat([rows[:, 1:, 0], rows[:, :1, 0] * 0], 1)
        groups = torch.cat([rows[:, :, 1:], fifth[..., None]], 2)
        new = slice(earlier.shape[1], earlier.shape[1] + ids.shape[1])
        return cls(of, rows, new, begins, number, groups, key, bar, is_line, other, ahead)

    @property
    def last(self) -> Tensor:
        """The last complete group before each row's."""
        return (self.number - 1).clamp(min=0)

    @property
    def some(self) -> Tensor:
        """Whether the piece has a complete group."""
        return self.number > self.begins

    @property
    def field(self) -> Tensor:
        """(B, n, 5) which field of a group comes after each id."""
        return torch.arange(SIZE, device=self.rows.device).expand(*self.rows.shape)

    def spans(self, after: Tensor, bar: Tensor) -> Span:
        """For each field of the group that is being written, ``after`` the key after the last
        complete group, which stands in ``bar``."""
        of, rows, lines = self.of, self.rows, self.is_line
        now = torch.where(lines, bar + 1, bar)
        at_place = now * BAR + of.place[rows[:, :, 1]] * PLACE * ~lines
        at_part = at_place + of.part[rows[:, :, 2]] * TONES * ~lines
        exact = at_part + of.tone[rows[:, :, 3]] * ~lines
        later = torch.where(lines, 0, after)
        least = [after, torch.maximum(later, at_place), torch.maximum(later, at_part), exact, exact]
        below = [
            (bar + 1) * BAR,
            at_place + torch.where(lines, 1, PLACE),
            at_part + torch.where(lines, 1, TONES),
            exact + 1,
            exact + 1,
        ]
        return Span(torch.stack(least, 2), torch.stack(below, 2))

    def given(self) -> tuple[Tensor, Tensor]:
        """The sorted keys of the groups ahead, at each other group the one before it; and the bar
        in which the last complete group stands, counted on from piece to piece."""
        of, rows = self.of, self.rows
        written = (self.number == self.begins).cumsum(1) * NEXT_PIECE + self.bar
        bar = torch.where(self.some, written.gather(1, self.last), written - self.is_line.long())
        line = self.ahead & (of.meter[rows[:, :, 2]] > 0)
        count = line.cumsum(1)
        # The k-th bar ahead is the one after the last that is written or given: so far k + 1 plus
        # the most by which the bars written were ahead of those given.
        lead = torch.where(line, written - count, -1).cummax(1).values
        note = self.ahead & ~of.is_known[rows[:, :, 1]]
        key = (count + 1 + lead) * BAR
        key = torch.where(note, key + of.within(rows), key)
        complete = (rows[:, :, 1:] != 0).all(-1)
        counts = (line | note) & complete & (lead >= 0)
        return torch.where(counts, key, 0).cummax(1).values, bar

    def following(self, index: Tensor) -> Tensor:
        """Of the groups at ``index`` (B, n, 5, ...) the ids by field: of the same shape."""
        return torch.stack([at(self.ids[:, :, f], index[:, :, f]) for f in range(SIZE)], 2)


def at(values: Tensor, places: Tensor) -> Tensor:
    """``values`` (B, n) at ``places`` (B, ...); the last one for places beyond the end."""
    flat = places.flatten(1).clamp(0, values.shape[1] - 1)
    return values.gather(1, flat).view_as(places)
