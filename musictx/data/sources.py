"""Which files a corpus has, and which of them train, which measure.

The split of a piece follows from what sounds in it (``Score.content_hash``), not from its name or
its place in the list: adding files never moves the others, and copies of one piece always fall on
one side. Where MAESTRO's table lies under the folder, its official split goes first.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from musictx import formats
from musictx.data.shards import SPLITS
from musictx.errors import UserError


class Source(NamedTuple):
    """One file: ``name`` relative to the corpus with "/", size in bytes, time of last change."""

    name: str
    path: Path
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Found:
    """What lies under a corpus folder, sorted by name; ``official`` is name -> split."""

    root: Path
    files: list[Source]
    tables: list[Source]
    official: dict[str, str]


def find(path: str | None) -> Found:
    """All MIDI and MusicXML files under ``path`` at any depth, and the split a table gives them.

    Raises ``UserError`` naming ``corpus.path`` if it is missing, not there, or without MIDI files.
    """
    if not path:
        raise UserError(
            "corpus.path is missing: give the folder of your MIDI files, corpus.path=DIR"
        )
    root = Path(path).expanduser()
    if not root.exists():
        raise UserError(f"corpus.path={path}: there is no such folder")
    if not root.is_dir():
        raise UserError(f"corpus.path={path}: this is a file; give the folder it lies in")
    files = sorted(_source(root, file) for file in formats.find(root))
    if not files:
        raise UserError(
            f"corpus.path={path}: no MIDI file in this folder or below "
            "(looked for .mid, .midi, .kar and .rmi, and for MusicXML: .mxl, .musicxml, .xml)"
        )
    tables = sorted(_source(root, file) for file in _split_tables(root))
    return Found(root, files, tables, _official(files, tables))


def _source(root: Path, path: Path) -> Source:
    try:
        stat = path.stat()
        size, changed = stat.st_size, stat.st_mtime_ns
    except OSError:  # gone since it was listed: reading it will say so
        size, changed = -1, 0
    return Source(path.relative_to(root).as_posix(), path, size, changed)


# ------------------------------------------------------------------------------- the official split


def _split_tables(root: Path) -> Iterable[Path]:
    """Every .csv under ``root`` with the columns ``split`` and ``midi_filename``."""
    for folder, inside, names in os.walk(root):
        inside[:] = [name for name in inside if not name.startswith(".")]
        for name in names:
            path = Path(folder) / name
            if name.startswith(".") or path.suffix.lower() != ".csv":
                continue
            if _rows(path, only_header=True) is not None:
                yield path


def _rows(path: Path, *, only_header: bool = False) -> list[dict[str, str]] | None:
    """The rows of a split table; None if it is not one."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.DictReader(file)
            if not {"split", "midi_filename"} <= set(reader.fieldnames or ()):
                return None
            return [] if only_header else list(reader)
    except (OSError, csv.Error):
        return None


def _official(files: list[Source], tables: list[Source]) -> dict[str, str]:
    """Name -> split for the files that a table names.

    A table names files relative to its own folder. A file that is not there is looked for by its
    bare name (people move files out of their folders), if that name is unique on both sides.
    """
    names = {file.name for file in files}
    by_bare_name: dict[str, list[str]] = {}
    for name in sorted(names):
        by_bare_name.setdefault(PurePosixPath(name).name, []).append(name)
    official: dict[str, str] = {}
    for table in tables:
        rows = [
            (PurePosixPath(row["midi_filename"].replace("\\", "/")), row["split"].strip().lower())
            for row in _rows(table.path) or []
            if row["midi_filename"] and row["split"]
        ]
        listed = Counter(path.name for path, _ in rows)
        for path, split in rows:
            if split not in SPLITS:
                continue
            name = (PurePosixPath(table.name).parent / path).as_posix()
            if name not in names:
                candidates = by_bare_name.get(path.name, [])
                if len(candidates) != 1 or listed[path.name] != 1:
                    continue
                name = candidates[0]
            official.setdefault(name, split)
    return official


# ------------------------------------------------------------------------- duplicates and the split


class Identity(NamedTuple):
    """All that the split of a piece depends on."""

    name: str
    hash: str


def hashed_split(content_hash: str, validation: float, test: float) -> str:
    """The split by content: a number in [0, 1) from the hash, below ``validation`` -> validation,
    below ``validation + test`` -> test, else train."""
    number = int(content_hash[:13], 16) / 16**13  # 52 bits: exact in a float
    if number < validation:
        return "validation"
    return "test" if number < validation + test else "train"


def without_duplicates(
    pieces: Iterable[Identity], official: Mapping[str, str]
) -> tuple[list[Identity], dict[str, str]]:
    """One file for each content, and duplicate name -> name of the one kept.

    Of files that hold the same notes the one kept is an officially split one if there is one, of
    these one in test before validation before train (what measures stays what it is; training
    loses a copy), and then the first by name.
    """
    rank = {"test": 0, "validation": 1, "train": 2}
    best: dict[str, Identity] = {}
    duplicates: dict[str, str] = {}
    ordered = sorted(pieces, key=lambda p: (rank.get(official.get(p.name, ""), 3), p.name))
    for piece in ordered:
        kept = best.setdefault(piece.hash, piece)
        if kept is not piece:
            duplicates[piece.name] = kept.name
    return sorted(best.values()), duplicates


def split(
    pieces: list[Identity], official: Mapping[str, str], *, validation: float, test: float
) -> tuple[dict[str, str], list[str]]:
    """Name -> split of every piece (each content once), and remarks where it was not the usual way.

    The official split if a piece has one, else by content hash. Then, so that small corpora work:

    - if no piece came to validation though some should (``validation`` > 0) and the official split
      is the reason, the official training pieces are split by hash;
    - if train is empty, the piece with the largest hash of the largest other split goes there;
    - if validation is still empty, the piece of train (of test, if train has but one) with the
      smallest hash goes there.

    One piece alone goes to train (``prepare`` then holds out its end).
    """
    splits = {
        p.name: official.get(p.name) or hashed_split(p.hash, validation, test) for p in pieces
    }
    remarks = []
    by_hash = sorted(pieces, key=lambda p: p.hash)

    def members(which: str) -> list[Identity]:
        return [p for p in by_hash if splits[p.name] == which]

    if validation > 0 and not members("validation") and any(p.name in official for p in pieces):
        for piece in members("train"):
            splits[piece.name] = hashed_split(piece.hash, validation, 0.0)
        remarks.append("no file of the official validation split is here: split by content instead")
    if not members("train") and pieces:
        largest = max(("validation", "test"), key=lambda s: len(members(s)))
        splits[members(largest)[-1].name] = "train"
        remarks.append(f"train would have been empty: a piece of {largest} trains")
    if validation > 0 and not members("validation") and len(pieces) > 1:
        giver = "train" if len(members("train")) > 1 else "test"
        splits[members(giver)[0].name] = "validation"
        remarks.append(f"validation would have been empty: a piece of {giver} measures")
    return splits, remarks
