"""Where tokens stand in time, pitch and voice: what ``position=two_d`` and intervals measure.

They follow from the vocabulary and are written into the configuration of a model. Ranges [first,
stop, value] say that ids first, first + 1, ... before stop have the values value, value + 1, ...

Events (kind ``tokens``):

size     how many ids there are
steps    how many steps of time an id takes: the time shifts; the others take none
pitches  the pitch that an id strikes or releases. Drums have none: their numbers name
         instruments, not heights

Voices that take turns (kind ``grid``):

voices   written in turn, one token each
size     as above
pitches  the pitch that an id sounds; silence and ties have none of their own
"""

from __future__ import annotations

from typing import Any

from musictx.errors import ConfigError
from musictx.tokens.tokenizer import Tokenizer


def token_coordinates(tokenizer: Tokenizer, option: str = "position.name=two_d") -> dict[str, Any]:
    """The coordinates of a model of these tokens. Raises ``ConfigError``, naming the ``option``
    that asks, for tokens whose time does not follow from those before them."""
    table = tokenizer.vocabulary
    kinds = set() if table is None else set(table.kinds)
    if table is not None and {"time_shift", "note_on", "note_off"} <= kinds:
        return {
            "kind": "tokens",
            "size": tokenizer.size,
            "steps": [table.row("time_shift")],
            "pitches": [table.row("note_on"), table.row("note_off")],
        }
    if table is not None and tokenizer.voices and "pitch" in kinds:
        pitches = [table.row("pitch")]
        size, voices = tokenizer.size, tokenizer.voices
        return {"kind": "grid", "voices": voices, "size": size, "pitches": pitches}
    raise ConfigError(
        f"{option}: expected tokenizer=performance, whose time shifts add up, or "
        f"tokenizer=chorale, whose voices take turns, not {tokenizer.name}"
    )
