"""The base class of features that compute a state for every pitch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import value_table
from musictx.model.features.base import Feature, NativeForm, join_ids

#: The number of classes of times: one for each step below 16, then six for each doubling.
TIMES = 64
#: The number of steps to or from an event that does not exist; greater than any other.
NEVER = 1 << 20


class PitchFeature(Feature):
    """A feature with a state for each pitch, by which the next start or end of a note is scored.

    size      the number of ids
    steps, starts, ends   ranges of ids as in ``coordinates.value_table``: the time that an id
              takes, and the pitch that it starts or ends
    chords    the number of learned interval profiles. The score of an interval is the sum of their
              entries for it, each profile weighted by a projection of ``x``

    The buffers ``steps``, ``starts`` and ``ends`` have an entry for each id. Their pitches are
    counted from the lowest that can start; -1: the id starts or ends no such pitch.
    """

    sparse = False
    random_when_added = ("interval_maps",)
    #: The kind of each state, which selects the interval profiles; -1: its pitches do not count.
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
        start, end = value_table("starts", size, starts, -1), value_table("ends", size, ends, -1)
        low, high = int(start[start >= 0].min()), int(start.max())
        self.pitches = count = high - low + 1
        start = torch.where(start >= 0, start - low, -1)
        end = torch.where((end >= low) & (end <= high), end - low, -1)
        # The column of each id's score in [starts of all pitches, ends of all pitches, 0].
        end_or_zero = torch.where(end >= 0, count + end, 2 * count)
        kinds = max(self.interval_kinds) + 1
        self.register_tables(
            steps=value_table("steps", size, steps, 0),
            starts=start,
            ends=end,
            time_class=time_classes(),
            interval=torch.arange(count) - torch.arange(count)[:, None] + count - 1,
            candidates=torch.where(start >= 0, start, end_or_zero),
            # One-hot rows by 1 + the state; kind -1 gives zeros.
            kind_one_hot=torch.eye(kinds + 1)[torch.tensor((-1, *self.interval_kinds)), :-1],
        )
        self.interval_maps = None
        if chords:
            self.interval_maps = nn.Parameter(0.1 * torch.randn(kinds, chords, 2 * count - 1))
            self.interval_scores = nn.Parameter(torch.zeros(chords, width))

    def embed_states(self, x: Tensor, states: Tensor, table: Tensor) -> Tensor:
        """``x`` (B, T, width) plus the vector of the state of each pitch.

        states  (B, T, pitches): 0 for no state, else 1 + the state
        table   (pitches * states, width)
        """
        dtype = compute_dtype(x)
        count = 1 + len(table) // self.pitches
        one_hot = torch.eye(count, dtype=dtype, device=x.device)[:, 1:]  # zeros for no state
        return x + F.embedding(states, one_hot).flatten(2) @ table.to(dtype)

    def score_states(
        self, logits: Tensor, x: Tensor, weights: Sequence[Tensor], states: Sequence[Tensor]
    ) -> Tensor:
        """``logits`` (B, T, vocab) plus scores of the ids that start or end a pitch, by the state
        of the pitch. Ids that start it also get the scores of its intervals to other pitches.

        weights  for starts and for ends: (B, T, states) each, the score of each state
        states   for starts and for ends: (B, T, pitches) each, as in :meth:`embed_states`;
                 intervals are to the pitches with a state for starts
        """
        starts, ends = (F.pad(w, (1, 0)).gather(-1, s.long()) for w, s in zip(weights, states))
        if self.interval_maps is not None:
            kinds = F.embedding(states[0], self.kind_one_hot.to(compute_dtype(x)))
            starts = starts + self._interval_scores(x, kinds)
        scores = F.pad(torch.cat([starts, ends], -1), (0, 1))
        return logits + scores.index_select(-1, self.candidates)

    def _interval_scores(self, x: Tensor, kinds: Tensor) -> Tensor:
        """The score of each pitch for its intervals to other pitches: float32 (B, T, pitches).

        kinds  (B, T, pitches, kinds) in {0, 1}: the kinds of the states of the other pitches
        """
        assert self.interval_maps is not None
        maps = self.interval_maps.to(kinds.dtype)[:, :, self.interval]
        maps = maps.permute(2, 0, 1, 3)  # (from pitch, kinds, chords, to pitch)
        sums = kinds.flatten(2) @ maps.flatten(2).flatten(0, 1)
        sums = sums.unflatten(-1, (len(self.interval_scores), self.pitches))  # one for each chord
        weights = F.linear(x, self.interval_scores)[:, :, None]
        return (weights.to(kinds.dtype) @ sums).float()[:, :, 0]

    def pitch_form(
        self, struct: str, attributes: str, scores: Sequence[Tensor], **others: int
    ) -> NativeForm:
        """The native form of a C++ ``struct`` that derives from ``PitchFeature`` (pitches.h). The
        arguments are as in :meth:`native_form`; the weights of intervals follow ``scores``."""
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


def history(
    ids: Tensor, previous_ids: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor, Tensor, slice]:
    """Return all ids, previous and new; the index of each; the index at which its piece begins:
    (B, N) each; and the slice of the new ids. The arguments are those of :meth:`Feature.read`."""
    all_ids, all_positions = join_ids(ids, previous_ids, positions)
    new = slice(previous_ids.shape[1], None)
    index = torch.arange(all_ids.shape[1], device=ids.device).expand_as(all_ids)
    # Missing ids (-1) become id 0, which starts and ends nothing and takes no time.
    return all_ids.clamp(min=0), index, (index - all_positions).clamp(min=0), new


def time_classes() -> Tensor:
    """Return the class of each number of steps; longer times have the class of the last entry."""
    steps = torch.arange(1, 16 << 8)
    longer = (16 + 6 * (steps.float().log2() - 4)).long().clamp(max=TIMES - 1)
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.where(steps < 16, steps, longer)])


def class_of(time: Tensor, classes: Tensor) -> Tensor:
    """Return the class of each ``time`` in steps, by a table such as :func:`time_classes`."""
    return classes[time.clamp(max=len(classes) - 1)]


def latest(pitch: Tensor, value: Tensor, pitches: int, new: slice) -> Tensor:
    """Return the last ``value`` at each pitch up to each of the ``new`` tokens: (B, T, pitches), 0
    for none.

    pitch  (B, N) the pitch of each token, -1 for none
    value  (B, N) the value of each token, at least 0; it must not decrease along a row
    """
    rows, total = pitch.shape
    column = torch.where(pitch >= 0, pitch, pitches)  # the last column is dropped at the end
    # Tokens are the last dimension, along which a GPU computes cummax in parallel.
    values = value.new_zeros(rows, pitches + 1, total - new.start)
    values.scatter_(1, column[:, None, new], value[:, None, new])
    if new.start:
        previous = value.new_zeros(rows, pitches + 1)
        previous.scatter_reduce_(1, column[:, : new.start], value[:, : new.start], "amax")
        values[:, :, 0] = torch.maximum(values[:, :, 0], previous)
    return values.cummax(2).values[:, :-1].transpose(1, 2).contiguous()


def compute_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of matrix products with ``x``: that of autocast, if it is enabled."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
