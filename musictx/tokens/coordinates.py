"""Where tokens stand in time, pitch and voice: what ``position=two_d`` measures."""

from __future__ import annotations

from typing import Any

from musictx.errors import ConfigError
from musictx.tokens.vocab import Tokenizer, Vocabulary

_KINDS = {"note_on", "note_off", "time_shift"}
_VOICES = 4  # of a chorale: soprano, alto, tenor, bass


def token_coordinates(tokenizer: Tokenizer, option: str = "position.name=two_d") -> dict[str, Any]:
    """``position.coordinates`` for a model of these tokens, ready for YAML. Ranges [first, stop,
    value] say that ids first, first + 1, ... before stop have the values value, value + 1, ...

    Events (kind ``tokens``):

    size     how many ids there are
    steps    how many steps of time an id takes: the time shifts; the others take none
    pitches  the pitch that an id strikes or releases. Drums have none: their numbers name
             instruments, not heights

    Chorales (kind ``grid``):

    voices   written in turn, one token each
    size     as above
    pitches  the pitch that an id sounds; silence and ties have none of their own

    Raises ``ConfigError``, naming the ``option`` that asks, for other tokens, whose time is not a
    sum of shifts.
    """
    vocabulary = getattr(tokenizer, "vocabulary", None)
    kinds = set(vocabulary.kinds) if isinstance(vocabulary, Vocabulary) else set()
    chorale = tokenizer.name == "chorale" and "pitch" in kinds
    if not isinstance(vocabulary, Vocabulary) or not (chorale or kinds >= _KINDS):
        raise ConfigError(
            f"{option}: expected tokenizer=performance, whose time shifts add up, or "
            f"tokenizer=chorale, whose voices take turns, not {tokenizer.name}"
        )

    def ranges(*kinds: str) -> list[list[int]]:
        found = [vocabulary.range(kind) for kind in kinds]
        return [[first, stop, int(vocabulary.value_of[first])] for first, stop in found]

    size = vocabulary.size
    if chorale:
        return {"kind": "grid", "voices": _VOICES, "size": size, "pitches": ranges("pitch")}
    return {
        "kind": "tokens",
        "size": size,
        "steps": ranges("time_shift"),
        "pitches": ranges("note_on", "note_off"),
    }
