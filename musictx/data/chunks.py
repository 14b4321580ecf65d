"""What became of each piece, and the pieces of a corpus in chunks of work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from musictx.data.corpora import Item, canonical

#: Raised by one whenever the same file would come out otherwise, so that old shards are not reused.
VERSION = 2
#: A chunk ends with so many pieces or bytes: a fraction of a second of work, so that small corpora
#: are shared among cores.
PIECES, BYTES = 64, 2**19
NO_IDS = np.empty(0, np.uint16)


@dataclass
class Outcome:
    """What became of one piece. ``reason`` is empty if it can be used; else ``detail`` explains.

    ids      (n,) uint16;  hash  ``Score.content_hash()`` of what was read
    notes    notes that the ids hold;  seconds  from 0 to the end of the last note (keys, not pedal)
    lossy    what was repaired in reading or left out in writing: label -> number
    """

    name: str
    ids: np.ndarray = field(default_factory=lambda: NO_IDS)
    hash: str = ""
    notes: int = 0
    seconds: float = 0.0
    lossy: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    detail: str = ""


def digest(description: Any) -> str:
    """32 hexadecimal digits of plain data."""
    return hashlib.sha256(canonical(description)).hexdigest()[:32]


def in_chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """At most :data:`PIECES` items and, if they are several, :data:`BYTES` each."""
    chunk: list[Item] = []
    size = 0
    for item in items:
        if chunk and (len(chunk) == PIECES or size + item.size > BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += item.size
    if chunk:
        yield chunk
