"""The continuation of repeated motifs (the feature ``echoes``), for event tokens.

Music repeats motifs, but a small network rarely attends to the earlier occurrence. This feature
finds the longest run of pitches that ends with the last note and occurred earlier in the piece. It
predicts the note that followed there: its pitch, the number of steps until its start, and its
loudness. Scores learned for each length of the run are added to the logits of these three ids.

Related: the features ``repeats`` on a grid (:mod:`musictx.chorale`) and ``bars`` for music in bars;
the neural cache (Grave et al. 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import value_table
from musictx.model.features.base import NativeForm, PredictionFeature, Predictions, event_arguments
from musictx.model.features.pitches import TIMES, class_of, history, time_classes
from musictx.tokens.tokenizer import Tokenizer

#: The shortest run, in notes, of each class from 1 on; class 0: a shorter run, or none.
LENGTHS = (3, 4, 6, 8, 12, 16, 32)
CLASSES = len(LENGTHS) + 1
#: The length as which longer runs count; by how many notes at most the earlier run precedes.
MOST_NOTES, FARTHEST = 32, 1024
#: A factor above any pitch, to encode a piece and a pitch as one number.
PITCHES = 256


@dataclass
class MotifState(Predictions):
    """The note predicted after each of (B, T) tokens; all int64.

    ``ids`` are those of its pitch, of the time until its start and of its loudness;
    ``confidence`` is the class of the run's length. All fields are 0 if there is no run.

    pitch  (B, T): its pitch, counted from the lowest
    steps  (B, T): steps until its start, 0 if it is due or overdue
    level  (B, T): its level of loudness, 0 if none was set
    """

    pitch: Tensor
    steps: Tensor
    level: Tensor


class MotifMemory(PredictionFeature):
    """Embeddings and scores of the note that followed the earlier run.

    size      the number of ids
    steps, starts, loudness   ranges of ids as in ``coordinates.value_table``: the time that an id
              takes, the pitch that it starts, the loudness that it sets for the following notes

    All parameters are initially zero.
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
        start, time = value_table("starts", size, starts, -1), value_table("steps", size, steps, 0)
        level = value_table("loudness", size, loudness, 0)
        low = int(start[start >= 0].min())
        self.pitches, self.levels = int(start.max()) - low + 1, int(level.max()) + 1
        self.longest_shift = int(time.max())
        self.register_tables(
            steps=time,
            starts=torch.where(start >= 0, start - low, -1),
            level_of=level,
            time_class=time_classes(),
            lengths=torch.tensor(LENGTHS),
            # The id of each pitch, number of steps and level; 0: none.
            start_id=_inverse(start - low, self.pitches),
            step_id=_inverse(time, self.longest_shift + 1),
            level_id=_inverse(level, self.levels),
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
    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> MotifState:
        all_ids, index, start, new = history(ids, previous_ids, positions)
        time, level = self.steps[all_ids].cumsum(1), self.level_of[all_ids]
        set_at = torch.where(level > 0, index, 0).cummax(1).values
        level = level.gather(1, set_at) * (set_at >= start)

        # The notes in order: column n is note number n, and column 0 is no note.
        is_onset = self.starts[all_ids] >= 0
        number = is_onset.cumsum(1)
        # To read the number of notes would wait for the GPU, and torch.export cannot read it. In
        # both cases there are as many columns as there may be notes.
        is_unknown = ids.is_cuda or torch.compiler.is_exporting()
        columns = 1 + (number.shape[1] if is_unknown else int(number[:, -1].max()))
        onset = index.new_zeros(len(all_ids), columns)
        onset.scatter_(1, torch.where(is_onset, number, 0), index)
        pitch, note_start = self.starts[all_ids].gather(1, onset), start.gather(1, onset)
        pitch = torch.where(onset >= note_start, pitch, -1)
        pitch[:, 0] = -1
        run, lag = _longest_runs(pitch, note_start)

        last = number[:, new]
        in_piece = (last > 0) & (onset.gather(1, last) >= start[:, new])
        length = torch.bucketize(run.gather(1, last), self.lengths, right=True) * in_piece
        predicted = (last + 1 - lag.gather(1, last)).clamp(min=0)  # the note after the earlier run
        onset_time = time.gather(1, onset)
        run_end = (predicted - 1).clamp(min=0)
        gap = onset_time.gather(1, predicted) - onset_time.gather(1, run_end)
        steps = (gap - (time[:, new] - onset_time.gather(1, last))).clamp(min=0)
        exists = length > 0
        pitch, steps = pitch.gather(1, predicted) * exists, steps * exists
        level = level.gather(1, onset).gather(1, predicted) * exists
        step_id = self.step_id[steps.clamp(max=self.longest_shift)]
        ids = torch.stack([self.start_id[pitch], step_id, self.level_id[level]], 2)
        ids, confidence = ids * exists[..., None], length[..., None].expand_as(ids)
        return MotifState(ids, confidence, torch.zeros_like(length), pitch, steps, level)

    def embed(self, x: Tensor, state: MotifState) -> Tensor:
        length = state.confidence[..., 0]
        embedded = F.embedding(state.pitch, self.in_pitch) + F.embedding(state.level, self.in_level)
        embedded = embedded + F.embedding(class_of(state.steps, self.time_class), self.in_steps)
        embedded = embedded + F.embedding(length, self.in_length)
        return x + (embedded * (length > 0)[..., None]).to(x.dtype)

    def native(self) -> NativeForm:
        return self.native_form(
            "Echoes",
            "classes steps starts level_of time_class start_id step_id level_id in_length in_pitch "
            "in_steps in_level",
            self.scores,
            longest=self.longest_shift,
            times=len(self.time_class),
        )


def _inverse(values: Tensor, count: int) -> Tensor:
    """Return the first id of each of the values 0, ..., count - 1; 0: none."""
    ids = torch.zeros(count, dtype=torch.int64)
    for token_id, value in reversed([*enumerate(values.tolist())]):
        if 0 <= value < count:
            ids[value] = token_id
    return ids


def _longest_runs(pitch: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Return, for each note, the length of the longest run of pitches that ends with it and also
    occurs before in the piece, and the lag, how many notes before: (B, n) each. Of equally long
    runs the latest counts.

    pitch  (B, n): the pitch of each note, -1 for columns without a note
    start  (B, n): the index at which the piece of each note begins
    """
    count = pitch.shape[1]
    lags = min(count, FARTHEST)
    # One number for pitch and piece. Columns without a note equal no earlier column.
    code = torch.where(pitch >= 0, start * PITCHES + pitch, -1).int()
    earlier = F.pad(torch.where(pitch >= 0, code, -2), (lags, 0), value=-2)
    is_same = earlier.unfold(1, count, 1)[:, :lags] == code[:, None]  # for lags, ..., 2, 1
    number = torch.arange(count, device=pitch.device, dtype=torch.int32)
    last_mismatch = torch.where(is_same, -1, number).cummax(2).values
    run = (number - last_mismatch).clamp_(max=MOST_NOTES)
    # One number for run and lag: the longest run, then the smallest lag, is the largest.
    rank = torch.arange(1, lags + 1, device=pitch.device, dtype=torch.int32)[:, None]
    best = torch.add(rank, run, alpha=lags + 1).amax(1)
    return best // (lags + 1), lags + 1 - best % (lags + 1)
