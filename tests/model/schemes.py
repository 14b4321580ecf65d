"""Arguments of every position scheme for small models."""

from __future__ import annotations

import dataclasses
from typing import Any

from musictx.config.position import SCHEMES

GRID = "two_d on a grid"


def position(name: str, vocab: int, **more: Any) -> dict[str, Any]:
    """``MusicTransformer(position=...)``; a quarter of the ids takes time, another has a pitch.

    :data:`GRID`: ``two_d`` on a grid of voices, in every layer. Options that the scheme does not
    have are left out.
    """
    known = {f.name for f in dataclasses.fields(SCHEMES["two_d" if name == GRID else name])}
    more = {key: value for key, value in more.items() if key in known}
    if name == GRID:
        pitches = [[vocab // 4, vocab // 2, 60]]
        grid = {"kind": "grid", "voices": 4, "size": vocab, "pitches": pitches}
        more = {"coordinates": grid, "first_layers": 99} | more
        return {"name": "two_d"} | more
    found: dict[str, Any] = {"name": name} | more
    if name == "two_d":
        quarter = vocab // 4
        found["coordinates"] = {
            "kind": "tokens",
            "size": vocab,
            "steps": [[0, quarter, 1]],
            "pitches": [[quarter, 2 * quarter, 60]],
        }
        found["max_time"] = 20
    return found
