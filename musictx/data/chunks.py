"""What became of each file, and the same on disk, chunk by chunk: a stopped run goes on."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from musictx.data.sources import Source

#: Raised by one whenever the same file would come out otherwise, so that old shards are not reused.
VERSION = 1
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
    text = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def in_chunks(files: list[Source]) -> list[list[Source]]:
    """At most 64 files and about half a megabyte each (a second of work, so that little is lost in
    a stop), and for small corpora enough chunks to share among cores."""
    most = max(1, min(64, len(files) // 32))
    chunks: list[list[Source]] = []
    size = 0
    for file in files:
        if not chunks or len(chunks[-1]) == most or size + file.size > 2**19:
            chunks.append([])
            size = 0
        chunks[-1].append(file)
        size += file.size
    return chunks


def place(partial: Path, chunk: list[Source], fingerprint: str, min_notes: int) -> Path:
    """The file for the outcomes of ``chunk``, named by all that decides what is in it."""
    files = [[f.name, f.size, f.mtime_ns] for f in chunk]
    return partial / f"{digest([VERSION, fingerprint, min_notes, files])}.npz"


def store(path: Path, outcomes: list[Outcome]) -> None:
    """Write the outcomes of a chunk, whole or not at all. Raises ``OSError``."""
    described = [asdict(replace(o, ids=NO_IDS)) | {"ids": len(o.ids)} for o in outcomes]
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f"{uuid.uuid4().hex}.writing"
    try:
        with beside.open("wb") as file:
            np.savez(
                file,
                ids=np.concatenate([NO_IDS, *(o.ids for o in outcomes)]),
                outcomes=np.frombuffer(json.dumps(described).encode("ascii"), np.uint8),
            )
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def resumed(path: Path) -> list[Outcome] | None:
    """The outcomes that an earlier run has stored; None if they are not there or damaged."""
    try:
        outcomes = read_outcomes(path)
        sum(len(ids) for ids in read_ids(path))  # reads it all and compares the check sum
        return outcomes
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None


def read_outcomes(path: Path) -> list[Outcome]:
    """The outcomes in one chunk file, without their ids."""
    with path.open("rb") as file, np.load(file) as stored:
        described = json.loads(stored["outcomes"].tobytes())
    return [Outcome(**(d | {"ids": NO_IDS})) for d in described]


def read_ids(path: Path) -> Iterator[np.ndarray]:
    """The ids of each outcome in one chunk file."""
    with path.open("rb") as file, np.load(file) as stored:
        described, ids = json.loads(stored["outcomes"].tobytes()), stored["ids"]
    offset = 0
    for d in described:
        yield ids[offset : offset + d["ids"]]
        offset += d["ids"]
