"""The chord in force and the pitch classes known ahead: told to the network (tokens/groups.py).

A chord is drawn for a melody that is known ahead, and notes are drawn under a chord. What counts in
both is how far pitch classes lie above a root, whatever the key: learned for each such interval, it
is learned for all twelve keys at once. So each id is told how much of each pitch class is known
ahead of this half of the bar, of the rest of the bar and of the bar after it, and which chord was
written last. Learned numbers by interval say what that is worth to roots, qualities and pitches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.model.features import group_keys as keys
from musictx.model.features.base import Feature, NativeForm
from musictx.model.features.group_keys import BAR, PARTS, TONES, at
from musictx.tokens.bars import STEPS
from musictx.tokens.controls import KNOWN
from musictx.tokens.vocab import Tokenizer

#: Pitch classes, and the root of no chord.
CLASSES, NO_ROOT = 12, 12
#: Stretches of music ahead: this half of the bar, the rest of the bar, the bar after it.
STRETCHES = 3
#: Steps of half a bar, and those of a note that count at most.
HALF = LONGEST = 2 * STEPS
#: What comes next: something else, a root, a quality, a pitch.
OTHER, ROOT, QUALITY, PITCH = range(4)


class Seen(NamedTuple):
    """What is known after each of (B, T) ids.

    ahead    (B, T, STRETCHES * CLASSES): shares of the time of the notes known ahead
    root, quality  (B, T): of the last chord, ``NO_ROOT`` where there is none
    begun    (B, T): the root of the chord that is being written
    next     (B, T): what kind of id comes next
    """

    ahead: Tensor
    root: Tensor
    quality: Tensor
    begun: Tensor
    next: Tensor


class Harmony(Feature):
    """Embeddings and scores of the chord in force and of what is known ahead.

    size  how many ids there are
    harmony, pitch, root, quality, length, meter   ranges of ids as in ``coordinates.ranges``
    kinds   further ones, of ``group_keys.table``

    Everything begins at zero or without effect.
    """

    name = "harmony"
    sparse = False
    place: Tensor
    is_bar: Tensor
    part: Tensor
    tone: Tensor
    is_known: Tensor
    is_meter: Tensor
    is_chord: Tensor
    steps: Tensor
    quality_of: Tensor
    pitch_class: Tensor
    above: Tensor

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        found = keys.kinds(tokenizer, cls.name, KNOWN, "length", "quality")
        del found["section"]
        return found

    @classmethod
    def why_not(cls, arguments: Mapping[str, Any], stored: Sequence[int], size: int) -> str | None:
        return keys.why_not(arguments, size)

    def __init__(
        self,
        size: int,
        width: int,
        *,
        harmony: list[list[int]],
        pitch: list[list[int]],
        root: list[list[int]],
        quality: list[list[int]],
        length: list[list[int]],
        meter: list[list[int]],
        **kinds: list[list[int]],
    ) -> None:
        super().__init__()
        of_pitch = ranges("pitch", size, pitch, -1)
        self.roots = slice(root[0][0], root[0][0] + CLASSES)
        self.qualities, self.pitches = (slice(*rows[0][:2]) for rows in (quality, pitch))
        notes = torch.arange(CLASSES)
        self.keep(
            **keys.table(size, pitch=pitch, root=root, **kinds)._asdict(),
            is_meter=ranges("meter", size, meter, -1) >= 0,
            is_chord=ranges("harmony", size, harmony, -1) >= 0,
            steps=ranges("length", size, length, 0).clamp(max=LONGEST),
            quality_of=ranges("quality", size, quality, 0),
            pitch_class=of_pitch[self.pitches] % CLASSES,
            above=(notes[:, None] - notes) % CLASSES,
        )
        count = self.qualities.stop - self.qualities.start
        self.classes = nn.Parameter(torch.zeros(STRETCHES * CLASSES, width))
        self.chords = nn.Parameter(torch.zeros(count * (CLASSES + 1), width))
        self.root_by_ahead = nn.Parameter(torch.zeros(STRETCHES, CLASSES))
        self.quality_by_ahead = nn.Parameter(torch.zeros(STRETCHES * CLASSES, count))
        self.pitch_by_ahead = nn.Parameter(torch.zeros(STRETCHES, CLASSES))
        self.root_by_chord = nn.Parameter(torch.zeros(count, CLASSES))
        self.pitch_by_chord = nn.Parameter(torch.zeros(count, CLASSES))
        self.worth = nn.Parameter(torch.zeros(2, width))

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Seen:
        """What is known after each of ``ids``; see :meth:`Feature.read` and :class:`Bars`."""
        laid = keys.rows(ids, earlier, places)
        rows, number, begins = laid.ids, laid.number, laid.begins
        of = keys.Table(self.place, self.is_bar, self.part, self.tone, self.is_known)
        groups = keys.groups(rows, of)
        last, some = (number - 1).clamp(min=0), number > begins

        # The last whole chord of the piece; chords are written before the notes at their place.
        begun = self.is_chord[rows[:, :, 2]]
        latest = torch.where(begun & ~groups.other, number, -1).cummax(1).values.gather(1, last)
        in_force = some & (latest >= begins)
        chord = at(groups.ids[:, :, 2], latest), at(groups.ids[:, :, 3], latest)
        root = torch.where(in_force, self.tone[chord[0]], NO_ROOT)
        quality = torch.where(in_force, self.quality_of[chord[1]], 0)

        pitched = self._pitched(rows)
        following, rising = torch.zeros_like(rows), torch.zeros_like(rows)
        following[:, :, 2] = torch.where(begun, ROOT, torch.where(pitched, PITCH, OTHER))
        following[:, :, 3] = torch.where(begun, QUALITY, OTHER)
        rising[:, :, 3] = self.tone[rows[:, :, 3]]
        wide = (each[:, :, None].expand(-1, -1, keys.SIZE) for each in (root, quality))
        ahead = self._ahead(rows, groups, of, number, begins)
        every = (each.flatten(1, 2)[:, laid.new] for each in (ahead, *wide, rising, following))
        return Seen(*every)

    def _pitched(self, rows: Tensor) -> Tensor:
        """(B, n): whether the group of each of the ``rows`` (B, n, 5) is a note with a pitch."""
        part = self.part[rows[:, :, 2]]
        return (self.place[rows[:, :, 1]] > 0) & (part > 0) & (part != keys.DRUM_PART)

    def _ahead(
        self, rows: Tensor, groups: keys.Groups, of: keys.Table, number: Tensor, begins: Tensor
    ) -> Tensor:
        """(B, n, 5, STRETCHES * CLASSES): see :class:`Seen`."""
        piece = (number == begins).cumsum(1) * keys.NEXT_PIECE
        written = piece + groups.bar
        known = keys.known(rows, groups, written, of, self.is_meter)
        time = self.steps[rows[:, :, 4]] * (groups.ahead & self._pitched(rows))
        time = F.one_hot(self.tone[rows[:, :, 3]] % CLASSES, CLASSES) * time[..., None]
        so_far = F.pad(time.cumsum(1), (0, 0, 1, 0)).float()

        # Where the next id stands: after the last group, and once its place is known, there.
        last, some = (number - 1).clamp(min=0), number > begins
        lines = self.is_bar[rows[:, :, 1]]
        bar = torch.where(some, written.gather(1, last), piece + groups.bar - lines.long())
        place = (self.place[rows[:, :, 1]] - 1).clamp(min=0)
        before = torch.where(some & ~groups.other.gather(1, last), place.gather(1, last), 0)
        bar = torch.stack([bar, bar + lines], 2)
        half = torch.stack([before, place], 2) // HALF
        at_place = PARTS * TONES
        bounds = [
            bar * BAR + (half * HALF + 1) * at_place,
            bar * BAR + ((half + 1) * HALF + 1) * at_place,
            (bar + 1) * BAR,
            (bar + 2) * BAR,
        ]
        bounds[1] = torch.minimum(bounds[1], bounds[2])
        sought = torch.stack(bounds, 3)
        found = torch.searchsorted(known, sought.flatten(1)).view_as(sought)
        found = torch.minimum(found, number[..., None, None])  # nothing that comes later
        wide = found.flatten(1)[..., None].expand(-1, -1, CLASSES)
        total = so_far.gather(1, wide).view(*found.shape, CLASSES)
        share = total.diff(dim=3)
        share = share / share.sum(-1, keepdim=True).clamp(min=1.0)
        share = share.flatten(3)
        return torch.cat([share[:, :, :1], share[:, :, 1:].expand(-1, -1, keys.SIZE - 1, -1)], 2)

    def embed(self, x: Tensor, seen: Seen) -> Tensor:
        """``x`` (B, T, width) and the vectors of the chord in force and of what is known ahead."""
        chord = F.embedding(seen.quality * (CLASSES + 1) + seen.root, self.chords)
        return x + (seen.ahead @ self.classes + chord).to(x.dtype)

    def score(self, logits: Tensor, x: Tensor, seen: Seen) -> Tensor:
        """``logits`` (B, T, vocab) and what they add to those of roots, qualities and pitches."""
        ahead, chord = (1.0 + F.linear(x, self.worth).float()).split(1, -1)
        above, keyless = self.above, (seen.root == NO_ROOT)[..., None]

        def by_ahead(table: Tensor) -> Tensor:
            return ahead * (seen.ahead @ table.float()[:, above].flatten(0, 1))

        def by_chord(table: Tensor) -> Tensor:
            rows = table.float()[seen.quality]
            found = rows.gather(-1, above[:, seen.root % CLASSES].movedim(0, -1))
            return chord * found.masked_fill(keyless, 0.0)

        root = by_ahead(self.root_by_ahead) + by_chord(self.root_by_chord)
        pitch = by_ahead(self.pitch_by_ahead) + by_chord(self.pitch_by_chord)
        raised = above[:, seen.begun % CLASSES].movedim(0, -1)  # of each class above that root
        share = seen.ahead.unflatten(-1, (STRETCHES, CLASSES))
        turned = torch.zeros_like(share).scatter(-1, raised[..., None, :].expand_as(share), share)
        quality = ahead * (turned.flatten(-2) @ self.quality_by_ahead.float())
        added = torch.zeros_like(logits)
        added[..., self.roots] = root * (seen.next == ROOT)[..., None]
        chords = (seen.next == QUALITY) & (seen.begun != NO_ROOT)
        added[..., self.qualities] = quality * chords[..., None]
        by_pitch = pitch[..., self.pitch_class]
        added[..., self.pitches] = by_pitch * (seen.next == PITCH)[..., None]
        return logits + added

    def native(self) -> NativeForm:
        by_id = (*keys.Table._fields, "is_meter", "is_chord", "steps", "quality_of", "pitch_class")
        learned = ("classes", "chords", "root_by_ahead", "quality_by_ahead", "pitch_by_ahead")
        by_chord = ("root_by_chord", "pitch_by_chord")
        return NativeForm(
            Path(__file__).with_name("harmony.h"),
            "Harmony",
            {
                **{name: getattr(self, name) for name in (*by_id, *learned, *by_chord)},
                "first_root": self.roots.start,
                "first_quality": self.qualities.start,
                "qualities": self.qualities.stop - self.qualities.start,
                "first_pitch": self.pitches.start,
                "pitches": len(self.pitch_class),
            },
            scores=self.worth,
        )
