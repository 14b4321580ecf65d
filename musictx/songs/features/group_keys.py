"""Sortable keys of compound tokens (songs/bar_tokens.py), for the features that search them.

A piece in groups is in the order of bar, place, part and tone. A group's key is one whole number
that encodes all four, so "what comes next at this place of that bar" is one search among sorted
keys.
"""

from __future__ import annotations

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
BAR = PLACES * PARTS * TONES
#: Parts are programs + 1, between chords and drums.
DRUM_PART = 129
#: The kinds of ids that every feature of groups reads; a numerator tells the meter.
ALWAYS = ("place", "bar", "program", "drums", "harmony", "pitch", "drum", "root", "meter")
#: Bars of the next piece in a row count from so many more on.
NEXT_PIECE = 4096
#: The key of what is not written yet.
LATER = 1 << 60


class Table(NamedTuple):
    """What each id says, (size,) each.

    place    place + 1, 0 for other ids;  is_bar  whether it begins a bar line;  part, tone  of keys
    is_known whether it begins a group ahead (songs/bar_layout.py)
    """

    place: Tensor
    is_bar: Tensor
    part: Tensor
    tone: Tensor
    is_known: Tensor


class Groups(NamedTuple):
    """The groups of rows, (B, n) each: group k has its first four ids in row k of the ids.

    key    of what stands in the piece; of any other group, the last key of the bar it stands in
    bar    the number of bar lines so far, with this one
    first  the first id;  ids  (B, n, 5) all of them
    other  whether the group is not music of the piece: controls and given notes ahead
    ahead  whether it is a given note ahead
    """

    key: Tensor
    bar: Tensor
    first: Tensor
    ids: Tensor
    other: Tensor
    ahead: Tensor


def table(
    size: int,
    *,
    place: list[list[int]],
    bar: list[list[int]],
    program: list[list[int]],
    drums: list[list[int]],
    pitch: list[list[int]],
    drum: list[list[int]],
    root: list[list[int]],
    known: list[list[int]],
) -> Table:
    """The table of ``size`` ids, from ranges [first, stop, value] of each kind."""
    part = ranges("program", size, program, -1) + 1
    part[ranges("drums", size, drums, -1) >= 0] = DRUM_PART
    tone = torch.zeros(size, dtype=torch.int64)
    for name, rows in (("pitch", pitch), ("drum", drum), ("root", root)):
        value = ranges(name, size, rows, -1)
        tone = torch.where(value >= 0, value, tone)
    return Table(
        place=ranges("place", size, place, -1) + 1,
        is_bar=ranges("bar", size, bar, -1) >= 0,
        part=part,
        tone=tone,
        is_known=ranges("known", size, known, -1) >= 0,
    )


class GroupFeature(Feature):
    """A feature that looks things up by keys. It holds the tables of :class:`Table`, by the names
    of the fields there.

    further  kinds of ids that it reads in addition to :data:`ALWAYS`
    """

    sparse = False
    further: ClassVar[tuple[str, ...]] = ()
    place: Tensor
    is_bar: Tensor
    part: Tensor
    tone: Tensor
    is_known: Tensor

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        table = tokenizer.vocabulary
        if tokenizer.group == 1 or not set(cls.further) <= set(table.kinds):
            raise ConfigError(
                f"model.features={cls.name}: expected tokenizer=notes"
                + " tokenizer.controls=true" * (KNOWN in cls.further)
                + f", whose notes stand in bars, not {tokenizer.name}"
            )
        optional = {KNOWN, "section"} & set(table.kinds)
        names = (*ALWAYS, *sorted(optional | set(cls.further)))
        return {name: [table.row({"meter": "numerator"}.get(name, name))] for name in names}

    @property
    def table(self) -> Table:
        """What each id says."""
        return Table(*(getattr(self, name) for name in Table._fields))


class GatedGroups(GroupFeature, Predicted):
    """A feature of groups that scores predicted ids and adds their embeddings, each times the gate
    of its class.

    stood  (size, width): of ids;  gates  (K * classes,): of classes, in any shape
    """

    stood: nn.Parameter
    gates: nn.Parameter

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
        """The fields of ``Gated`` in ``predicted.h`` of the native step."""
        return {
            "classes": self.classes,
            "stood": self.stood,
            "gates": self.gates,
            "by_class": self.by_class,
            "size": len(self.stood),
        }


class Rows(NamedTuple):
    """Ids laid out as in :mod:`musictx.songs.grouped`.

    ids     (B, n, 5): row k ends with the fourth id of group k;  number  (B, n): k
    begins  (B, n): the row with which the piece of each row begins;  new  those asked for, a slice
    """

    ids: Tensor
    number: Tensor
    begins: Tensor
    new: slice

    @property
    def last(self) -> Tensor:
        """(B, n): the last complete group before each row's."""
        return (self.number - 1).clamp(min=0)

    @property
    def some(self) -> Tensor:
        """(B, n): whether the piece has a complete group."""
        return self.number > self.begins


def rows(ids: Tensor, earlier: Tensor, places: Tensor) -> Rows:
    """The rows of ``ids`` (B, T) and ``earlier`` (B, N), as of :meth:`Feature.read`."""
    count = ids.shape[1]
    every = torch.cat([earlier, ids], 1).clamp(min=0)
    back = torch.arange(-earlier.shape[1], 0, device=ids.device)
    place = torch.cat([places[:, :1] + back, places], 1)
    pad = -every.shape[1] % SIZE
    every, place = F.pad(every, (0, pad)), F.pad(place, (0, pad), value=-1)
    groups_of_ids = every.unflatten(1, (-1, SIZE))
    number = torch.arange(groups_of_ids.shape[1], device=ids.device).expand(len(groups_of_ids), -1)
    begins = torch.where(place[:, ::SIZE] == 0, number, 0).cummax(1).values
    return Rows(groups_of_ids, number, begins, slice(earlier.shape[1], earlier.shape[1] + count))


def groups(rows: Tensor, of: Table) -> Groups:
    """The groups in ``rows`` (B, n, 5)."""
    first = rows[:, :, 1]
    is_bar, is_known = of.is_bar[first], of.is_known[first]
    bar = is_bar.cumsum(1)
    key = bar * BAR + torch.where(is_bar, 0, _within(rows, of))
    number = torch.arange(rows.shape[1], device=rows.device)
    opened = torch.where(is_bar | is_known, number, 0).cummax(1).values
    ahead = is_known.gather(1, opened)
    other = ahead | (~is_bar & (of.place[first] == 0))
    key = torch.where(other, bar * BAR + BAR - 1, key)
    unwritten = (rows[:, :, 1:] == 0).any(-1)
    key = torch.where(unwritten, LATER, key)
    following = key.flip(1).cummin(1).values.flip(1)
    key = torch.where(unwritten, following - 1, key).contiguous()
    fifth = torch.cat([rows[:, 1:, 0], rows[:, :1, 0] * 0], 1)
    return Groups(key, bar, first, torch.cat([rows[:, :, 1:], fifth[..., None]], 2), other, ahead)


def _within(rows: Tensor, of: Table) -> Tensor:
    """What place, part and tone add to the key of a bar, (B, n)."""
    place = of.place[rows[:, :, 1]] * (PARTS * TONES)
    return place + of.part[rows[:, :, 2]] * TONES + of.tone[rows[:, :, 3]]


class Span(NamedTuple):
    """The keys that the next id of a group leaves open, (B, n, 5) for each field.

    least  the smallest key that may follow;  below  that it must lie below
    """

    least: Tensor
    below: Tensor


def spans(rows: Tensor, after: Tensor, bar: Tensor, of: Table) -> Span:
    """For each field of the group that is being written, ``after`` (B, n) the key after the last
    complete group, which stands in ``bar`` (B, n)."""
    lines = of.is_bar[rows[:, :, 1]]
    now = torch.where(lines, bar + 1, bar)
    at_place = now * BAR + of.place[rows[:, :, 1]] * (PARTS * TONES) * ~lines
    at_part = at_place + of.part[rows[:, :, 2]] * TONES * ~lines
    exact = at_part + of.tone[rows[:, :, 3]] * ~lines
    later = torch.where(lines, 0, after)
    least = [after, torch.maximum(later, at_place), torch.maximum(later, at_part), exact, exact]
    below = [
        (bar + 1) * BAR,
        at_place + torch.where(lines, 1, PARTS * TONES),
        at_part + torch.where(lines, 1, TONES),
        exact + 1,
        exact + 1,
    ]
    return Span(torch.stack(least, 2), torch.stack(below, 2))


def given_keys(laid: Rows, groups: Groups, of: Table, is_meter: Tensor) -> tuple[Tensor, Tensor]:
    """(B, n) sorted keys of the groups ahead, at each other group the one before it; and (B, n) the
    bar in which the last complete group stands, counted on from piece to piece.

    is_meter  (size,) bool
    """
    rows = laid.ids
    piece = (laid.number == laid.begins).cumsum(1) * NEXT_PIECE
    written = piece + groups.bar
    before = piece + groups.bar - of.is_bar[rows[:, :, 1]].long()
    bar = torch.where(laid.some, written.gather(1, laid.last), before)
    line = groups.ahead & is_meter[rows[:, :, 2]]
    count = line.cumsum(1)
    # The k-th bar ahead is the one after the last that is written or given: so far k + 1 plus
    # the most by which the bars written were ahead of those given.
    lead = torch.where(line, written - count, -1).cummax(1).values
    number = count + 1 + lead
    asked = of.is_known[rows[:, :, 1]] & ~line
    key = number * BAR
    note = groups.ahead & ~line & ~asked
    key = torch.where(note, key + _within(rows, of), key)
    unwritten = (rows[:, :, 1:] == 0).any(-1)
    given = torch.where((line | note) & ~unwritten & (lead >= 0), key, 0).cummax(1).values
    return given, bar


def following(groups: Groups, index: Tensor) -> Tensor:
    """Of the groups at ``index`` (B, n, 5, ...) the ids by field: of the same shape."""
    return torch.stack([at(groups.ids[:, :, f], index[:, :, f]) for f in range(SIZE)], 2)


def at(values: Tensor, places: Tensor) -> Tensor:
    """``values`` (B, n) at ``places`` (B, ...); the last one for places beyond the end."""
    flat = places.flatten(1).clamp(0, values.shape[1] - 1)
    return values.gather(1, flat).view_as(places)
