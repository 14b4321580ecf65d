"""Features of the voices so far for models of chorales; one a file, each with its C++."""

from __future__ import annotations

from typing import Any

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
