"""Intervals between notes, for models of voices on a grid.

With four interleaved voices, earlier notes are at fixed lags from the next note: lag 4 is the last
note of the same voice, lag 1 the voice above. A melody moves by steps in any key. So each note has
embeddings of its intervals to earlier notes, and each candidate for the next note has scores of its
intervals to earlier notes. Relative attention does the same for the order of tokens (Shaw et al.
2018): it learns a vector for a difference, not for a position. A model with embeddings of pitches
alone must learn each interval again in every key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import token_coordinates, value_table
from musictx.chorale.features import interval_rows, look_up, pitch_span, values_at_lags
from musictx.config.checks import option
from musictx.model.features.base import Feature, NativeForm, Options
from musictx.tokens.tokenizer import Tokenizer

_DIFFERENT = "different numbers of tokens, such as [1,2,3,4]"


@dataclass
class IntervalOptions(Options):
    prefix = "model.features.intervals"

    inputs: list[int] = option(
        [],
        "add to each note an embedding of its interval to the note n tokens earlier, for each n; "
        "[1,2,3,4]: to the other voices of a chorale and the last note of its own",
        low=1,
    )
    outputs: list[int] = option(
        [],
        "add to the logit of each candidate a learned score of its interval to the note n tokens "
        "earlier, for each n",
        low=1,
    )
    dropout: float = option(
        0.0, "share of the input embeddings left out in training, against overfitting", low=0,
        below=1,
    )  # fmt: skip

    def check(self) -> None:
        for name, lags in (("inputs", self.inputs), ("outputs", self.outputs)):
            self.require(name, len(set(lags)) == len(lags), _DIFFERENT)
        self.require("inputs", bool(self.inputs or self.outputs), f"{_DIFFERENT}, or outputs")


class Intervals(Feature):
    """Learned vectors of intervals, by lag (the distance of two notes in tokens).

    inputs    lags of the intervals whose embeddings are added to each note
    outputs   lags of the intervals that are scored for each candidate for the next note
    pitches   ranges of ids with pitches, [first, stop, value] as in ``coordinates.value_table``
    dropout   the probability in training that an interval of a note is left out

    Inputs and outputs have a table (2 span + 2, width) for each lag, with the rows of
    :func:`interval_rows`, where span is the largest interval. The score of an interval is the
    product of its vector and the network's output. The tables of ``outputs`` are initially zero.

    Transposed copies of a piece have the same intervals, so transposition does not keep the input
    embeddings from overfitting within a few epochs; ``dropout`` does.
    """

    name = "intervals"
    options = IntervalOptions
    reads_disturbed = True
    lookback: int

    def __init__(
        self,
        size: int,
        width: int,
        *,
        inputs: Sequence[int],
        outputs: Sequence[int],
        pitches: list[list[int]],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.register_tables(pitches=value_table("pitches", size, pitches, -1))
        self.input_lags, self.output_lags = list(inputs), list(outputs)
        self.lookback = max(*self.input_lags, *self.output_lags, 1)
        self.span = pitch_span(self.pitches)
        shape = (2 * self.span + 2, width)
        std = 0.5 * width**-0.5  # as large as the embeddings (MusicTransformer._initialise)
        self.inputs = nn.ParameterList(nn.Parameter(torch.randn(shape) * std) for _ in inputs)
        self.outputs = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for _ in outputs)

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        coordinates = token_coordinates(tokenizer, f"model.features={cls.name}")
        return {"pitches": coordinates["pitches"]}

    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> Tensor:
        """(1 + longest lag, B, T): entry n has the pitches n tokens before each of ``ids``; -1 for
        a token without a pitch or before the beginning of the piece."""
        pitch = look_up(self.pitches, torch.cat([previous_ids, ids], 1))
        return values_at_lags(pitch, positions, range(self.lookback + 1))

    def embed(self, x: Tensor, state: Tensor) -> Tensor:
        for lag, table in zip(self.input_lags, self.inputs):
            vectors = F.embedding(interval_rows(state[0], state[lag], self.span), table)
            if self.training and self.dropout:  # whole vectors, not channels
                vectors = vectors * F.dropout(vectors.new_ones(*x.shape[:2], 1), self.dropout)
            x = x + vectors.to(x.dtype)
        return x

    def score(self, logits: Tensor, x: Tensor, state: Tensor) -> Tensor:
        candidates = self.pitches.expand(*x.shape[:2], -1)
        for lag, table in zip(self.output_lags, self.outputs):
            rows = interval_rows(candidates, state[lag - 1][..., None], self.span)
            logits = logits + F.linear(x, table).float().gather(-1, rows) * (rows > 0)
        return logits

    def native(self) -> NativeForm:
        inputs, outputs = list(self.inputs), list(self.outputs)
        return self.native_form(
            "Intervals",
            "pitches input_lags output_lags",
            torch.cat(outputs) if outputs else None,
            inputs=torch.cat(inputs) if inputs else None,
            input_count=len(inputs),
            output_count=len(outputs),
            span=self.span,
        )
