"""Arguments of every position scheme for small models."""

from __future__ import annotations

from typing import Any


def position(name: str, vocab: int, **more: Any) -> dict[str, Any]:
    """``MusicTransformer(position=...)``; a quarter of the ids takes time, another has a pitch."""
    found: dict[str, Any] = {"name": name, "max_distance": None, "shared": False} | more
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
