"""What became of each piece, and the same on disk, chunk by chunk: a stopped run goes on."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from musictx import files
from musictx.data.corpora import Item, canonical

#: Raised by one whenever the same file would come out otherwise, so that old shards are not reused.
VERSION = 2
#: A chunk ends with so many pieces or bytes: a fraction of a second of work, so that little is lost
#: in a stop and small corpora are shared among cores.
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


def file_name(chunk: list[Item], settings: Any) -> str:
    """The file for the outcomes of ``chunk``, named by all that decides what is in it."""
    return f"{digest([VERSION, settings, [[i.name, i.key] for i in chunk]])}.npz"


def store(path: Path, outcomes: list[Outcome]) -> None:
    """Write the outcomes of a chunk, whole or not at all. Raises ``WriteError``."""
    described = [asdict(replace(o, ids=NO_IDS)) | {"ids": len(o.ids)} for o in outcomes]
    with files.atomic(path) as beside, beside.open("wb") as file:
        np.savez(
            file,
            ids=np.concatenate([NO_IDS, *(o.ids for o in outcomes)]),
            outcomes=np.frombuffer(json.dumps(described).encode("ascii"), np.uint8),
        )


def load(path: Path) -> list[Outcome] | None:
    """The outcomes that :func:`store` wrote; None if they are not there or damaged."""
    try:
        with path.open("rb") as file, np.load(file) as stored:  # zip compares the check sums
            described, ids = json.loads(stored["outcomes"].tobytes()), stored["ids"]
        ends = np.cumsum([d["ids"] for d in described])
        parts = np.split(ids, ends[:-1])
        return [Outcome(**(d | {"ids": part})) for d, part in zip(described, parts, strict=True)]
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None
