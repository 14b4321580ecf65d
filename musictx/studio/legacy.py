"""Sessions from before there was a database -> :mod:`musictx.studio.store`; once for each.

``journal.jsonl`` had a line of JSON an operation, identified by the byte at which it begins;
``document.json`` the document as of some byte of it. Both stay where they are.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from musictx.errors import UserError
from musictx.files import atomic, read_bytes
from musictx.formats import read
from musictx.studio import exchange, store
from musictx.studio.change import clean_name, recorded, whole
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused

JOURNAL, SNAPSHOT = "journal.jsonl", "document.json"
#: A longer line is no line, and a larger snapshot none, MB: damaged ones would fill the memory.
MOST_MB = 64
DAMAGED = "The journal of this piece is damaged. What can be read of it is here."
#: What undoes the operation of a line, and what does it again.
_PART = {"undo": "back", "redo": "do"}
_IMPORT = threading.Lock()


def convert(folder: Path, limits: StudioLimits) -> None:
    """Make the database of the session in ``folder`` from its journal, unless it has one."""
    journal = folder / JOURNAL
    with _IMPORT:
        if (folder / store.DATABASE).exists() or not journal.exists():
            return
        if not journal.is_file():  # a pipe would never answer
            raise Refused("this session is damaged: its journal is no regular file", 404)
        with journal.open("rb") as file:
            old = _Old(folder, limits, file)
            places = [*old.done, *reversed(old.undone)]
            operations = (_both(_line(file, place)) for place in places)
            with atomic(folder / store.DATABASE) as part:
                remark = DAMAGED if old.damaged else None
                changed = datetime.fromtimestamp(journal.stat().st_mtime, UTC)
                store.create(part, old.document, operations, len(old.done), remark, changed)


class _Old:
    """The state after the lines of ``file``: the document, and the places of the operations that
    are done and undone; ``damaged`` lines are left out."""

    def __init__(self, folder: Path, limits: StudioLimits, file: BinaryIO) -> None:
        self.done: list[int] = []
        self.undone: list[int] = []
        self.damaged = 0
        self._file = file
        newest, at = self._from_snapshot(folder / SNAPSHOT)
        if newest is not None and _ends_line(file, at):
            self.document = newest
        else:
            self.done, self.undone, at = [], [], 0
            starts = sorted(folder.glob("start.*"))
            scores = [read(start, limits=limits) for start in starts]
            self.document = exchange.document_of(scores[0]) if scores else Document()
        for place, line in _lines(file, at):
            try:
                self._replay(place, line)
            except (UserError, LookupError, TypeError):
                self.damaged += 1
        if newest is not None and newest.revision > self.document.revision:
            # The end of the journal was lost from the disk: the snapshot stands, and no history.
            self.document, self.done, self.undone = newest, [], []

    def _from_snapshot(self, path: Path) -> tuple[Document | None, int]:
        try:
            data = json.loads(read_bytes(path, MOST_MB, "the size of a snapshot"))
            document = Document.restored(data["document"])
            places = [data["done"], data["undone"], [data["size"]]]
            done, undone, (at,) = ([whole(n, 0, 2**53, "place") for n in row] for row in places)
        except (OSError, UserError, ValueError, LookupError, TypeError, RecursionError):
            return None, 0
        self.done, self.undone = done, undone
        return document, at

    def _replay(self, place: int, line: dict[str, Any] | None) -> None:
        if line is None:
            raise Refused("it is damaged")
        revision = whole(line["revision"], 0, 2**53, "revision")
        if "do" in line:
            self._apply(line["do"])
            self.done.append(place)
            self.undone.clear()
        elif "undo" in line or "redo" in line:
            word, source, target = "undo", self.done, self.undone
            if word not in line:
                word, source, target = "redo", self.undone, self.done
            if source[-1:] != [line[word]]:
                raise Refused(f"{word}: another operation was the last")
            after = self._file.tell()
            self._apply((_line(self._file, line[word]) or {})[_PART[word]])
            self._file.seek(after)
            target.append(source.pop())
        else:
            self.document.name = clean_name(line["name"])
        self.document.revision = revision

    def _apply(self, data: Any) -> None:
        change = recorded(data)
        self.document.fits(change)
        self.document.apply(change)


def _ends_line(file: BinaryIO, at: int) -> bool:
    """Whether a line ends at byte ``at``."""
    if not 0 < at <= file.seek(0, io.SEEK_END):
        return False
    file.seek(at - 1)
    return file.read(1) == b"\n"


def _lines(file: BinaryIO, place: int) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """(place, line) from ``place`` on; of a damaged line None. What is torn at the end is none."""
    file.seek(place)
    while text := file.readline():
        line = _parsed(text)
        if line is not None or text.endswith(b"\n"):
            after = place + len(text)
            yield place, line
            file.seek(after)
        place += len(text)


def _line(file: BinaryIO, place: int) -> dict[str, Any] | None:
    file.seek(place)
    return _parsed(file.readline())


def _parsed(text: bytes) -> dict[str, Any] | None:
    if not text.endswith(b"\n") or len(text) > MOST_MB * 1_000_000:
        return None
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def _both(line: dict[str, Any] | None) -> tuple[str, str]:
    """An operation and its inverse; where they are damaged, undo ends there."""
    line = line or {}
    return json.dumps(line.get("do")), json.dumps(line.get("back"))
