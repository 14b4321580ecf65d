"""Features for models of chorales, computed from the voices so far; each has a C++ header, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.positions.coordinates import value_table
from musictx.errors import ConfigError
from musictx.model.features.base import Feature, join_ids
from musictx.tokens.tokenizer import Tokenizer


class VoiceFeature(Feature):
    """A feature for ``voices`` interleaved voices with one token per step each: position 0 is
    ``bos`` or ``cut``, position i is a note of voice (i - 1) mod voices. ``pitches`` are ranges of
    ids with pitches, [first, stop, value] as in ``coordinates.value_table``."""

    def __init__(self, size: int, voices: int = 0, pitches: Sequence[list[int]] = ()) -> None:
        super().__init__()
        self.voices = voices
        self.register_tables(pitches=value_table("pitches", size, list(pitches), -1))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        if not tokenizer.voices:
            raise ConfigError(
                f"model.features={cls.name}: expected tokenizer=chorale or another one with "
                f"interleaved voices, not {tokenizer.name}"
            )
        return {"voices": tokenizer.voices, "pitches": [tokenizer.vocabulary.value_range("pitch")]}

    def last_notes(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> Tensor:
        """(B, T): for each of ``ids``, the last id of the voice of the following token; -1: none.
        The arguments are those of :meth:`Feature.read`."""
        all_ids, all_positions = join_ids(ids, previous_ids, positions)
        notes = all_ids.masked_fill(all_positions < 1, -1)
        return values_at_lags(notes, positions, [self.voices - 1])[0]


def look_up(table: Tensor, ids: Tensor) -> Tensor:
    """``table[ids]`` for a table with an entry for each id; -1 where an id is negative."""
    return table[ids.clamp(min=0)].masked_fill(ids < 0, -1)


def pitch_span(pitches: Tensor) -> int:
    """The largest interval between two of ``pitches``; negative values are not pitches."""
    pitches = pitches[pitches >= 0]
    return int(pitches.max() - pitches.min()) if len(pitches) else 0


def interval_rows(later: Tensor, earlier: Tensor, span: int) -> Tensor:
    """The rows of intervals in a table of 2 ``span`` + 2 rows: 0 if a pitch is missing (negative),
    else 1 + ``span`` + later - earlier. The two tensors are broadcast."""
    return (later - earlier + span + 1).masked_fill((later < 0) | (earlier < 0), 0)


def values_at_lags(values: Tensor, positions: Tensor, lags: Sequence[int]) -> Tensor:
    """(lags, B, T): for each lag n the ``values`` (B, N) n tokens before each of the last T tokens,
    whose positions in their pieces are ``positions`` (B, T); -1 before the beginning of the piece.
    """
    padded = F.pad(values, (max(lags), 0), value=-1)
    stop = padded.shape[1]
    start = stop - positions.shape[1]
    shifted = [padded[:, start - n : stop - n].masked_fill(positions < n, -1) for n in lags]
    return torch.stack(shifted)
