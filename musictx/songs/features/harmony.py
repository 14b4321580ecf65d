"""The chord in force and the pitch classes of given notes ahead (songs/bar_tokens.py).

The model draws chords to a given melody, and notes to a chord. In both tasks the intervals of
pitch classes above a root matter, whatever the key. This feature gives each id the last chord and
the shares of the pitch classes of given notes, in this half of the bar, in the rest of the bar,
in the bar after it and in all groups ahead. Two small networks read these transposed to each of the
twelve pitch classes (:class:`TransposedMLP`): one scores chords with this root, the other notes of
this pitch class. So what is learned in one key holds in all.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.model.features.base import NativeForm
from musictx.songs.features.group_keys import (
    BAR,
    DRUM_PART,
    PLACE,
    SIZE,
    GroupFeature,
    Groups,
    at,
)
from musictx.tokens.controls import KNOWN
from musictx.tokens.stream import STEPS

#: Pitch classes, and the root of no chord.
CLASSES, NO_ROOT = 12, 12
#: Stretches of music ahead: this half of the bar, the rest of the bar, the bar after it, all.
STRETCHES = 4
#: Channels of the networks that read music from each pitch class upwards.
HIDDEN = 32
#: Steps of half a bar of 4/4; also the most steps of a note that count in shares of time.
HALF = LONGEST = 2 * STEPS
#: What comes next: something else, a root, a quality, a pitch.
OTHER, ROOT, QUALITY, PITCH = range(4)


class HarmonyState(NamedTuple):
    """The state after each of (B, T) ids.

    ahead    (B, T, STRETCHES * CLASSES): shares of the time of the given notes ahead
    root, quality  (B, T): of the last chord, ``NO_ROOT`` where there is none
    begun    (B, T): the root of the chord that is being written, ``NO_ROOT`` where there is none
    next     (B, T): the kind of the next id: OTHER, ROOT, QUALITY or PITCH
    """

    ahead: Tensor
    root: Tensor
    quality: Tensor
    begun: Tensor
    next: Tensor


class TransposedMLP(nn.Module):
    """A network that reads the music transposed to each pitch class.

    width      width of the states ``x``, its other input
    qualities  number of qualities of chords
    count      number of outputs for each pitch class

    The output for pitch class c is ``out(gelu(A + C + S))``: A is a linear map of the pitch classes
    ahead, transposed down by c; C is an embedding of the chord, by its quality and by the interval
    from its root up to c; S is a linear map of x. ``out`` begins at zero.
    """

    def __init__(self, width: int, qualities: int, count: int) -> None:
        super().__init__()
        self.ahead = nn.Linear(STRETCHES * CLASSES, HIDDEN)
        self.chord = nn.Parameter(torch.zeros(qualities * (CLASSES + 1), HIDDEN))
        self.state = nn.Parameter(torch.zeros(HIDDEN, width))
        self.out = nn.Parameter(torch.zeros(count, HIDDEN))

    def forward(self, x: Tensor, ahead: Tensor, root: Tensor, quality: Tensor) -> Tensor:
        """(n, 12, count) for states x (n, width), ahead (n, STRETCHES * CLASSES), root, quality
        (n,) of the chord in force."""
        notes = torch.arange(CLASSES, device=x.device)
        upwards = ahead.unflatten(-1, (STRETCHES, CLASSES))[..., (notes[:, None] + notes) % CLASSES]
        interval = torch.where(
            (root == NO_ROOT)[:, None], CLASSES, (notes - root[:, None]) % CLASSES
        )
        chord = F.embedding(quality[:, None] * (CLASSES + 1) + interval, self.chord)
        h = (
            self.ahead(upwards.transpose(1, 2).flatten(2))
            + chord
            + F.linear(x, self.state)[:, None]
        )
        return F.linear(F.gelu(h), self.out).float()


class Harmony(GroupFeature):
    """Embeddings and scores of the chord in force and of given notes ahead.

    is_chord    (size,) whether an id is the part of a chord
    steps       (size,) the length of a note in steps, at most ``LONGEST``; 0 for other ids
    quality_of  (size,) the quality of a chord; 0 for other ids
    pitch_class  (pitches,) the pitch class of each pitch

    All parameters begin at zero, or so that they have no effect.
    """

    name = "harmony"
    further = (KNOWN, "length", "quality")
    random_when_added = ("of_chord.ahead.weight", "of_note.ahead.weight")

    def __init__(self, size: int, width: int, **kinds: list[list[int]]) -> None:
        super().__init__(size, **kinds)
        self.roots = slice(kinds["root"][0][0], kinds["root"][0][0] + CLASSES)
        self.qualities, self.pitches = (slice(*kinds[n][0][:2]) for n in ("quality", "pitch"))
        self.register_tables(
            is_chord=ranges("harmony", size, kinds["harmony"], -1) >= 0,
            steps=ranges("length", size, kinds["length"], 0).clamp(max=LONGEST),
            quality_of=ranges("quality", size, kinds["quality"], 0),
            pitch_class=self.tone[self.pitches] % CLASSES,
        )
        count = self.qualities.stop - self.qualities.start
        self.classes = nn.Parameter(torch.zeros(STRETCHES * CLASSES, width))
        self.chords = nn.Parameter(torch.zeros(count * (CLASSES + 1), width))
        self.of_chord = TransposedMLP(width, count, 1 + count)
        self.of_note = TransposedMLP(width, count, 1)

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> HarmonyState:
        """The state after each of ``ids``; see :meth:`Feature.read`."""
        groups = Groups.read(self, ids, earlier, places)
        rows = groups.rows

        # The last whole chord of the piece; chords are written before the notes at their place.
        begun = self.is_chord[rows[:, :, 2]] & (self.place[rows[:, :, 1]] > 0)
        latest = torch.where(begun & ~groups.other, groups.number, -1).cummax(1).values
        latest = latest.gather(1, groups.last)
        in_force = groups.some & (latest >= groups.begins)
        root = torch.where(in_force, self.tone[at(groups.ids[:, :, 2], latest)], NO_ROOT)
        quality = torch.where(in_force, self.quality_of[at(groups.ids[:, :, 3], latest)], 0)

        pitched = self._pitched(rows)
        following, rising = torch.zeros_like(rows), torch.full_like(rows, NO_ROOT)
        following[:, :, 2] = torch.where(begun, ROOT, torch.where(pitched, PITCH, OTHER))
        following[:, :, 3] = torch.where(begun, QUALITY, OTHER)
        rising[:, :, 3] = torch.where(begun, self.tone[rows[:, :, 3]], NO_ROOT)
        wide = (each[:, :, None].expand(-1, -1, SIZE) for each in (root, quality))
        return HarmonyState(*groups.of_new_ids(self._ahead(groups), *wide, rising, following))

    def _pitched(self, rows: Tensor) -> Tensor:
        """(B, n): whether the group of each of the ``rows`` (B, n, 5) is a note with a pitch."""
        part = self.part[rows[:, :, 2]]
        return (self.place[rows[:, :, 1]] > 0) & (part > 0) & (part != DRUM_PART)

    def _ahead(self, groups: Groups) -> Tensor:
        """(B, n, 5, STRETCHES * CLASSES): see :class:`HarmonyState`."""
        rows, number, last = groups.rows, groups.number, groups.last
        given, bar = groups.given()
        time = self.steps[rows[:, :, 4]] * (groups.ahead & self._pitched(rows))
        time = F.one_hot(self.tone[rows[:, :, 3]] % CLASSES, CLASSES) * time[..., None]
        so_far = F.pad(time.cumsum(1), (0, 0, 1, 0)).float()

        # The place of the next id is that of the last group until the place of the current group is
        # written.
        place = (self.place[rows[:, :, 1]] - 1).clamp(min=0)
        before = groups.some & ~groups.other.gather(1, last)
        before = torch.where(before, place.gather(1, last), 0)
        bar = torch.stack([bar, bar + groups.is_line], 2)
        half = torch.stack([before, place], 2) // HALF
        bounds = [
            bar * BAR + (half * HALF + 1) * PLACE,
            bar * BAR + ((half + 1) * HALF + 1) * PLACE,
            (bar + 1) * BAR,
            (bar + 2) * BAR,
        ]
        bounds[1] = torch.minimum(bounds[1], bounds[2])
        sought = torch.stack(bounds, 3)
        index = torch.searchsorted(given, sought.flatten(1)).view_as(sought)
        index = torch.minimum(index, number[..., None, None])  # no groups after this row

        def sums(index: Tensor) -> Tensor:
            """(B, ..., CLASSES): the time of the given notes among the groups before ``index``."""
            wide = index.flatten(1)[..., None].expand(-1, -1, CLASSES)
            return so_far.gather(1, wide).view(*index.shape, CLASSES)

        every = (sums(number) - sums(groups.begins))[:, :, None, None].expand(-1, -1, 2, -1, -1)
        share = torch.cat([sums(index).diff(dim=3), every], 3)
        share = (share / share.sum(-1, keepdim=True).clamp(min=1.0)).flatten(3)
        return torch.cat([share[:, :, :1], share[:, :, 1:].expand(-1, -1, SIZE - 1, -1)], 2)

    def embed(self, x: Tensor, seen: HarmonyState) -> Tensor:
        """``x`` (B, T, width) plus the vectors of the chord in force and of given notes ahead."""
        chord = F.embedding(seen.quality * (CLASSES + 1) + seen.root, self.chords)
        return x + (seen.ahead @ self.classes + chord).to(x.dtype)

    def score(self, logits: Tensor, x: Tensor, seen: HarmonyState) -> Tensor:
        """``logits`` (B, T, vocab) plus the scores of roots, qualities and pitches."""
        logits = logits.clone()

        def outputs(network: TransposedMLP, where: Tensor) -> Tensor:
            return network(x[where], seen.ahead[where], seen.root[where], seen.quality[where])

        def add(where: Tensor, ids: slice, scores: Tensor) -> None:
            rows = logits[where]
            rows[:, ids] += scores
            logits[where] = rows

        root, note = seen.next == ROOT, seen.next == PITCH
        add(root, self.roots, outputs(self.of_chord, root)[..., 0])
        chord = (seen.next == QUALITY) & (seen.begun != NO_ROOT)
        begun = seen.begun[chord][:, None, None].expand(-1, 1, self.of_chord.out.shape[0])
        add(chord, self.qualities, outputs(self.of_chord, chord).gather(1, begun)[:, 0, 1:])
        add(note, self.pitches, outputs(self.of_note, note)[:, self.pitch_class, 0])
        return logits

    def native(self) -> NativeForm:
        networks = {"of_chord": self.of_chord, "of_note": self.of_note}
        weights: dict[str, Tensor] = {}
        for name, network in networks.items():
            each = {"ahead": network.ahead.weight, "bias": network.ahead.bias}
            each |= {"chord": network.chord, "out": network.out}
            weights |= {f"{name}_{of}": weight for of, weight in each.items()}
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
