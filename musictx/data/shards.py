"""Token shards: a prepared corpus as a memory-mapped file of uint16 ids and a table of pieces.

::

    header.json    version of the format; fingerprint, config and vocabulary size of the tokenizer;
                   corpus, key, totals by split, CRC-32 of pieces.jsonl
    pieces.jsonl   a line for each piece: the fields of Piece except its number
    tokens.bin     the ids of all pieces, little-endian uint16, and of duplicates that are not in
                   the table

Pieces are complete and have only events: no pad, bos, eos or cut. Opening a folder reads the two
text files, checks their checksum and the size of tokens.bin, and maps tokens.bin into memory.
``tokens(i)`` is a view of it, so a corpus may be far larger than the memory, and all processes of a
machine share it. It checks that the ids are in the vocabulary.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from musictx import files
from musictx.errors import UserError
from musictx.tokens.tokenizer import Tokenizer

#: Incremented whenever older versions of musictx cannot read new folders.
FORMAT = 3
SPLITS = ("train", "validation", "test")
HEADER, PIECES, TOKENS = "header.json", "pieces.jsonl", "tokens.bin"
ID = np.dtype("<u2")


class Piece(NamedTuple):
    """A row of the table of pieces.

    number   its row in the table, from 0: the argument of ``Shards.tokens``
    name     path relative to the corpus folder with "/" between the parts, or the name of a chorale
    split    train, validation or test
    hash     ``Score.content_hash()`` of the music file; in a published corpus a hash of the name
             and the content hash
    offset   the index of its first id in tokens.bin
    tokens   the number of its ids
    notes    the number of notes in these ids
    seconds  the time at which its last note ends
    begins, ends  whether the ids include the beginning and the end of the piece. Not both do in a
             corpus of one piece, which is divided into two (``data/prepare.py``)
    """

    number: int
    name: str
    split: str
    hash: str
    offset: int
    tokens: int
    notes: int
    seconds: float
    begins: bool = True
    ends: bool = True


class Totals(NamedTuple):
    """Sums over the pieces of a split, or of all splits."""

    pieces: int = 0
    tokens: int = 0
    notes: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        time = f"{self.seconds / 3600:.1f} h" if self.seconds >= 3600 else f"{self.seconds:.0f} s"
        pieces = f"{self.pieces:,} piece" + ("" if self.pieces == 1 else "s")
        return f"{pieces}, {time}, {self.notes:,} notes, {self.tokens:,} tokens"


def total(pieces: Sequence[Piece]) -> Totals:
    """The totals of ``pieces``."""
    seconds = 0.0
    for piece in pieces:
        seconds += piece.seconds  # not sum(), which rounds differently from Python 3.12 on
    tokens, notes = sum(p.tokens for p in pieces), sum(p.notes for p in pieces)
    return Totals(len(pieces), tokens, notes, seconds)


def totals_by_split(pieces: Sequence[Piece]) -> dict[str, Totals]:
    """Split -> the totals of its ``pieces``."""
    return {split: total([p for p in pieces if p.split == split]) for split in SPLITS}


def is_shards(folder: Path) -> bool:
    """Whether ``folder`` looks like a shard folder, which may be damaged."""
    return (folder / HEADER).is_file() and (folder / TOKENS).is_file()


class Shards:
    """A prepared corpus, opened for reading.

    Raises ``UserError`` if ``folder`` is not a shard folder, has another format or is damaged. Only
    the path is pickled: another process opens the folder again.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.header = _read_header(self.folder)
        self.fingerprint: str = self.header["fingerprint"]
        self.tokenizer_config: dict[str, Any] = self.header["tokenizer"]
        self.corpus: dict[str, Any] = self.header["corpus"]
        self.vocab_size: int = self.header["vocabulary"]
        self.key: str = self.header["key"]
        path, expected_size = self.folder / TOKENS, self.header["tokens"] * ID.itemsize
        try:
            size = path.stat().st_size
        except OSError as error:
            raise damaged(self.folder, f"{TOKENS} is missing") from error
        if size != expected_size:
            raise damaged(self.folder, f"{TOKENS} has {size} bytes instead of {expected_size}")
        self._table = _read_table(self.folder, self.header)
        self._ids = np.memmap(path, dtype=ID, mode="r") if size else np.empty(0, ID)

    def __reduce__(self) -> tuple[type[Shards], tuple[Path]]:
        return Shards, (self.folder,)

    def __len__(self) -> int:
        """The number of pieces in all splits."""
        return len(self._table)

    def pieces(self, split: str | None = None) -> list[Piece]:
        """The pieces of a split (None: of all splits) in the order of the corpus."""
        return [piece for piece in self._table if split is None or piece.split == split]

    def tokens(self, number: int) -> np.ndarray:
        """(n,) uint16: the ids of piece ``number``, a read-only view of the mapped file.

        Raises ``UserError`` for ids beyond the vocabulary.
        """
        piece = self._table[number]
        ids = self._ids[piece.offset : piece.offset + piece.tokens]
        if len(ids) and ids.max() >= self.vocab_size:
            raise damaged(self.folder, f"{piece.name} has ids beyond its vocabulary")
        return ids

    def totals(self, split: str | None = None) -> Totals:
        """The totals of a split (None: of all splits)."""
        return total(self.pieces(split))

    def check(self, tokenizer: Tokenizer) -> None:
        """Raise ``UserError`` if the shards were not made by ``tokenizer``, except for its control
        tokens, which shards never have."""
        tokenizer = tokenizer.without_controls
        if tokenizer.fingerprint != self.fingerprint:
            raise UserError(
                f"{self.folder}: these shards were made by another tokenizer (fingerprint "
                f"{self.fingerprint}, {tokenizer.name} has {tokenizer.fingerprint}); prepare the "
                "corpus again with this tokenizer, or use the one it was prepared with"
            )
        self.vocab_size = min(self.vocab_size, tokenizer.vocabulary.size)


#: Entry of the header -> its type.
_HEADER_TYPES = (
    dict.fromkeys(("key", "fingerprint"), str)
    | dict.fromkeys(("tokenizer", "corpus", "splits"), dict)
    | dict.fromkeys(("vocabulary", "pieces", "tokens", "crc"), int)
)


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    if not path.is_file():
        raise UserError(
            f"{folder}: not a folder of token shards (no {HEADER}); make one with musictx prepare"
        )
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        version = header["format"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(folder, f"{HEADER} cannot be read") from error
    if version != FORMAT:
        raise UserError(
            f"{folder}: shards of format {version}, but this musictx reads format {FORMAT}; "
            "prepare the corpus again"
        )
    invalid = [key for key, kind in _HEADER_TYPES.items() if type(header.get(key)) is not kind]
    if invalid:
        raise damaged(folder, f"{HEADER} has no valid {', '.join(invalid)}")
    return header


def _read_table(folder: Path, header: dict[str, Any]) -> list[Piece]:
    table, crc = [], 0
    try:
        with (folder / PIECES).open("rb") as file:
            for number, line in enumerate(file):
                crc = zlib.crc32(line, crc)
                table.append(Piece(number, **json.loads(line)))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise damaged(folder, f"{PIECES} cannot be read") from error
    if crc != header["crc"]:
        raise damaged(folder, f"{PIECES} has changed")
    return table


def damaged(folder: Path, problem: str) -> UserError:
    """The error for damaged shards."""
    return UserError(
        f"{folder}: damaged token shards, {problem}; delete the folder and prepare again"
    )


class Writer:
    """Writes the pieces of a new shard folder.

    tokens  the number of ids written so far
    rows    the table of pieces, in the order of their offsets, which the caller sets;
            :func:`new_shards` writes it at the end
    """

    def __init__(self, folder: Path, file: BinaryIO) -> None:
        self.tokens = 0
        self.rows: list[Piece] = []
        self._folder, self._file = folder, file

    def append(self, ids: np.ndarray) -> None:
        """Write the ids of a piece, (n,) uint16, without a row of the table."""
        self._file.write(ids.astype(ID, casting="safe").tobytes())
        self.tokens += len(ids)

    def write_text(self, name: str, text: str) -> None:
        """Write another file into the folder, such as a report."""
        path = self._folder / name
        path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


@contextmanager
def new_shards(
    folder: str | Path, tokenizer: Tokenizer, *, corpus: Mapping[str, Any], key: str = ""
) -> Iterator[Writer]:
    """Write a new shard folder atomically.

    At the end of the block the new folder is moved to ``folder`` and replaces an older shard
    folder. If the block raises an exception, the new folder is removed. Its bytes depend only on
    the arguments and the pieces. Raises ``UserError`` if ``folder`` exists and is not a shard
    folder, or cannot be written.
    """
    folder = Path(folder)
    files.check_writable(folder.parent, "corpus.shards")
    with (
        files.atomic_folder(folder, is_shards) as temporary,
        (temporary / TOKENS).open("wb") as tokens,
        (temporary / PIECES).open("wb") as table,
    ):
        writer = Writer(temporary, tokens)
        yield writer
        crc = 0
        for row in writer.rows:
            # ASCII, which can represent every file name, even one that is not valid text.
            line = json.dumps({f: getattr(row, f) for f in Piece._fields[1:]}).encode() + b"\n"
            table.write(line)
            crc = zlib.crc32(line, crc)
        header = {
            "format": FORMAT,
            "key": key,
            "fingerprint": tokenizer.fingerprint,
            "tokenizer": tokenizer.to_config(),
            "vocabulary": tokenizer.vocabulary.size,
            "corpus": dict(corpus),
            "pieces": len(writer.rows),
            "tokens": writer.tokens,
            "splits": {name: t._asdict() for name, t in totals_by_split(writer.rows).items()},
            "crc": crc,
        }
        writer.write_text(HEADER, json.dumps(header, indent=1) + "\n")
        for file in (tokens, table):
            file.flush()
            os.fsync(file.fileno())
