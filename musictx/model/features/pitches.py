"""Base of the features with a state of every pitch: tables of ids, sums and scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.model.features.base import Feature, NativeForm, joined

#: Classes of times in steps: one each below 16, then six an octave.
TIMES = 64
NEVER = 1 << 20


class PitchFeature(Feature):
    """A feature with a state for each pitch, by which the next start or end of a note is scored.

    size      how many ids there are
    steps, starts, ends   ranges of ids as in ``coordinates.ranges``: the time that they take, and
              the pitch that they strike or end
    chords    how many learned weightings of intervals there are; a candidate's score is their sum,
              each weighted by a map of ``x``

    The tables of these names have an entry for each id; pitches are counted from the lowest, -1 is
    none.
    """

    sparse = False
    random_when_added = ("interval_maps",)
    #: The kind of each state, -1 for none: starts are scored by their intervals to pitches of each
    #: kind.
    interval_kinds: tuple[int, ...]

    def __init__(
        self,
        size: int,
        width: int,
        *,
        steps: list[list[int]],
        starts: list[list[int]],
        ends: list[list[int]],
        chords: int = 0,
    ) -> None:
        super().__init__()
        begun, ended = ranges("starts", size, starts, -1), ranges("ends", size, ends, -1)
        low = int(begun[begun >= 0].min())
        self.pitches = count = int(begun.max()) - low + 1
        starts_at = torch.where(begun >= 0, begun - low, -1)
        ends_at = torch.where((ended >= low) & (ended <= begun.max()), ended - low, -1)
        # The index of each id in a row of the starts of all pitches, their ends, and a zero.
        candidates = torch.where(ends_at >= 0, count + ends_at, 2 * count)
        kinds = max(self.interval_kinds) + 1
        self.register_tables(
            steps=ranges("steps", size, steps, 0),
            starts=starts_at,
            ends=ends_at,
            time_class=time_classes(),
            apart=torch.arange(count) - torch.arange(count)[:, None] + count - 1,
            candidates=torch.where(starts_at >= 0, starts_at, candidates),
            kind=torch.eye(kinds + 1)[torch.tensor((-1, *self.interval_kinds)), :-1],
        )
        self.interval_maps = None
        if chords:
            self.interval_maps = nn.Parameter(
                0.1 * torch.randn(kinds, chords, 2 * self.pitches - 1)
            )
            self.interval_scores = nn.Parameter(torch.zeros(chords, width))

    def embed_states(self, x: Tensor, states: Tensor, table: Tensor) -> Tensor:
        """``x`` (B, T, width) plus the vector of the state of each pitch.

        states  (B, T, pitches): 0 for no state, else 1 + the state
        table   (pitches * states, width)
        """
        kind = precision(x)
        count = 1 + len(table) // self.pitches
        hot = torch.eye(count, dtype=kind, device=x.device)[:, 1:]
        return x + F.embedding(states, hot).flatten(2) @ table.to(kind)

    def score_states(
        self, logits: Tensor, x: Tensor, weights: Sequence[Tensor], states: Sequence[Tensor]
    ) -> Tensor:
        """``logits`` (B, T, vocab) plus, for the start of each pitch and for its end, the weight of
        its state; a start also counts its intervals to the pitches with a state of starts.

        weights  of starts and of ends: (B, T, states) each
        states   (B, T, pitches) each, as in :meth:`embed_states`
        """
        starts, ends = (F.pad(w, (1, 0)).gather(-1, s.long()) for w, s in zip(weights, states))
        if self.interval_maps is not None:
            kinds = F.embedding(states[0], self.kind.to(precision(x)))
            starts = starts + self._by_interval(x, kinds, self.interval_maps)
        both = F.pad(torch.cat([starts, ends], -1), (0, 1))
        return logits + both.index_select(-1, self.candidates)

    def _by_interval(self, x: Tensor, kinds: Tensor, maps: Tensor) -> Tensor:
        """float32 (B, T, pitches): each pitch by its intervals to others, weighted by ``x``.

        kinds  (B, T, pitches, kinds) in {0, 1}: of which kind the other pitches are
        maps   (kinds, chords, 2 pitches - 1): a number for each interval
        """
        maps = maps.to(kinds.dtype)[:, :, self.apart]  # (kinds, chords, pitches, pitches)
        made = kinds.flatten(2) @ maps.permute(2, 0, 1, 3).flatten(2).flatten(0, 1)
        made = made.unflatten(-1, (len(self.interval_scores), self.pitches))
        weights = F.linear(x, self.interval_scores)[:, :, None]
        return (weights.to(kinds.dtype) @ made).float()[:, :, 0]

    def pitch_form(
        self, struct: str, attributes: str, scores: Sequence[Tensor], **others: int
    ) -> NativeForm:
        """The form of a ``struct`` derived from ``PitchFeature`` of pitches.h; the arguments as of
        :meth:`native_form`. ``scores`` precede those of intervals."""
        maps = self.interval_maps
        kinds, chords = (0, 0) if maps is None else maps.shape[:2]
        return self.native_form(
            struct,
            "steps starts ends candidates time_class",
            torch.cat([*scores, *([] if maps is None else [self.interval_scores])]),
            kind_of=(-1, *self.interval_kinds),
            maps=maps,
            pitches=self.pitches,
            kinds=kinds,
            chords=chords,
            longest=len(self.time_class),
            **{name: getattr(self, name) for name in attributes.split()},
            **others,
        )


def history(ids: Tensor, earlier: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor, slice]:
    """All ids, the index of each and the index at which its piece begins, (B, N) each, and the
    slice of ``ids`` among all."""
    every, place = joined(ids, earlier, places)
    index = torch.arange(every.shape[1], device=ids.device).expand_as(every)
    # Id 0 does nothing.
    return every.clamp(min=0), index, (index - place).clamp(min=0), slice(earlier.shape[1], None)


def time_classes() -> Tensor:
    """The class of a time in steps; from the last entry on, always the same."""
    steps = torch.arange(1, 16 << 8)
    octaves = (16 + 6 * (steps.float().log2() - 4)).long().clamp(max=TIMES - 1)
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.where(steps < 16, steps, octaves)])


def class_of(time: Tensor, classes: Tensor) -> Tensor:
    """The class of each ``time`` in steps, by a table that :func:`time_classes` gives."""
    return classes[time.clamp(max=len(classes) - 1)]


def latest(pitch: Tensor, value: Tensor, pitches: int, new: slice) -> Tensor:
    """Return the last ``value`` (B, N) at each pitch up to each of the ``new`` tokens, 0 for none:
    int32 (B, T, pitches). Values never decrease; ``pitch`` (B, N) is -1 for no pitch."""
    rows, total = pitch.shape
    column = torch.where(pitch >= 0, pitch, pitches)  # the last column is dropped at the end
    # Tokens are the last dimension, along which a GPU computes cummax in parallel.
    mark = value.new_zeros(rows, pitches + 1, total - new.start)
    mark.scatter_(1, column[:, None, new], value[:, None, new])
    if new.start:
        before = value.new_zeros(rows, pitches + 1)
        before.scatter_reduce_(1, column[:, : new.start], value[:, : new.start], "amax")
        mark[:, :, 0] = torch.maximum(mark[:, :, 0], before)
    return mark.cummax(2).values[:, :-1].transpose(1, 2).contiguous()


def precision(x: Tensor) -> torch.dtype:
    """Return the dtype in which products with ``x`` are computed."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
