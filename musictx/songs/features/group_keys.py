"""Sortable keys of groups of ids (songs/bar_tokens.py), for the features that search them.

A piece in groups is in the order of bar, place, part and tone. A group's key is one whole number
that encodes all four, so "what comes next at this place of that bar" is one search among sorted
keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.errors import ConfigError
from musictx.model.features.base import Feature, NativeForm, joined
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
#: The kinds of ids that every feature of groups reads; the meter is the numerator of a bar line.
ALWAYS = ("place", "bar", "program", "drums", "harmony", "pitch", "drum", "root", "meter")
#: The bar numbers of successive pieces in a row of a batch are this far apart.
NEXT_PIECE = 4096
#: The key of a group that is not complete; greater than any other key.
LATER = 1 << 60


class GroupFeature(Feature):
    """A feature that looks up groups by their keys. Its tables, (size,) each, map an id to:

    place      place + 1, 0 for ids that are no place
    is_bar     whether the id begins a bar line
    part, tone  the part and the tone in a key
    is_known   whether the id begins a group ahead (songs/bar_codec.py)
    meter, section  the numerator and the section of a bar line, 0 for other ids

    further  kinds of ids that the feature reads in addition to :data:`ALWAYS` and, if the
             vocabulary has it, ``known``
    kinds    the ranges of ids of all these kinds, as in ``coordinates.ranges``
    """

    sparse = False
    further: ClassVar[tuple[str, ...]] = ()
    #: The tables as ``GroupTable`` in ``group_keys.h`` has them.
    tables = "place is_bar part tone is_known meter section"

    def __init__(self, size: int, **kinds: list[list[int]]) -> None:
        super().__init__()

        def values(kind: str) -> Tensor:
            """(size,) the value of each id of ``kind``, -1 for other ids."""
            return ranges(kind, size, kinds.get(kind, []), -1)

        part = torch.where(values("drums") >= 0, DRUM_PART, values("program") + 1)
        tones = torch.stack([values(kind) for kind in ("pitch", "drum", "root")])
        tone = tones.amax(0).clamp(min=0)
        self.register_tables(
            place=values("place") + 1,
            is_bar=values("bar") >= 0,
            part=part,
            tone=tone,
            is_known=values("known") >= 0,
            meter=values("meter").clamp(min=0),
            section=values("section").clamp(min=0),
        )

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
        """The part of a key below the bar: place, part and tone of each of ``rows``; (..., 5) ->
        (...)."""
        place, part = self.place[rows[..., 1]] * PLACE, self.part[rows[..., 2]] * TONES
        return place + part + self.tone[rows[..., 3]]


class GatedGroups(GroupFeature, Predicted):
    """A feature of groups that scores predicted ids and adds their embeddings, each multiplied by
    the gate of its class.

    bar_id  the id that begins a bar line
    stood   (size, width): the embeddings of predicted ids
    gates   K * classes values, in any shape: the gates of the classes of K predictions
    """

    random_when_added = ("stood",)
    gates: nn.Parameter

    def __init__(self, size: int, width: int, **kinds: list[list[int]]) -> None:
        super().__init__(size, **kinds)
        self.size, self.bar_id = size, int(torch.nonzero(self.is_bar)[0])
        self.stood = nn.Parameter(torch.randn(size, width) * 0.25 * width**-0.5)

    @property
    def by_class(self) -> Tensor:
        """(K * classes, width): embeddings of the classes."""
        raise NotImplementedError

    def embed(self, x: Tensor, seen: Predictions) -> Tensor:
        """``x`` (B, T, width) plus the embeddings of predicted ids and of their classes."""
        return x + self.embedded(seen).view_as(x).to(x.dtype)

    def embedded(self, seen: Predictions) -> Tensor:
        """(B * T, width): the sum of the embeddings of predicted ids and of their classes."""
        row = self._by_class(seen)
        ids = seen.ids.flatten(0, 1).clamp(max=len(self.stood) - 1)
        gates = (self.gates.flatten()[row] * (seen.ids > 0)).flatten(0, 1)
        predicted = F.embedding_bag(
            ids, self.stood, mode="sum", per_sample_weights=gates.to(self.stood.dtype)
        )
        return predicted + F.embedding_bag(row.flatten(0, 1), self.by_class, mode="sum")

    def gated_form(self, struct: str, **others: Any) -> NativeForm:
        """The form of a ``struct`` with the fields of ``Gated`` in ``predicted.h`` of the native
        step, the tables and the ``others``."""
        fields = f"classes stood gates by_class size {self.tables} bar_id"
        return self.native_form(struct, fields, self.scores, **others)


@dataclass(frozen=True)
class Groups:
    """Ids in groups, laid out as in :mod:`musictx.songs.grouped`: n rows, and one group for each.

    of       the feature that reads the groups
    rows     (B, n, 5) ids; row k ends with the fourth id of group k
    new      the slice of all ids for which results are requested
    begins   (B, n) the row with which the piece of each row begins
    number   (B, n) the number k of each row
    ids      (B, n, 5) the ids of group k
    key      (B, n) the key of each group of the piece; other groups have the last key of the bar
             in which they stand
    bar      (B, n) the number of bar lines up to and including group k
    is_line  (B, n) whether the group is a bar line of the piece
    other    (B, n) whether the group is no music of the piece: controls and groups ahead
    ahead    (B, n) whether the group is a group ahead
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
        """The groups of ``ids`` (B, T) after ``earlier`` (B, N), as in :meth:`Feature.read`. The
        first of all ids must begin a row, so its place must be a multiple of five."""
        every, place = joined(ids, earlier, places)
        pad = -every.shape[1] % SIZE
        rows = F.pad(every.clamp(min=0), (0, pad)).unflatten(1, (-1, SIZE))
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
        new = slice(earlier.shape[1], every.shape[1])
        return cls(of, rows, new, begins, number, groups, key, bar, is_line, other, ahead)

    @property
    def last(self) -> Tensor:
        """(B, n): the number of the last complete group before each row's group."""
        return (self.number - 1).clamp(min=0)

    @property
    def some(self) -> Tensor:
        """(B, n): whether the piece has a complete group before each row's group."""
        return self.number > self.begins

    @property
    def field(self) -> Tensor:
        """(B, n, 5): the number of the field that follows each id."""
        return torch.arange(SIZE, device=self.rows.device).expand(*self.rows.shape)

    def spans(self, after: Tensor, bar: Tensor) -> tuple[Tensor, Tensor]:
        """The keys that the current group may still have after each field, from the first result to
        before the second, (B, n, 5) each. ``after`` is the smallest key greater than that of the
        last complete group, and ``bar`` the bar of that group."""
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
        return torch.stack(least, 2), torch.stack(below, 2)

    def given(self) -> tuple[Tensor, Tensor]:
        """The sorted keys of the groups ahead, (B, n), where every other group repeats the key
        before it; and the bar of the last complete group, (B, n), numbered through all pieces of a
        row."""
        of, rows = self.of, self.rows
        written = (self.number == self.begins).cumsum(1) * NEXT_PIECE + self.bar
        bar = torch.where(self.some, written.gather(1, self.last), written - self.is_line.long())
        line = self.ahead & (of.meter[rows[:, :, 2]] > 0)
        count = line.cumsum(1)
        # A bar ahead is the bar after the last that is written or given: its number is the count of
        # bars ahead so far, plus 1, plus the most by which written bars exceeded bars ahead.
        lead = torch.where(line, written - count, -1).cummax(1).values
        note = self.ahead & ~of.is_known[rows[:, :, 1]]
        key = (count + 1 + lead) * BAR
        key = torch.where(note, key + of.within(rows), key)
        complete = (rows[:, :, 1:] != 0).all(-1)
        counts = (line | note) & complete & (lead >= 0)
        return torch.where(counts, key, 0).cummax(1).values, bar

    def of_new_ids(self, *values: Tensor) -> list[Tensor]:
        """Each of ``values`` (B, n, 5, ...) as (B, T, ...), at the ids that are read."""
        return [each.flatten(1, 2)[:, self.new] for each in values]

    def following(self, index: Tensor) -> Tensor:
        """For each field, that id of the groups at ``index`` (B, n, 5, ...); of the same shape."""
        return torch.stack([at(self.ids[:, :, f], index[:, :, f]) for f in range(SIZE)], 2)


def at(values: Tensor, places: Tensor) -> Tensor:
    """``values`` (B, n) at ``places`` (B, ...); the last one for places beyond the end."""
    flat = places.flatten(1).clamp(0, values.shape[1] - 1)
    return values.gather(1, flat).view_as(places)
