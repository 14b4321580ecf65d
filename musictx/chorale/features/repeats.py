"""Predict the next note from a repeated passage of the piece.

Music repeats itself, and a model that was trained on little music gives repetitions too little
probability: in chorales a passage that occurred before continues as before in 98.7 % of steps. For
each token, this feature finds the longest passage that ends with it and occurred earlier in the
piece: once for all voices, once for the next voice alone. A learned score is added to the logit of
the note that followed the earlier passage.

Related: the neural cache (Grave et al. 2017), the short-term model of Pearce and Wiggins (2004).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.chorale.features import VoiceFeature, interval_rows, look_up, pitch_span
from musictx.chorale.features.note_ages import run_lengths
from musictx.config.checks import option
from musictx.model.features.base import (
    NativeForm,
    Options,
    PredictionFeature,
    Predictions,
    join_ids,
)

#: The length in steps as which longer passages count.
MOST_STEPS = 64
#: The least number of steps of a passage, and of changes of notes in it (held notes alone do not
#: predict the continuation): for all voices, and for the next voice alone.
SHORTEST = (4, 8)
CHANGES = (4, 3)
#: The number of classes of length: no passage, then 1, 2-3, 4-7, ..., 64 or more steps.
CLASSES = 8


@dataclass
class RepeatState(Predictions):
    """The ids predicted from all voices and from the next voice alone; the class of confidence is
    the class of the passage's length.

    last   (B, T): the id of the last note of the next voice; -1: none
    """

    last: Tensor


@dataclass
class RepeatOptions(Options):
    prefix = "model.features.repeats"

    dropout: float = option(
        0.0, "share of the passages left out in training, against overfitting", low=0, below=1
    )


class Repeats(VoiceFeature, PredictionFeature):
    """Embeddings and scores of the predicted notes.

    dropout   the probability in training that a passage is ignored

    Embeddings, for each of the two passages: a vector of ``lengths`` (2, classes, width) by its
    length, and one of ``intervals`` (2, 2 span + 2, width) by the interval from the last note of
    the next voice to the predicted note. The score is <x, the vector of ``scores`` by the length>.
    """

    name = "repeats"
    classes = CLASSES
    options = RepeatOptions

    def __init__(self, size: int, width: int, *, dropout: float = 0.0, **grid: Any) -> None:
        super().__init__(size, **grid)
        self.dropout = dropout
        self.span = pitch_span(self.pitches)
        std = 0.25 * width**-0.5
        self.lengths = nn.Parameter(torch.randn(2, CLASSES, width) * std)
        self.intervals = nn.Parameter(torch.randn(2, 2 * self.span + 2, width) * std)
        self.scores = nn.Parameter(torch.zeros(2, CLASSES, width))

    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> RepeatState:
        all_ids, all_positions = join_ids(ids, previous_ids, positions)
        count, predicted, confidence = ids.shape[1], [], []
        for one_voice in (False, True):
            next_id, steps = longest_match(
                all_ids, all_positions, self.voices, count, one_voice=one_voice
            )
            if self.training and self.dropout:
                mask = torch.rand(ids.shape, device=ids.device) >= self.dropout
                next_id, steps = next_id * mask, steps * mask
            predicted.append(next_id)
            confidence.append(length_class(steps))
        last = self.last_notes(ids, previous_ids, positions)
        field = torch.zeros_like(ids)
        return RepeatState(torch.stack(predicted, 2), torch.stack(confidence, 2), field, last)

    def embed(self, x: Tensor, state: RepeatState) -> Tensor:
        last_pitch = look_up(self.pitches, state.last)
        row = interval_rows(self.pitches[state.ids], last_pitch[..., None], self.span)
        for n, table in enumerate(self.intervals):
            length = state.confidence[..., n]
            vector = F.embedding(row[..., n], table) * (length > 0)[..., None]
            x = x + (F.embedding(length, self.lengths[n]) + vector).to(x.dtype)
        return x

    def native(self) -> NativeForm:
        return self.native_form(
            "Repeats",
            "classes pitches lengths intervals voices span",
            self.scores.flatten(0, 1),
            most=MOST_STEPS,
            shortest=SHORTEST,
            changes=CHANGES,
        )


def length_class(steps: Tensor) -> Tensor:
    """0 for 0 steps, else 1 + floor(log2(steps)), at most the last class."""
    edges = torch.tensor([2**n for n in range(CLASSES - 1)], device=steps.device)
    return torch.bucketize(steps, edges, right=True)


def longest_match(
    ids: Tensor, positions: Tensor, voices: int, count: int, *, one_voice: bool
) -> tuple[Tensor, Tensor]:
    """Find the longest repeated passage that ends with each of the last ``count`` ``ids`` (B, N).
    Return the id that followed the earlier occurrence, and the number of steps of the passage,
    (B, count) int64 each; both are 0 if no passage is repeated.

    The ids up to an index are compared with those a whole number of steps before them in the same
    piece (``positions`` (B, N) are as in :func:`join_ids`). Of equally long passages the latest
    counts. With ``one_voice`` only ids of the next voice are compared.
    """
    total = ids.shape[1]
    stride, shift = (voices, voices - 1) if one_voice else (1, 0)
    begin = max(total - count - shift - MOST_STEPS * voices, 0)
    lags = torch.arange(1, max(total // voices, 1) + 1, device=ids.device) * voices
    # (lags, n): the index of the earlier id
    earlier = torch.arange(begin, total, device=ids.device) - lags[:, None]
    equal = ids[:, earlier.clamp(min=0)] == ids[:, None, begin:]
    equal &= (positions[:, None, begin:] > lags[:, None]) & (earlier >= 0)
    index = torch.arange(total - count, total, device=ids.device)
    ends = index - shift  # the last index of the passage
    if count == 1:  # while decoding: the run at one index instead of all
        run = _run_length_at(equal, total - 1 - shift - begin, stride)[..., None]
    else:
        run = run_lengths(equal, stride)[..., (ends - begin).clamp(min=0)]
    run = run.clamp(max=MOST_STEPS * voices)
    nearer_first = torch.arange(len(lags), 0, -1, device=ids.device)[:, None]
    best = (run * (len(lags) + 1) + nearer_first).argmax(1)
    length = run.gather(1, best[:, None]).squeeze(1) * (ends >= 0)
    is_change = torch.zeros_like(ids)
    is_change[:, voices:] = ids[:, voices:] != ids[:, :-voices]
    sums = F.pad(_sums(is_change, stride), (stride, 0))  # entry n + stride: up to index n
    last = (ends + stride).clamp(min=0)
    changes = sums[:, last] - sums.gather(1, (last - length).clamp(min=0))
    is_match = (length >= SHORTEST[one_voice] * voices) & (changes >= CHANGES[one_voice])
    following = (index + 1 - lags[best]).clamp(min=0)
    return ids.gather(1, following).clamp(min=0) * is_match, length // voices * is_match


def _run_length_at(mask: Tensor, end: int, stride: int) -> Tensor:
    """(...) int64: :func:`run_lengths` at the index ``end`` alone."""
    backwards = mask[..., : max(end, 0) + 1].flip(-1)[..., ::stride]
    first_false = (~backwards).to(torch.uint8).argmax(-1)
    return torch.where(backwards.all(-1), backwards.shape[-1], first_false) * stride


def _sums(numbers: Tensor, stride: int) -> Tensor:
    """Cumulative sums along ``numbers`` (B, N), each over every ``stride``-th entry only."""
    total = numbers.shape[-1]
    lanes = F.pad(numbers, (0, -total % stride)).unflatten(-1, (-1, stride))
    return lanes.cumsum(-2).flatten(-2)[..., :total]
