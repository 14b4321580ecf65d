"""What the features of voices in turn ask of the tokens and of model folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from musictx.errors import ConfigError
from musictx.tokens.vocab import Tokenizer

#: Voices that a model folder may name.
MOST_VOICES = 64


def grid_of(tokenizer: Tokenizer, feature: str) -> dict[str, Any]:
    """``voices`` and ``pitches`` of tokens that are voices in turn, ``ConfigError`` for others."""
    coordinates = tokenizer.coordinates()
    if coordinates is None or coordinates["kind"] != "grid":
        raise ConfigError(
            f"model.features={feature}: expected tokenizer=chorale, whose voices take turns, not "
            f"{tokenizer.name}"
        )
    return {"voices": coordinates["voices"], "pitches": coordinates["pitches"]}


def few_voices(arguments: Mapping[str, Any], *names: str) -> str | None:
    """ "a few voices" unless each of the arguments ``names`` is a small whole number."""
    counts = [arguments.get(name) for name in names]
    few = all(type(count) is int and 1 <= count <= MOST_VOICES for count in counts)
    return None if few else "a few voices"
