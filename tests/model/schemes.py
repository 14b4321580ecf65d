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
            "steps_of": [i + 1 if i < quarter else 0 for i in range(vocab)],
            "pitch_of": [60 + i % 12 if quarter <= i < 2 * quarter else -1 for i in range(vocab)],
        }
        found["max_time"] = 20
    return found
