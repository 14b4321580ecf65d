"""musictx: a Music Transformer for MIDI - train on your own files, generate, continue.

A public name is imported when it is first used, so ``import musictx`` takes no time. Type checkers
read ``__init__.pyi``, which ``scripts/stub.py`` writes.

    score = musictx.read("song.mid")                      # notes as columns, in seconds
    piece = musictx.generate("piano", primer=score, seconds=30)[0]
    musictx.write(piece, "song-continued.mid")            # or .wav, or .png
    for event in musictx.stream("piano", seconds=10):     # notes as soon as they are drawn
        print(event)
    chorale = musictx.harmonise("ode_to_joy")[0]          # four voices
    version = musictx.infill("song.mid", begin=5, end=8)[0]   # bars 5 to 8 replaced
    nats = musictx.log_likelihood("piano", score).nats    # -ln p of each token
    folder = musictx.train("corpus.path=~/midi")          # options as on the command line
    bundle = musictx.load(folder)                         # the model, its tokenizer, its card
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "1.1.0"

_WHERE = {
    "Bundle": "musictx.bundle",
    "Event": "musictx.sampling.stream",
    "Limits": "musictx.config",
    "Sample": "musictx.sampling.sample",
    "SamplingConfig": "musictx.config",
    "Score": "musictx.notes",
    "Stream": "musictx.sampling.stream",
    "UserError": "musictx.errors",
    "accompany": "musictx.api",
    "compare": "musictx.evaluate.compare",
    "evaluate": "musictx.evaluate.app",
    "generate": "musictx.api",
    "harmonise": "musictx.chorale.app",
    "infill": "musictx.api",
    "load": "musictx.bundle",
    "log_likelihood": "musictx.api",
    "read": "musictx.formats",
    "render": "musictx.render.app",
    "stream": "musictx.api",
    "to_bytes": "musictx.formats",
    "train": "musictx.api",
    "write": "musictx.formats",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
