"""Base of the features with a state of every pitch: tables of ids, sums and scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.model.features.base import Feature

#: Classes of times in steps: one each below 16, then six an octave.
TIMES = 64
NEVER = 1 << 20


class PitchFeature(Feature):
    """A feature with a state for each pitch, by which the next start or end of a note is scored."""

    sparse = False
    random_when_added = ("interval_maps",)
    steps: Tensor
    starts: Tensor
    ends: Tensor
    time_class: Tensor
    apart: Tensor
    candidates: Tensor

    def __init__(
        self,
        size: int,
        width: int,
        *,
        steps: list[list[int]],
        starts: list[list[int]],
        ends: list[list[int]],
        kinds: int,
        chords: int,
    ) -> None:
        """Tables by id (n = ``size``): ``steps``, and of ``starts`` and ``ends`` the pitch, counted
        from the lowest, or -1; with ``chords``, that many learned weightings of intervals to each
        of so many ``kinds`` of pitches."""
        super().__init__()
        begun, ended = ranges("starts", size, starts, -1), ranges("ends", size, ends, -1)
        low = int(begun[begun >= 0].min())
        self.pitches = count = int(begun.max()) - low + 1
        starts_at = torch.where(begun >= 0, begun - low, -1)
        ends_at = torch.where((ended >= low) & (ended <= begun.max()), ended - low, -1)
        # The index of each id in a row of the starts of all pitches, their ends, and a zero.
        candidates = torch.where(ends_at >= 0, count + ends_at, 2 * count)
        self.register_tables(
            steps=ranges("steps", size, steps, 0),
            starts=starts_at,
            ends=ends_at,
            time_class=time_classes(),
            apart=torch.arange(count) - torch.arange(count)[:, None] + count - 1,
            candidates=torch.where(starts_at >= 0, starts_at, candidates),
        )
        self.interval_maps = None
        if chords:
            self.interval_maps = nn.Parameter(
                0.1 * torch.randn(kinds, chords, 2 * self.pitches - 1)
            )
            self.interval_scores = nn.Parameter(torch.zeros(chords, width))

    def history(
        self, ids: Tensor, earlier: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, slice]:
        """(all ids (B, N), the index of each, where the piece of each of ``ids`` begins (B, T),
        which are ``ids``)."""
        every = torch.cat([earlier, ids], dim=1).clamp(min=0)  # id 0 does nothing
        new = slice(earlier.shape[1], None)
        index = torch.arange(every.shape[1], device=ids.device).expand_as(every)
        return every, index, (index[:, new] - places).clamp(min=0), new

    def with_chords(self, *scores: Tensor) -> Tensor:
        """(numbers, width): all that ``x`` is multiplied with, the weightings of intervals last."""
        return torch.cat([*scores, *([] if self.interval_maps is None else [self.interval_scores])])

    def add(self, logits: Tensor, x: Tensor, starts: Tensor, ends: Tensor, kinds: Tensor) -> Tensor:
        """``logits`` (B, T, vocab) and, for the starts and ends of notes, ``starts`` and ``ends``
        (B, T, pitches); a start is scored by its intervals too, to the pitches of each of
        ``kinds`` (B, T, pitches, kinds)."""
        if self.interval_maps is not None:
            maps, queries = self.interval_maps, self.interval_scores
            starts = starts + by_interval(x, kinds, maps, queries, self.apart)
        both = F.pad(torch.cat([starts, ends], -1), (0, 1))
        return logits + both.index_select(-1, self.candidates)


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


def of_states(weights: Tensor, states: Tensor) -> Tensor:
    """Return the weight of the state of each pitch, 0 for state 0: (B, T, pitches); ``weights`` are
    (B, T, states)."""
    return F.pad(weights, (1, 0)).gather(-1, states.long())


def by_interval(x: Tensor, kinds: Tensor, maps: Tensor, queries: Tensor, apart: Tensor) -> Tensor:
    """float32 (B, T, pitches): each pitch by its intervals to others, weighted by ``x``.

    x      (B, T, width);  queries  (chords, width): map x to a weight of each map of intervals
    kinds  (B, T, pitches, kinds) in {0, 1}: of which kind the other pitches are
    maps   (kinds, chords, 2 pitches - 1): a number for each interval
    apart  (from, to): the index of the interval from one pitch to another
    """
    maps = maps.to(kinds.dtype)[:, :, apart]  # (kinds, chords, pitches, pitches)
    made = kinds.flatten(2) @ maps.permute(2, 0, 1, 3).flatten(2).flatten(0, 1)
    made = made.unflatten(-1, (len(queries), len(apart)))
    weights = F.linear(x, queries)[:, :, None]
    return (weights.to(kinds.dtype) @ made).float()[:, :, 0]
