"""Writes a shard folder (see :mod:`musictx.data.shards`): whole, or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from musictx import files
from musictx.data.shards import (
    FORMAT,
    HEADER,
    PIECES,
    SPLITS,
    TOKENS,
    Piece,
    Totals,
    checked,
    is_shards,
)
from musictx.errors import UserError


class Writer:
    """``with Writer(folder, ...) as out``: ``out.append(ids, name)`` for each piece, then
    ``out.write_row(piece)`` for each row of the table; ``out.add`` does both.

    Leaving the block normally puts the folder in its place (an older shard folder there goes);
    leaving it by an exception removes what was written. The bytes depend on the arguments alone.
    Raises ``UserError`` if the place holds something else or cannot be written.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        fingerprint: str,
        tokenizer_config: Mapping[str, Any],
        corpus: Mapping[str, Any],
        key: str = "",
        vocabulary: int = 2**16,
    ) -> None:
        """``vocabulary``: the size of the tokenizer's, ids are below it."""
        self.folder = Path(folder)
        self.totals = {split: Totals() for split in SPLITS}
        self._vocabulary = vocabulary
        self._header = {
            "format": FORMAT,
            "key": key,
            "fingerprint": fingerprint,
            "tokenizer": dict(tokenizer_config),
            "vocabulary": vocabulary,
            "corpus": dict(corpus),
        }
        self._offset = self._crc = 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Writer:
        check_place(self.folder)
        with contextlib.ExitStack() as stack:
            self._temporary = stack.enter_context(files.atomic_folder(self.folder))
            self._tokens = stack.enter_context((self._temporary / TOKENS).open("wb"))
            self._table = stack.enter_context((self._temporary / PIECES).open("wb"))
            self._stack = stack.pop_all()
        return self

    def append(self, ids: np.ndarray, name: str) -> tuple[int, int]:
        """Write ``ids`` (n,) of the vocabulary, of the piece ``name``; (their offset, n)."""
        offset = self._offset
        self._tokens.write(checked(ids, self._vocabulary, f"ids of {name}").tobytes())
        self._offset += len(ids)
        return offset, len(ids)

    def write_row(self, piece: Piece) -> None:
        """A row of the table, whose ids are written; rows come in the order of their offsets."""
        if piece.split not in SPLITS:
            raise ValueError(f"split {piece.split!r}: expected one of {', '.join(SPLITS)}")
        # ASCII, so that any file name the system can hold (also one that is no text) can be written
        line = json.dumps({f: getattr(piece, f) for f in Piece._fields[1:]}).encode() + b"\n"
        self._table.write(line)
        self._crc = zlib.crc32(line, self._crc)
        self.totals[piece.split] = self.totals[piece.split].plus(piece)

    def add(self, ids: np.ndarray, *, name: str, split: str, hash: str = "", **fields: Any) -> None:
        """Append a piece and its row; ``fields``: the others of ``Piece``."""
        offset, tokens = self.append(ids, name)
        fields = {"notes": 0, "seconds": 0.0} | fields
        self.write_row(Piece(0, name, split, hash, offset, tokens, **fields))

    def write_text(self, name: str, text: str) -> None:
        """A further file of the folder, such as a report."""
        path = self._temporary / name
        path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            header = self._header | {
                "pieces": sum(t.pieces for t in self.totals.values()),
                "tokens": self._offset,
                "splits": {split: t._asdict() for split, t in self.totals.items()},
                "crc": self._crc,
            }
            self.write_text(HEADER, json.dumps(header, indent=1) + "\n")
            for file in (self._tokens, self._table):
                file.flush()
                os.fsync(file.fileno())


def check_place(folder: Path) -> None:
    """Raise ``UserError`` if ``folder`` is a file, holds something other than shards, or cannot be
    written."""
    if folder.is_dir():
        if any(folder.iterdir()) and not is_shards(folder):
            raise UserError(
                f"{folder}: there is something else in this folder; give a new or empty one for "
                "the token shards"
            )
    elif folder.exists():
        raise UserError(f"{folder}: this is a file; give the name of a folder for the token shards")
    files.check_writable(folder.parent, "corpus.shards")
