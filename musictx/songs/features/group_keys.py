"""Sortable keys of groups of ids (songs/bar_tokens.py), for the features that search them.

Groups are in the order of bar, place in the bar, part and tone (a pitch, drum or chord root). The
key of a group is one integer that encodes all four, so "what comes next at this place of that bar"
is one search among sorted keys.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import value_table
from musictx.errors import ConfigError
from musictx.model.features.base import Feature, NativeForm, PredictionFeature, join_ids
from musictx.tokens.controls import KNOWN
from musictx.tokens.tokenizer import Tokenizer

#: Ids in a group.
SIZE = 5
#: The number of tones, of parts, and of places in a bar (0 is the bar line) that a key can encode.
TONES, PARTS, PLACES = 128, 130, 512
#: The differences between the keys of successive places, and of successive bars.
PLACE, BAR = PARTS * TONES, PLACES * PARTS * TONES
#: Parts are programs + 1, between chords (0) and drums.
DRUM_PART = 129
#: The kinds of ids that every feature of groups reads; the meter is the numerator of a bar line.
COMMON_KINDS = ("place", "bar", "program", "drums", "harmony", "pitch", "drum", "root", "meter")
#: The bar numbers of successive pieces in a row of a batch are this far apart.
BARS_PER_PIECE = 4096
#: The key of a group that is not complete; greater than any other key.
INCOMPLETE = 1 << 60


class GroupFeature(Feature):
    """A feature that looks up groups by their keys. Its tables, (size,) each, map an id to:

    place           1 + the place in the bar; 0 for other ids
    is_bar          whether the id begins a bar line
    part, tone      the part and the tone in a key; 0 for other ids
    is_known        whether the id begins a group ahead (songs/bar_codec.py)
    meter, section  the numerator of a bar line, and its section; 0 for other ids

    extra_kinds  kinds of ids that the feature reads in addition to :data:`COMMON_KINDS` and, if
                 the vocabulary has it, ``known``
    kinds        the ranges of ids of all these kinds, as in ``coordinates.value_table``
    """

    sparse = False
    extra_kinds: ClassVar[tuple[str, ...]] = ()
    #: The tables in the order of ``GroupTable`` in ``group_keys.h``.
    tables = "place is_bar part tone is_known meter section"

    def __init__(self, size: int, **kinds: list[list[int]]) -> None:
        super().__init__()

        def values(kind: str) -> Tensor:
            """(size,) the value of each id of ``kind``, -1 for other ids."""
            return value_table(kind, size, kinds.get(kind, []), -1)

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
        vocabulary = tokenizer.vocabulary
        if tokenizer.group == 1 or not set(cls.extra_kinds) <= set(vocabulary.kinds):
            raise ConfigError(
                f"model.features={cls.name}: expected tokenizer=notes"
                + " tokenizer.controls=true" * (KNOWN in cls.extra_kinds)
                + f", whose notes stand in bars, not {tokenizer.name}"
            )
        names = (*COMMON_KINDS, *sorted({KNOWN} & set(vocabulary.kinds) | set(cls.extra_kinds)))
        kinds = {name: "numerator" if name == "meter" else name for name in names}
        return {name: [vocabulary.value_range(kind)] for name, kind in kinds.items()}

    def key_in_bar(self, blocks: Tensor) -> Tensor:
        """(...) the keys within a bar of the groups that begin in ``blocks`` (..., 5)."""
        place, part = self.place[blocks[..., 1]] * PLACE, self.part[blocks[..., 2]] * TONES
        return place + part + self.tone[blocks[..., 3]]

    def is_pitched(self, blocks: Tensor) -> Tensor:
        """(...) whether the groups that begin in ``blocks`` (..., 5) are pitched notes."""
        part = self.part[blocks[..., 2]]
        return (self.place[blocks[..., 1]] > 0) & (part > 0) & (part != DRUM_PART)


class GatedGroups(GroupFeature, PredictionFeature):
    """A feature of groups that scores predicted ids and adds their embeddings, each multiplied by
    the gate of its class of confidence.

    bar_id  the id that begins a bar line
    stood   (size, width) the embeddings of predicted ids
    gates   the gate of each number of a prediction and class: K * classes values, in any shape

    class_embeddings  the name of a parameter (K * classes, width), the embedding of each number of
                      a prediction and class
    """

    random_when_added = ("stood",)
    gates: nn.Parameter
    class_embeddings: ClassVar[str]

    def __init__(self, size: int, width: int, **kinds: list[list[int]]) -> None:
        super().__init__(size, **kinds)
        self.size, self.bar_id = size, int(torch.nonzero(self.is_bar)[0])
        self.stood = nn.Parameter(torch.randn(size, width) * 0.25 * width**-0.5)

    def embed(self, x: Tensor, state: Any) -> Tensor:
        return x + self.summed_embeddings(state).view_as(x).to(x.dtype)

    def summed_embeddings(self, state: Any) -> Tensor:
        """(B * T, width) the sum of the embeddings of predicted ids and of their classes."""
        row = self._rows(state)
        ids = state.ids.flatten(0, 1).clamp(max=len(self.stood) - 1)
        gates = (self.gates.flatten()[row] * (state.ids > 0)).flatten(0, 1)
        predicted = F.embedding_bag(
            ids, self.stood, mode="sum", per_sample_weights=gates.to(self.stood.dtype)
        )
        of_classes = getattr(self, self.class_embeddings)
        return predicted + F.embedding_bag(row.flatten(0, 1), of_classes, mode="sum")

    def gated_form(self, struct: str, **others: Any) -> NativeForm:
        """The native form of a C++ ``struct`` that derives from ``Gated`` (predicted.h). Its own
        fields are the tables, ``bar_id`` and ``others``."""
        fields = f"classes stood gates {self.class_embeddings} size {self.tables} bar_id"
        return self.native_form(struct, fields, self.scores, **others)


class Groups:
    """Ids in groups, laid out as in :mod:`musictx.songs.grouped`: n blocks, and a group for each.
    The arguments are those of :meth:`Feature.read`. The first of all ids must begin a block: its
    position in its piece must be a multiple of 5.

    feature     the feature that reads the groups
    blocks      (B, n, 5) the ids of each block; block k ends with the fourth id of group k
    new_ids     the slice of all ids for which results are requested
    first       (B, n) the index of the first block of the piece of each block
    index       (B, n) the index k of each block
    ids         (B, n, 5) the ids of each group
    key         (B, n) the key of each group of the piece; a group outside the piece has the
                greatest key of the bar before it
    bar         (B, n) the number of bar lines up to and including each group
    is_line     (B, n) whether the group is a bar line of the piece
    is_outside  (B, n) whether the group is not part of the piece: controls and groups ahead
    is_ahead    (B, n) whether the group is a group ahead
    """

    def __init__(
        self, feature: GroupFeature, ids: Tensor, previous_ids: Tensor, positions: Tensor
    ) -> None:
        self.feature = feature
        all_ids, all_positions = join_ids(ids, previous_ids, positions)
        pad = -all_ids.shape[1] % SIZE
        blocks = F.pad(all_ids.clamp(min=0), (0, pad)).unflatten(1, (-1, SIZE))
        block_positions = F.pad(all_positions, (0, pad), value=-1)[:, ::SIZE]
        index = torch.arange(blocks.shape[1], device=ids.device).expand(len(blocks), -1)
        self.blocks, self.index = blocks, index
        self.first = torch.where(block_positions == 0, index, 0).cummax(1).values
        fifth_id = F.pad(blocks[:, 1:, 0], (0, 1))
        self.ids = torch.cat([blocks[:, :, 1:], fifth_id[..., None]], 2)
        self.new_ids = slice(previous_ids.shape[1], all_ids.shape[1])

        first_id = blocks[:, :, 1]
        self.is_line, is_known = feature.is_bar[first_id], feature.is_known[first_id]
        self.bar = self.is_line.cumsum(1)
        latest_bar = torch.where(self.is_line | is_known, index, 0).cummax(1).values
        self.is_ahead = is_known.gather(1, latest_bar)
        self.is_outside = self.is_ahead | (~self.is_line & (feature.place[first_id] == 0))
        key_in_bar = torch.where(self.is_line, 0, feature.key_in_bar(blocks))
        is_incomplete = (blocks[:, :, 1:] == 0).any(-1)
        key = self.bar * BAR + torch.where(self.is_outside, BAR - 1, key_in_bar)
        key = torch.where(is_incomplete, INCOMPLETE, key)
        following = key.flip(1).cummin(1).values.flip(1)
        self.key = torch.where(is_incomplete, following - 1, key).contiguous()

    @property
    def previous(self) -> Tensor:
        """(B, n) the index of the last complete group before the group of each block."""
        return (self.index - 1).clamp(min=0)

    @property
    def has_previous(self) -> Tensor:
        """(B, n) whether the piece has a complete group before the group of each block."""
        return self.index > self.first

    @property
    def field(self) -> Tensor:
        """(B, n, 5) the number of the field that follows each id."""
        return torch.arange(SIZE, device=self.blocks.device).expand(*self.blocks.shape)

    def spans(self, after: Tensor, bar: Tensor) -> tuple[Tensor, Tensor]:
        """The keys that the group of each block may have after each of its ids: at least the first
        result, and less than the second; (B, n, 5) each.

        after  (B, n) the smallest key greater than that of the previous group
        bar    (B, n) the bar of the previous group
        """
        feature, blocks, is_line = self.feature, self.blocks, self.is_line
        bar_key = torch.where(is_line, bar + 1, bar) * BAR
        at_place = bar_key + feature.place[blocks[:, :, 1]] * PLACE * ~is_line
        at_part = at_place + feature.part[blocks[:, :, 2]] * TONES * ~is_line
        exact = at_part + feature.tone[blocks[:, :, 3]] * ~is_line
        low = torch.where(is_line, 0, after)
        lows = [after, torch.maximum(low, at_place), torch.maximum(low, at_part), exact, exact]
        stops = [
            (bar + 1) * BAR,
            at_place + torch.where(is_line, 1, PLACE),
            at_part + torch.where(is_line, 1, TONES),
            exact + 1,
            exact + 1,
        ]
        return torch.stack(lows, 2), torch.stack(stops, 2)

    def given_keys(self) -> tuple[Tensor, Tensor]:
        """The sorted keys of the groups ahead, (B, n), where every other group repeats the key
        before it; and the bar of the previous group, (B, n). Bars are numbered through all pieces.
        """
        feature, blocks = self.feature, self.blocks
        written = (self.index == self.first).cumsum(1) * BARS_PER_PIECE + self.bar
        bar = written.gather(1, self.previous)
        bar = torch.where(self.has_previous, bar, written - self.is_line.long())
        is_line = self.is_ahead & (feature.meter[blocks[:, :, 2]] > 0)
        count = is_line.cumsum(1)
        # A bar ahead is the bar after the last that is written or given: its number is the count of
        # bars ahead so far, plus 1, plus the most by which written bars exceeded bars ahead.
        lead = torch.where(is_line, written - count, -1).cummax(1).values
        is_note = self.is_ahead & ~feature.is_known[blocks[:, :, 1]]
        key = (count + 1 + lead) * BAR
        key = torch.where(is_note, key + feature.key_in_bar(blocks), key)
        is_complete = (blocks[:, :, 1:] != 0).all(-1)
        has_key = (is_line | is_note) & is_complete & (lead >= 0)
        return torch.where(has_key, key, 0).cummax(1).values, bar

    def at_new_ids(self, *values: Tensor) -> list[Tensor]:
        """The entries (B, T, ...) of each of ``values`` (B, n, 5, ...) at the new ids."""
        return [tensor.flatten(1, 2)[:, self.new_ids] for tensor in values]

    def ids_at(self, index: Tensor) -> Tensor:
        """(B, n, 5, ...) the id of each field in the groups at ``index`` (B, n, 5, ...)."""
        return torch.stack([gather(self.ids[:, :, f], index[:, :, f]) for f in range(SIZE)], 2)


def gather(values: Tensor, index: Tensor) -> Tensor:
    """``values`` (B, n) at ``index`` (B, ...); the last one if the index is beyond the end."""
    flat = index.flatten(1).clamp(0, values.shape[1] - 1)
    return values.gather(1, flat).view_as(index)
