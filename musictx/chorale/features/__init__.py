"""Features for models of chorales, computed from the voices so far; each file has its C++."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.errors import ConfigError
from musictx.model.features.base import Feature, joined
from musictx.tokens.tokenizer import Tokenizer


class VoiceFeature(Feature):
    """A feature of ``voices`` that are written in turn, a token a step each: place 0 of a piece is
    its beginning, place i a note of voice (i - 1) mod voices. ``pitches`` are the pitches of ids,
    as ranges [first, stop, value]; other ids have none."""

    def __init__(self, size: int, voices: int = 0, pitches: Sequence[list[int]] = ()) -> None:
        super().__init__()
        self.voices = voices
        self.register_tables(pitches=ranges("pitches", size, list(pitches), -1))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        if not tokenizer.voices:
            raise ConfigError(
                f"model.features={cls.name}: expected tokenizer=chorale, whose voices take turns, "
                f"not {tokenizer.name}"
            )
        return {"voices": tokenizer.voices, "pitches": [tokenizer.vocabulary.row("pitch")]}

    def last_notes(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Tensor:
        """(B, T): the last id of the voice that is next after each of ``ids``, -1 for none; the
        arguments are those of :meth:`Feature.read`."""
        all_ids, all_places = joined(ids, earlier, places)
        return lagged(all_ids.masked_fill(all_places < 1, -1), places, [self.voices - 1])[0]


def look_up(table: Tensor, ids: Tensor) -> Tensor:
    """``table[ids]`` for a table (size,); -1 where an id is negative."""
    return table[ids.clamp(min=0)].masked_fill(ids < 0, -1)


def span_of(pitches: Tensor) -> int:
    """The largest difference of two ``pitches``; negative values are not pitches."""
    pitched = pitches[pitches >= 0]
    return int(pitched.max() - pitched.min()) if len(pitched) else 0


def interval_rows(later: Tensor, earlier: Tensor, span: int) -> Tensor:
    """The rows of intervals in a table of 2 ``span`` + 2 rows.

    Row 0 is for a missing pitch (negative), row 1 + ``span`` + later - earlier for an interval. The
    two tensors are broadcast.
    """
    return (later - earlier + span + 1).masked_fill((later < 0) | (earlier < 0), 0)


def lagged(values: Tensor, places: Tensor, lags: Iterable[int]) -> Tensor:
    """(lags, B, T): for each lag n the ``values`` (B, N) n tokens before each of the last T tokens;
    -1 before the beginning of the piece.

    ``places`` (B, T) are the places of the last T tokens in their pieces.
    """
    count, back = places.shape[1], max(lags := list(lags))
    padded = F.pad(values, (back, 0), value=-1)
    stop = padded.shape[1]
    entries = [padded[:, stop - count - n : stop - n].masked_fill(places < n, -1) for n in lags]
    return torch.stack(entries)
