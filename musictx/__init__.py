"""musictx: a Music Transformer for MIDI - train on your own files, generate, continue.

The names below are imported when first used, so ``import musictx`` costs nothing.

    score = musictx.read("song.mid")            # Score: notes as columns, in seconds
    bundle = musictx.load("runs/mine/model")    # a trained model with its tokenizer
    more = musictx.generate(bundle, primer=score, seconds=30)[0]
    musictx.write(more.score, "song-continued.mid")
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "Score": "musictx.notes",
    "UserError": "musictx.errors",
    "read": "musictx.formats",
    "write": "musictx.formats",
    "load": "musictx.bundle",
    "generate": "musictx.apps.generate",
    "log_likelihood": "musictx.evaluate.likelihood",
    "compose": "musictx.compose",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'musictx' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
