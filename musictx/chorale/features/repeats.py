"""The continuation of repeated passages of a piece on a grid.

Music repeats itself, and a model that was trained on little music trusts a repeat less than it
should: in chorales a passage that occurred before continues as before in 98.7 % of steps. This
feature gives each token the continuation of the longest passage that ends with it and occurred
earlier in the piece, once for all voices and once for the voice that is next; a learned score
favours that note.

Related: the neural cache (Grave et al. 2017), the short-term model of Pearce and Wiggins (2004).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.chorale.features import grid_of, interval_rows, lagged, of_each, span_of
from musictx.chorale.features.note_ages import runs
from musictx.config.checks import option
from musictx.model.features.base import NativeForm, Options, joined
from musictx.model.features.predicted import Predicted
from musictx.tokens.tokenizer import Tokenizer

#: Passages longer than so many steps are all alike.
MOST_STEPS = 64
#: A passage of all voices counts from 4 steps on, one of a single voice from 8, if so many notes
#: moved in it: held notes alone do not predict the continuation.
SHORTEST = {"all": 4, "voice": 8}
CHANGES = {"all": 4, "voice": 3}
#: Classes of length: 0 for no passage, then 1, 2-3, 4-7, ..., 64 and more steps.
CLASSES = 8


class Match(NamedTuple):
    """For each token how the longest passage that ends with it went on before; (B, T) int64 each.

    ids    the id that followed, 0 where there is none
    steps  the length of the passage, 0 where there is none
    """

    ids: Tensor
    steps: Tensor


class RepeatState(NamedTuple):
    """The matches of all voices and of the next voice after each of (B, T) ids.

    ids    (B, T, 2): what would follow, 0 where there is no match
    trust  (B, T, 2): class of the passage's length;  field  (B, T): 0
    last   (B, T): the last note of the next voice
    """

    ids: Tensor
    trust: Tensor
    field: Tensor
    last: Tensor


@dataclass
class RepeatOptions(Options):
    prefix = "model.features.repeats"

    dropout: float = option(
        0.0, "share of the passages left out in training, against overfitting", low=0, below=1
    )


class Repeats(Predicted):
    """Embeddings and scores of what the matches predict.

    pitches   the pitch of each id, as ranges [first, stop, value]; others have none
    voices    written in turn, one token a step each; place i of a piece is voice (i - 1) mod voices
    dropout   in training a match is left out with this probability

    For both kinds of match: ``lengths`` (2, classes, width) and ``intervals`` (2, 2 span + 2,
    width), from the last note of the next voice to the predicted one, are added at the input;
    <x, ``scores``> of the length's class is added to the logit of the predicted id.
    """

    name = "repeats"
    classes = CLASSES
    options = RepeatOptions
    pitches: Tensor

    def __init__(
        self,
        size: int,
        width: int,
        *,
        voices: int,
        pitches: list[list[int]],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.keep(pitches=ranges("pitches", size, pitches, -1))
        self.voices, self.dropout = voices, dropout
        self.span = span_of(self.pitches)
        std = 0.25 * width**-0.5
        self.lengths = nn.Parameter(torch.randn(2, CLASSES, width) * std)
        self.intervals = nn.Parameter(torch.randn(2, 2 * self.span + 2, width) * std)
        self.scores = nn.Parameter(torch.zeros(2, CLASSES, width))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        return grid_of(tokenizer, cls.name)

    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> RepeatState:
        every, place = joined(ids, earlier, places)
        count = ids.shape[1]
        matches = []
        for one_voice in (False, True):
            match = longest_match(every, place, self.voices, count, one_voice=one_voice)
            if self.training and self.dropout:
                kept = torch.rand(ids.shape, device=ids.device) >= self.dropout
                match = Match(match.ids * kept, match.steps * kept)
            matches.append(match)
        (last,) = lagged(every.masked_fill(place < 1, -1), places, [self.voices - 1])
        trust = torch.stack([length_class(match.steps) for match in matches], 2)
        then = torch.stack([match.ids for match in matches], 2)
        return RepeatState(then, trust, torch.zeros_like(ids), last)

    def embed(self, x: Tensor, seen: RepeatState) -> Tensor:
        old = of_each(self.pitches, seen.last)
        row = interval_rows(self.pitches[seen.ids], old[..., None], self.span)
        for kind, table in enumerate(self.intervals):
            trust = seen.trust[..., kind]
            vector = F.embedding(row[..., kind], table) * (trust > 0)[..., None]
            x = x + (F.embedding(trust, self.lengths[kind]) + vector).to(x.dtype)
        return x

    def native(self) -> NativeForm:
        return NativeForm(
            Path(__file__).with_name("repeats.h"),
            "Repeats",
            {
                "classes": CLASSES,
                "pitches": self.pitches,
                "lengths": self.lengths,
                "intervals": self.intervals,
                "voices": self.voices,
                "span": self.span,
                "most": MOST_STEPS,
                "shortest_all": SHORTEST["all"],
                "shortest_own": SHORTEST["voice"],
                "changes_all": CHANGES["all"],
                "changes_own": CHANGES["voice"],
            },
            scores=self.scores.flatten(0, 1),
        )


def length_class(steps: Tensor) -> Tensor:
    """0 for 0 steps, then 1 + floor(log2(steps)), the last class for all that are longer."""
    edges = torch.tensor([2**n for n in range(CLASSES - 1)], device=steps.device)
    return torch.bucketize(steps, edges, right=True)


def longest_match(
    ids: Tensor, places: Tensor, voices: int, count: int, *, one_voice: bool
) -> Match:
    """The longest match of what ends with each of the last ``count`` of ``ids`` (B, N).

    Compared are the ids up to a place with those whole steps earlier in the same piece
    (``places`` as in :meth:`Feature.read`, negative where unknown); of two equally long matches the
    later one counts. ``one_voice``: only ids of the voice that is next.
    """
    total, kind = ids.shape[1], "voice" if one_voice else "all"
    stride, shift = (voices, voices - 1) if one_voice else (1, 0)
    begin = max(total - count - shift - MOST_STEPS * voices, 0)
    here = torch.arange(begin, total, device=ids.device)
    lags = torch.arange(1, max(total // voices, 1) + 1, device=ids.device) * voices
    back = here - lags[:, None]  # (lags, n): where the earlier id stands
    equal = ids[:, back.clamp(min=0)] == ids[:, None, begin:]
    equal &= (places[:, None, begin:] > lags[:, None]) & (back >= 0)
    now = torch.arange(total - count, total, device=ids.device)
    ends = now - shift  # where a passage must end
    if count == 1:  # while decoding: one look back instead of runs at every place
        run = _run_at(equal, total - 1 - shift - begin, stride)[..., None]
    else:
        run = runs(equal, stride)[..., (ends - begin).clamp(min=0)]
    run = run.clamp(max=MOST_STEPS * voices)
    nearer_first = torch.arange(len(lags), 0, -1, device=ids.device)[:, None]
    which = (run * (len(lags) + 1) + nearer_first).argmax(1)
    length = run.gather(1, which[:, None]).squeeze(1) * (ends >= 0)
    moved = torch.zeros_like(ids)
    moved[:, voices:] = ids[:, voices:] != ids[:, :-voices]
    sums = F.pad(_sums(moved, stride), (stride, 0))  # entry n + stride: up to place n
    last = (ends + stride).clamp(min=0)
    inside = sums[:, last] - sums.gather(1, (last - length).clamp(min=0))
    good = (length >= SHORTEST[kind] * voices) & (inside >= CHANGES[kind])
    source = (now + 1 - lags[which]).clamp(min=0)
    return Match(ids.gather(1, source).clamp(min=0) * good, length // voices * good)


def _run_at(true: Tensor, end: int, stride: int) -> Tensor:
    """As :func:`runs`, at the place ``end`` alone: int64 (...)."""
    back = true[..., : max(end, 0) + 1].flip(-1)[..., ::stride]
    broken = (~back).to(torch.uint8)
    length = torch.where(back.all(-1), back.shape[-1], broken.argmax(-1))
    return length * stride


def _sums(numbers: Tensor, stride: int) -> Tensor:
    """Running sums along ``numbers`` (B, N), each over every ``stride``-th place only."""
    total = numbers.shape[-1]
    lanes = F.pad(numbers, (0, -total % stride)).unflatten(-1, (-1, stride))
    return lanes.cumsum(-2).flatten(-2)[..., :total]
