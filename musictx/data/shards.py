"""Token shards: a prepared corpus as one memory-mapped file of uint16 ids and a table of pieces.

::

    header.json    format, fingerprint and config of the tokenizer, corpus, key, totals by split
    pieces.jsonl   one line a piece: name, split, hash, offset, tokens, notes, seconds, begins, ends
    tokens.bin     the ids of all pieces, one after the other, little-endian uint16

Pieces are whole and hold bare events: no pad, bos, eos or cut. Opening a folder reads the two text
files and maps the third; ``tokens(i)`` is a view, so a corpus may be far larger than the memory and
is shared by all processes of a machine. A folder is written beside and renamed: it is there
complete or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import numpy as np

from musictx.errors import UserError
from musictx.files import swap

#: Raised by one whenever an older musictx could no longer read a new folder.
FORMAT = 1
SPLITS = ("train", "validation", "test")
HEADER, PIECES, TOKENS = "header.json", "pieces.jsonl", "tokens.bin"
_ID = np.dtype("<u2")


class Piece(NamedTuple):
    """One row of the piece table.

    number   its place in the folder: ``shards.tokens(piece.number)``
    name     path relative to the corpus folder with "/" between the parts, or the chorale's name
    split    train, validation or test
    hash     ``Score.content_hash()`` of what was read
    offset   where its ids begin in tokens.bin, counted in ids;  tokens  how many they are
    notes    notes written in these ids;  seconds  from the start of the piece to its last note end
    begins   the ids start where the piece starts;  ends  they end where it ends. Both are true but
             for the two parts of a corpus of one piece (see ``data/sources.py``).
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
    """Sums over the pieces of a split (or of all)."""

    pieces: int = 0
    tokens: int = 0
    notes: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        time = f"{self.seconds / 3600:.1f} h" if self.seconds >= 3600 else f"{self.seconds:.0f} s"
        pieces = f"{self.pieces:,} piece" + ("" if self.pieces == 1 else "s")
        return f"{pieces}, {time}, {self.notes:,} notes, {self.tokens:,} tokens"


class Named(Protocol):
    """What :meth:`Shards.check` needs of a tokenizer."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...


def is_shards(folder: Path) -> bool:
    """Whether ``folder`` looks like one that :class:`Writer` made (readable or not)."""
    return (folder / HEADER).is_file() and (folder / TOKENS).is_file()


class Writer:
    """Writes a shard folder; ``with Writer(folder, ...) as out: out.add(ids, ...)``.

    Leaving the block normally puts the folder in its place (an older shard folder there goes);
    leaving it by an exception removes what was written. The bytes depend on the arguments alone.
    Raises ``UserError`` if the place cannot be written or holds something else.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        fingerprint: str,
        tokenizer_config: Mapping[str, Any],
        corpus: Mapping[str, Any],
        key: str = "",
        beside: Path | None = None,
    ) -> None:
        """``beside``: the folder to write in before the renaming, on the same file system."""
        self.folder = Path(folder)
        self._header = {
            "format": FORMAT,
            "key": key,
            "fingerprint": fingerprint,
            "tokenizer": dict(tokenizer_config),
            "corpus": dict(corpus),
        }
        self.pieces: list[Piece] = []
        self._offset = 0
        unique = f".{self.folder.name}.writing-{uuid.uuid4().hex[:8]}"
        self._beside = beside or self.folder.parent / unique

    def __enter__(self) -> Writer:
        check_place(self.folder)
        try:
            self._beside.mkdir(parents=True)
            self._file = (self._beside / TOKENS).open("wb")
        except OSError as error:
            raise unwritable(self.folder, error) from error
        return self

    def add(
        self,
        ids: np.ndarray,
        *,
        name: str,
        split: str,
        hash: str = "",
        notes: int = 0,
        seconds: float = 0.0,
        begins: bool = True,
        ends: bool = True,
    ) -> None:
        """Append a piece of ``ids`` (n,) in 0..65535; the other arguments as in :class:`Piece`."""
        if split not in SPLITS:
            raise ValueError(f"split {split!r}: expected one of {', '.join(SPLITS)}")
        ids = np.asarray(ids)
        whole = ids.dtype.kind in "iu" or not len(ids)
        if not whole or (len(ids) and not 0 <= ids.min() <= ids.max() <= 65535):
            raise ValueError(f"ids of {name}: expected whole numbers from 0 to 65535")
        self._file.write(ids.astype(_ID).tobytes())
        number = len(self.pieces)
        self.pieces.append(
            Piece(number, name, split, hash, self._offset, len(ids), notes, seconds, begins, ends)
        )
        self._offset += len(ids)

    def write_text(self, name: str, text: str) -> None:
        """A further file of the folder, such as a report."""
        _write(self._beside / name, text)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        except OSError as problem:
            raise unwritable(self.folder, problem) from problem
        finally:
            self._file.close()
            shutil.rmtree(self._beside, ignore_errors=True)

    def _finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        # ASCII, so that any file name the system can hold (also one that is no text) can be written
        lines = [json.dumps({f: getattr(p, f) for f in p._fields[1:]}) for p in self.pieces]
        _write(self._beside / PIECES, "".join(line + "\n" for line in lines))
        totals = {split: total(self.pieces, split)._asdict() for split in SPLITS}
        header = self._header | {
            "pieces": len(self.pieces),
            "tokens": self._offset,
            "splits": totals,
        }
        _write(self._beside / HEADER, json.dumps(header, indent=1) + "\n")
        swap(self._beside, self.folder)


def check_place(folder: Path) -> None:
    """Raise ``UserError`` if ``folder`` is a file or holds something other than shards."""
    if folder.is_dir():
        if any(folder.iterdir()) and not is_shards(folder):
            raise UserError(
                f"{folder}: there is something else in this folder; give a new or empty one for "
                "the token shards"
            )
    elif folder.exists():
        raise UserError(f"{folder}: this is a file; give the name of a folder for the token shards")


def unwritable(folder: Path, error: OSError) -> UserError:
    """The sentence for a place where shards cannot be written."""
    return UserError(
        f"{folder}: cannot write token shards there ({error.strerror or error}); "
        "give another folder with corpus.shards=DIR"
    )


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def total(pieces: list[Piece], split: str | None = None) -> Totals:
    """Sums over ``pieces`` of ``split`` (None: all)."""
    rows = [p for p in pieces if split is None or p.split == split]
    return Totals(
        len(rows),
        sum(p.tokens for p in rows),
        sum(p.notes for p in rows),
        float(sum(p.seconds for p in rows)),
    )


class Shards:
    """A prepared corpus, opened for reading.

    Raises ``UserError`` if ``folder`` is not a shard folder, is of another format, or is damaged.
    Cheap to send to another process: it is opened again there.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.header = _read_header(self.folder)
        self.fingerprint: str = self.header["fingerprint"]
        self.tokenizer_config: dict[str, Any] = self.header["tokenizer"]
        self.corpus: dict[str, Any] = self.header["corpus"]
        self.key: str = self.header["key"]
        expected = int(self.header["tokens"]) * _ID.itemsize
        try:
            size = (self.folder / TOKENS).stat().st_size
        except OSError as error:
            raise _damaged(self.folder, f"{TOKENS} is missing") from error
        if size != expected:
            raise _damaged(self.folder, f"{TOKENS} has {size} bytes instead of {expected}")

    def __reduce__(self) -> tuple[type[Shards], tuple[Path]]:
        return Shards, (self.folder,)

    def __repr__(self) -> str:
        return f"Shards({self.folder}: {self.totals()})"

    @cached_property
    def _table(self) -> list[Piece]:
        try:
            with (self.folder / PIECES).open(encoding="utf-8") as file:
                table = [Piece(number=i, **json.loads(line)) for i, line in enumerate(file)]
        except (OSError, ValueError, TypeError) as error:
            raise _damaged(self.folder, f"{PIECES} cannot be read") from error
        offset = 0
        for piece in table:
            if piece.offset != offset or piece.tokens < 0 or piece.split not in SPLITS:
                raise _damaged(self.folder, f"{PIECES} does not fit {TOKENS}")
            offset += piece.tokens
        if offset != self.header["tokens"] or len(table) != self.header["pieces"]:
            raise _damaged(self.folder, f"{PIECES} has {len(table)} lines, too few or too many")
        return table

    @cached_property
    def _map(self) -> np.ndarray:
        if not self.header["tokens"]:
            return np.empty(0, _ID)
        return np.memmap(self.folder / TOKENS, dtype=_ID, mode="r")

    def __len__(self) -> int:
        """How many pieces there are, all splits together."""
        return len(self._table)

    def pieces(self, split: str | None = None) -> list[Piece]:
        """The pieces of a split in the order of their names (None: of all splits)."""
        if split is None:
            return list(self._table)
        if split not in SPLITS:
            raise UserError(f"split={split}: expected one of {', '.join(SPLITS)}")
        return [piece for piece in self._table if piece.split == split]

    def tokens(self, number: int) -> np.ndarray:
        """(n,) uint16: the ids of piece ``number``, a read-only view of the mapped file."""
        piece = self._table[number]
        return self._map[piece.offset : piece.offset + piece.tokens]

    def totals(self, split: str | None = None) -> Totals:
        """Pieces, tokens, notes and seconds of a split (None: of all)."""
        return total(self._table, split)

    def check(self, tokenizer: Named) -> None:
        """Raise ``UserError`` unless these ids are of ``tokenizer``'s vocabulary."""
        if tokenizer.fingerprint != self.fingerprint:
            raise UserError(
                f"{self.folder}: these shards were made by another tokenizer (fingerprint "
                f"{self.fingerprint}, {tokenizer.name} has {tokenizer.fingerprint}); prepare the "
                "corpus again with this tokenizer, or use the one it was prepared with"
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
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _damaged(folder, f"{HEADER} cannot be read") from error
    if version != FORMAT:
        raise UserError(
            f"{folder}: shards of format {version}, this musictx reads format {FORMAT}; "
            "prepare the corpus again"
        )
    wanted = {"key", "fingerprint", "tokenizer", "corpus", "pieces", "tokens", "splits"}
    if not wanted <= header.keys():
        raise _damaged(folder, f"{HEADER} lacks {', '.join(sorted(wanted - header.keys()))}")
    return header


def _damaged(folder: Path, what: str) -> UserError:
    return UserError(f"{folder}: damaged token shards, {what}; delete the folder and prepare again")
