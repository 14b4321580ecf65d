"""Features of the voices so far for models of chorales; one a file, each with its C++."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.errors import ConfigError
from musictx.tokens.tokenizer import Tokenizer


def grid_of(tokenizer: Tokenizer, feature: str) -> dict[str, Any]:
    """``voices`` and ``pitches`` of tokens that are voices in turn, ``ConfigError`` for others."""
    if not tokenizer.voices:
        raise ConfigError(
            f"model.features={feature}: expected tokenizer=chorale, whose voices take turns, not "
            f"{tokenizer.name}"
        )
    return {"voices": tokenizer.voices, "pitches": [tokenizer.vocabulary.row("pitch")]}


def of_each(table: Tensor, ids: Tensor) -> Tensor:
    """What ``table`` (size,) has of each of ``ids``, -1 for negative ones."""
    return table[ids.clamp(min=0)].masked_fill(ids < 0, -1)


def span_of(pitches: Tensor) -> int:
    """The largest difference of two ``pitches``, of which negative ones are none."""
    pitched = pitches[pitches >= 0]
    return int(pitched.max() - pitched.min()) if len(pitched) else 0


def interval_rows(later: Tensor, earlier: Tensor, span: int) -> Tensor:
    """The rows of intervals in a table of 2 ``span`` + 2: 0 where one of the two pitches is none,
    else 1 + ``span`` + the later pitch minus the earlier one. The two are broadcast."""
    return (later - earlier + span + 1).masked_fill((later < 0) | (earlier < 0), 0)


def lagged(values: Tensor, places: Tensor, lags: Iterable[int]) -> Tensor:
    """(lags, B, T): for each lag the entry of ``values`` (B, N) so many tokens before each of the
    last T tokens, which stand at ``places`` (B, T) of their pieces; -1 before the piece."""
    count, back = places.shape[1], max(lags := list(lags))
    padded = F.pad(values, (back, 0), value=-1)
    stop = padded.shape[1]
    entries = [padded[:, stop - count - n : stop - n].masked_fill(places < n, -1) for n in lags]
    return torch.stack(entries)
