"""Where tokens stand in time and pitch: what ``position=two_d`` measures."""

from __future__ import annotations

from typing import Any

from musictx.errors import ConfigError
from musictx.tokens.vocab import Tokenizer, Vocabulary

_KINDS = {"note_on", "note_off", "time_shift"}


def token_coordinates(tokenizer: Tokenizer) -> dict[str, Any]:
    """``position.coordinates`` for a model of these tokens, ready for YAML. Ranges [first, stop,
    value] say that ids first, first + 1, ... before stop have the values value, value + 1, ...

    steps    how many steps of time an id takes: the time shifts; the others take none
    pitches  the pitch that an id strikes or releases. Drums have none: their numbers name
             instruments, not heights

    Raises ``ConfigError`` for tokens whose time is not a sum of shifts.
    """
    vocabulary = getattr(tokenizer, "vocabulary", None)
    if not isinstance(vocabulary, Vocabulary) or not set(vocabulary.kinds) >= _KINDS:
        raise ConfigError(
            f"position.name=two_d: expected tokenizer=performance, whose time shifts add up, not "
            f"{tokenizer.name}"
        )

    def ranges(*kinds: str) -> list[list[int]]:
        found = [vocabulary.range(kind) for kind in kinds]
        return [[first, stop, int(vocabulary.value_of[first])] for first, stop in found]

    return {
        "kind": "tokens",
        "size": vocabulary.size,
        "steps": ranges("time_shift"),
        "pitches": ranges("note_on", "note_off"),
    }
