"""The continuation of repeated motifs (the feature ``echoes``), in tokens of events.

Music repeats motifs, and a small network rarely attends to the earlier place. This feature looks
for the longest run of pitches that ends with the last note and occurred earlier in the piece, and
gives what followed there: the pitch, how many steps from now it would come, and its loudness.
Learned weights by the length of the run raise the logits of these three tokens.

Related: :mod:`musictx.chorale`'s ``repeats`` on a grid, ``bars`` for music in bars, the neural
cache (Grave et al. 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.model.features.base import NativeForm, event_arguments
from musictx.model.features.pitches import TIMES, class_of, history, time_classes
from musictx.model.features.predicted import Predicted, Predictions
from musictx.tokens.tokenizer import Tokenizer

#: The lengths, in notes, with which the classes of runs begin; class 0: a shorter run, or none.
LENGTHS = (3, 4, 6, 8, 12, 16, 32)
CLASSES = len(LENGTHS) + 1
#: Longer runs count as this long; runs are searched so many notes back.
MOST_NOTES, FARTHEST = 32, 1024
#: More than there are pitches.
PITCHES = 256


@dataclass
class MotifState(Predictions):
    """Three ids after each of (B, T) tokens, of the pitch that followed, of the time until it, and
    of its loudness, each with the class of the run's length; and what they stand for, all int64.

    pitch  (B, T): the pitch that followed, counted from the lowest
    steps  (B, T): until it would follow, 0 if it is due or overdue
    level  (B, T): the level of loudness, 0 where none was set
    """

    pitch: Tensor
    steps: Tensor
    level: Tensor


class MotifMemory(Predicted):
    """Embeddings and scores of what followed the last time.

    size      how many ids there are
    steps, starts, loudness   ranges of ids as in ``coordinates.ranges``: the time they take, the
              pitch that they strike, the loudness that they set for what follows

    Everything begins at zero.
    """

    name = "echoes"
    classes = CLASSES

    def __init__(
        self,
        size: int,
        width: int,
        *,
        steps: list[list[int]],
        starts: list[list[int]],
        loudness: list[list[int]],
    ) -> None:
        super().__init__()
        begun, time = ranges("starts", size, starts, -1), ranges("steps", size, steps, 0)
        loud = ranges("loudness", size, loudness, 0)
        self.low = int(begun[begun >= 0].min())
        self.pitches, self.levels = int(begun.max()) - self.low + 1, int(loud.max()) + 1
        self.most_steps = int(time.max())
        self.register_tables(
            steps=time,
            starts=torch.where(begun >= 0, begun - self.low, -1),
            loud=loud,
            time_class=time_classes(),
            edges=torch.tensor(LENGTHS),
            # The id of each pitch, number of steps and level; 0 where there is none.
            on_id=_inverse(begun - self.low, self.pitches),
            step_id=_inverse(time, self.most_steps + 1),
            loud_id=_inverse(loud, self.levels),
        )
        self.in_length = nn.Parameter(torch.zeros(CLASSES, width))
        self.in_pitch = nn.Parameter(torch.zeros(self.pitches, width))
        self.in_steps = nn.Parameter(torch.zeros(TIMES, width))
        self.in_level = nn.Parameter(torch.zeros(self.levels, width))
        self.scores = nn.Parameter(torch.zeros(3 * CLASSES, width))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        events = event_arguments(tokenizer, cls.name)
        return {name: events[name] for name in ("steps", "starts", "loudness")}

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> MotifState:
        """The match after each of ``ids``; see :meth:`Feature.read`."""
        every, index, begins, new = history(ids, earlier, places)
        time, level = self.steps[every].cumsum(1), self.loud[every]
        set_at = torch.where(level > 0, index, 0).cummax(1).values
        level = level.gather(1, set_at) * (set_at >= begins)

        # The notes in their order: column n is note number n, and column 0 is none.
        struck = self.starts[every] >= 0
        number = struck.cumsum(1)
        # Reading the number of notes would wait for the GPU, and torch.export cannot read it: in
        # both cases there are as many columns as there may be notes.
        unseen = ids.is_cuda or torch.compiler.is_exporting()
        most = number.shape[1] + 1 if unseen else int(number[:, -1].max()) + 1
        at = index.new_zeros(len(every), most)
        at.scatter_(1, torch.where(struck, number, 0), index)
        pitch, begun = self.starts[every].gather(1, at), begins.gather(1, at)
        pitch = torch.where(at >= begun, pitch, -1)
        pitch[:, 0] = -1
        run, lag = _longest_runs(pitch, begun)

        last = number[:, new]
        in_piece = (last > 0) & (at.gather(1, last) >= begins[:, new])
        length = torch.bucketize(run.gather(1, last), self.edges, right=True) * in_piece
        next_note = (last + 1 - lag.gather(1, last)).clamp(min=0)
        when = time.gather(1, at)
        gap = when.gather(1, next_note) - when.gather(1, (next_note - 1).clamp(min=0))
        left = (gap - (time[:, new] - when.gather(1, last))).clamp(min=0)
        exists = length > 0
        pitch, left = pitch.gather(1, next_note) * exists, left * exists
        level = level.gather(1, at).gather(1, next_note) * exists
        time_id = self.step_id[left.clamp(max=self.most_steps)]
        ids = torch.stack([self.on_id[pitch], time_id, self.loud_id[level]], 2)
        trust = length[..., None].expand_as(ids)
        return MotifState(
            ids * exists[..., None], trust, torch.zeros_like(length), pitch, left, level
        )

    def embed(self, x: Tensor, seen: MotifState) -> Tensor:
        """``x`` (B, T, width) and the vectors of what followed."""
        length = seen.trust[..., 0]
        embedded = F.embedding(seen.pitch, self.in_pitch) + F.embedding(seen.level, self.in_level)
        embedded = embedded + F.embedding(class_of(seen.steps, self.time_class), self.in_steps)
        embedded = embedded + F.embedding(length, self.in_length)
        return x + (embedded * (length > 0)[..., None]).to(x.dtype)

    def native(self) -> NativeForm:
        return self.native_form(
            "Echoes",
            "classes steps starts loud time_class on_id step_id loud_id in_length in_pitch "
            "in_steps in_level",
            self.scores,
            longest=self.most_steps,
            times=len(self.time_class),
        )


def _inverse(values: Tensor, count: int) -> Tensor:
    """(count,): the first id that has each value, 0 where none has."""
    ids = torch.zeros(count, dtype=torch.int64)
    for token_id, value in reversed([*enumerate(values.tolist())]):
        if 0 <= value < count:
            ids[value] = token_id
    return ids


def _longest_runs(pitch: Tensor, begun: Tensor) -> tuple[Tensor, Tensor]:
    """For each note (B, n) the length of the longest run of pitches that ends with it and stands
    earlier in the piece too, and how many notes earlier; of equally long ones the latest.

    begun  (B, n): where the piece of each note begins
    """
    count = pitch.shape[1]
    most = min(count, FARTHEST)
    # One number for pitch and piece; a column without a note equals no column before it.
    code = torch.where(pitch >= 0, begun * PITCHES + pitch, -1).int()
    before = F.pad(torch.where(pitch >= 0, code, -2), (most, 0), value=-2)
    same = before.unfold(1, count, 1)[:, :most] == code[:, None]  # lags most, ..., 2, 1
    number = torch.arange(count, device=pitch.device, dtype=torch.int32)
    broken = torch.where(same, -1, number).cummax(2).values
    run = (number - broken).clamp_(max=MOST_NOTES)
    nearer_first = torch.arange(1, most + 1, device=pitch.device, dtype=torch.int32)[:, None]
    best = torch.add(nearer_first, run, alpha=most + 1).amax(1)
    return best // (most + 1), most + 1 - best % (most + 1)
