"""The chord in force and the pitch classes of given notes ahead (songs/bar_codec.py).

The model draws chords for a given melody, and notes for a chord. In both tasks the intervals of
pitch classes above a root matter, whatever the key. This feature adds to each id the chord in force
and the shares of the pitch classes of given notes: in this half bar, in the rest of the bar, in the
next bar and in all groups ahead. Two small networks read these transposed to each of the twelve
pitch classes (:class:`TransposedMLP`): one scores chords with this root, the other notes of this
pitch class. So what is learned in one key holds in all.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import value_table
from musictx.model.features.base import NativeForm
from musictx.songs.features.group_keys import BAR, PLACE, SIZE, GroupFeature, Groups, gather
from musictx.tokens.controls import KNOWN
from musictx.tokens.stream import STEPS_PER_QUARTER

#: The number of pitch classes, and the root where there is no chord.
CLASSES, NO_ROOT = 12, 12
#: The number of stretches of time ahead: this half bar, the rest of the bar, the next bar, all.
STRETCHES = 4
#: Hidden channels of :class:`TransposedMLP`.
HIDDEN = 32
#: Steps of half a bar of 4/4; the length in steps as which longer notes count in shares of time.
HALF, LONGEST = 2 * STEPS_PER_QUARTER, 2 * STEPS_PER_QUARTER
#: The kind of the next id.
OTHER, ROOT, QUALITY, PITCH = range(4)


class HarmonyState(NamedTuple):
    """The state after each of (B, T) ids.

    shares         (B, T, STRETCHES * CLASSES) the share of each pitch class in the time of the
                   given notes ahead, for each stretch
    root, quality  (B, T) of the last complete chord; ``NO_ROOT`` and 0 if there is none
    new_root       (B, T) the root of the chord that is being written, else ``NO_ROOT``
    next_kind      (B, T) OTHER, ROOT, QUALITY or PITCH
    """

    shares: Tensor
    root: Tensor
    quality: Tensor
    new_root: Tensor
    next_kind: Tensor


class TransposedMLP(nn.Module):
    """A network that reads the music transposed to each pitch class.

    width      width of its other input ``x``, the output of the layers
    qualities  number of qualities of chords
    count      number of outputs for each pitch class

    The output for pitch class c is ``out(gelu(A + C + S))``: A is a linear map of the shares of
    pitch classes ahead, transposed down by c; C is an embedding of the chord, by its quality and by
    the interval from its root up to c; S is a linear map of x. ``out`` is zero at first.
    """

    def __init__(self, width: int, qualities: int, count: int) -> None:
        super().__init__()
        self.ahead = nn.Linear(STRETCHES * CLASSES, HIDDEN)
        self.chord = nn.Parameter(torch.zeros(qualities * (CLASSES + 1), HIDDEN))
        self.state = nn.Parameter(torch.zeros(HIDDEN, width))
        self.out = nn.Parameter(torch.zeros(count, HIDDEN))

    def forward(self, x: Tensor, shares: Tensor, root: Tensor, quality: Tensor) -> Tensor:
        """(n, 12, count) for ``x`` (n, width), ``shares`` (n, STRETCHES * CLASSES), and ``root``
        and ``quality`` (n,) of the chord in force."""
        classes = torch.arange(CLASSES, device=x.device)
        rotation = (classes[:, None] + classes) % CLASSES
        transposed = shares.unflatten(-1, (STRETCHES, CLASSES))[..., rotation]
        interval = (classes - root[:, None]) % CLASSES
        interval = torch.where((root == NO_ROOT)[:, None], CLASSES, interval)
        chord = F.embedding(quality[:, None] * (CLASSES + 1) + interval, self.chord)
        h = self.ahead(transposed.transpose(1, 2).flatten(2)) + chord
        return F.linear(F.gelu(h + F.linear(x, self.state)[:, None]), self.out).float()


class Harmony(GroupFeature):
    """Embeddings of the chord in force and of given notes ahead, and scores of the next id.

    is_chord     (size,) whether an id is the part of a chord
    steps        (size,) the length of a note in steps, at most ``LONGEST``; 0 for other ids
    quality_of   (size,) the quality of a chord; 0 for other ids
    pitch_class  (pitches,) the pitch class of each pitch

    The initial parameters have no effect.
    """

    name = "harmony"
    extra_kinds = (KNOWN, "length", "quality")
    random_when_added = ("of_chord.ahead.weight", "of_note.ahead.weight")

    def __init__(self, size: int, width: int, **kinds: list[list[int]]) -> None:
        super().__init__(size, **kinds)
        self.roots = slice(kinds["root"][0][0], kinds["root"][0][0] + CLASSES)
        self.qualities, self.pitches = (slice(*kinds[n][0][:2]) for n in ("quality", "pitch"))
        self.register_tables(
            is_chord=value_table("harmony", size, kinds["harmony"], -1) >= 0,
            steps=value_table("length", size, kinds["length"], 0).clamp(max=LONGEST),
            quality_of=value_table("quality", size, kinds["quality"], 0),
            pitch_class=self.tone[self.pitches] % CLASSES,
        )
        count = self.qualities.stop - self.qualities.start
        self.classes = nn.Parameter(torch.zeros(STRETCHES * CLASSES, width))
        self.chords = nn.Parameter(torch.zeros(count * (CLASSES + 1), width))
        self.of_chord = TransposedMLP(width, count, 1 + count)
        self.of_note = TransposedMLP(width, count, 1)

    @torch.no_grad()
    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> HarmonyState:
        groups = Groups(self, ids, previous_ids, positions)
        blocks = groups.blocks

        # The last complete chord of the piece; a chord precedes the notes at its place.
        is_chord = self.is_chord[blocks[:, :, 2]] & (self.place[blocks[:, :, 1]] > 0)
        chord = torch.where(is_chord & ~groups.is_outside, groups.index, -1).cummax(1).values
        chord = chord.gather(1, groups.previous)
        exists = groups.has_previous & (chord >= groups.first)
        root = torch.where(exists, self.tone[gather(groups.ids[:, :, 2], chord)], NO_ROOT)
        quality = torch.where(exists, self.quality_of[gather(groups.ids[:, :, 3], chord)], 0)

        is_pitched = self.is_pitched(blocks)
        next_kind, new_root = torch.zeros_like(blocks), torch.full_like(blocks, NO_ROOT)
        next_kind[:, :, 2] = torch.where(is_chord, ROOT, torch.where(is_pitched, PITCH, OTHER))
        next_kind[:, :, 3] = torch.where(is_chord, QUALITY, OTHER)
        new_root[:, :, 3] = torch.where(is_chord, self.tone[blocks[:, :, 3]], NO_ROOT)
        root, quality = (tensor[:, :, None].expand(-1, -1, SIZE) for tensor in (root, quality))
        shares = self._shares(groups)
        return HarmonyState(*groups.at_new_ids(shares, root, quality, new_root, next_kind))

    def _shares(self, groups: Groups) -> Tensor:
        """(B, n, 5, STRETCHES * CLASSES): see :class:`HarmonyState`."""
        blocks, index, previous = groups.blocks, groups.index, groups.previous
        given, bar = groups.given_keys()
        time = self.steps[blocks[:, :, 4]] * (groups.is_ahead & self.is_pitched(blocks))
        time = F.one_hot(self.tone[blocks[:, :, 3]] % CLASSES, CLASSES) * time[..., None]
        total = F.pad(time.cumsum(1), (0, 0, 1, 0)).float()

        # The stretches begin at the place of the current group; until this is written, at that of
        # the previous group.
        place = (self.place[blocks[:, :, 1]] - 1).clamp(min=0)
        has_place = groups.has_previous & ~groups.is_outside.gather(1, previous)
        previous_place = torch.where(has_place, place.gather(1, previous), 0)
        bar = torch.stack([bar, bar + groups.is_line], 2)
        half = torch.stack([previous_place, place], 2) // HALF
        bounds = [
            bar * BAR + (half * HALF + 1) * PLACE,
            bar * BAR + ((half + 1) * HALF + 1) * PLACE,
            (bar + 1) * BAR,
            (bar + 2) * BAR,
        ]
        bounds[1] = torch.minimum(bounds[1], bounds[2])
        keys = torch.stack(bounds, 3)
        begins = torch.searchsorted(given, keys.flatten(1)).view_as(keys)
        begins = torch.minimum(begins, index[..., None, None])  # no groups after this block

        def sums(stop: Tensor) -> Tensor:
            """(B, ..., CLASSES): the time of the given notes among the groups before ``stop``."""
            flat = stop.flatten(1)[..., None].expand(-1, -1, CLASSES)
            return total.gather(1, flat).view(*stop.shape, CLASSES)

        whole = (sums(index) - sums(groups.first))[:, :, None, None].expand(-1, -1, 2, -1, -1)
        share = torch.cat([sums(begins).diff(dim=3), whole], 3)
        share = (share / share.sum(-1, keepdim=True).clamp(min=1.0)).flatten(3)
        return torch.cat([share[:, :, :1], share[:, :, 1:].expand(-1, -1, SIZE - 1, -1)], 2)

    def embed(self, x: Tensor, state: HarmonyState) -> Tensor:
        chord = F.embedding(state.quality * (CLASSES + 1) + state.root, self.chords)
        return x + (state.shares @ self.classes + chord).to(x.dtype)

    def score(self, logits: Tensor, x: Tensor, state: HarmonyState) -> Tensor:
        logits = logits.clone()

        def outputs(network: TransposedMLP, where: Tensor) -> Tensor:
            return network(x[where], state.shares[where], state.root[where], state.quality[where])

        def add(where: Tensor, ids: slice, scores: Tensor) -> None:
            rows = logits[where]
            rows[:, ids] += scores
            logits[where] = rows

        at_root, at_pitch = state.next_kind == ROOT, state.next_kind == PITCH
        add(at_root, self.roots, outputs(self.of_chord, at_root)[..., 0])
        at_quality = (state.next_kind == QUALITY) & (state.new_root != NO_ROOT)
        root = state.new_root[at_quality][:, None, None].expand(-1, 1, len(self.of_chord.out))
        add(
            at_quality, self.qualities, outputs(self.of_chord, at_quality).gather(1, root)[:, 0, 1:]
        )
        add(at_pitch, self.pitches, outputs(self.of_note, at_pitch)[:, self.pitch_class, 0])
        return logits

    def native(self) -> NativeForm:
        networks = {"of_chord": self.of_chord, "of_note": self.of_note}
        weights: dict[str, Tensor] = {}
        for name, network in networks.items():
            weights[f"{name}_ahead"] = network.ahead.weight
            weights[f"{name}_bias"] = network.ahead.bias
            weights[f"{name}_chord"] = network.chord
            weights[f"{name}_out"] = network.out
        return self.native_form(
            "Harmony",
            f"{self.tables} is_chord steps quality_of pitch_class classes chords",
            torch.cat([network.state for network in networks.values()]),
            **weights,
            first_root=self.roots.start,
            first_quality=self.qualities.start,
            qualities=self.qualities.stop - self.qualities.start,
            first_pitch=self.pitches.start,
            pitches=len(self.pitch_class),
        )
