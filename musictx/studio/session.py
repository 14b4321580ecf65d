"""A document and its history: every operation is on the disk before it is acknowledged.

Files in the folder of a session:
    start.mid, start.musicxml   the file that was opened, if there was one
    piece.sqlite                the document and every operation (musictx/studio/store.py)
    takes/                      composed music (musictx/studio/takes.py)
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from functools import cached_property, partialmethod
from pathlib import Path
from typing import Any

from musictx.errors import UserError
from musictx.files import tidy, write_bytes
from musictx.studio import exchange, store
from musictx.studio.acceptance import acceptance
from musictx.studio.change import Change
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused, validate
from musictx.studio.takes import Takes
from musictx.studio.timing import retimed

#: The name, without its ending, of the file that was opened.
OPENED_FILE = "start"


class Session:
    """One session, read from its folder; :class:`Refused` (404) if it is damaged.

    A ``document`` is never changed: an operation replaces it by a new document, once the operation
    is on the disk."""

    def __init__(self, folder: Path, limits: StudioLimits) -> None:
        self.id = folder.name
        self.folder = folder
        self.deleted = False
        self._lock = threading.RLock()
        self._limits = limits
        tidy(folder)
        self.document, self._history = store.load(folder / store.DATABASE)

    @cached_property
    def takes(self) -> Takes:
        """The takes, which only the composer changes."""
        return Takes(self.folder)

    # ------------------------------------------------------------------------------ operations

    def do(self, change: Change, revision: int) -> dict[str, Any]:
        """Apply a change that a page made on ``revision``. Return the parts of the document that
        follow from others and may have changed.

        Raise :class:`Refused`, without changing anything, if the document has another revision
        (409) or the change cannot be applied.
        """
        with self._locked(revision) as document:
            change = document.check(exchange.stored_names(change, document), self._limits)
            number = self._history.done + 1
            self._write(change, store.History(number, number), is_new=True)
            return exchange.derived_json(self.document) | self._undo_state()

    def accept(
        self, take: int, proposal: dict[str, Any], label: str, revision: int
    ) -> dict[str, Any]:
        """Add the notes of a proposal, as one operation, and return the document."""
        with self._locked(revision) as document:
            self.do(acceptance(document, take, proposal, label), revision)
            return self.json()

    def retime(self, data: dict[str, Any], revision: int) -> dict[str, Any]:
        """Change tempo, meter or key, as one operation (see :func:`retimed`), and return the
        document."""
        with self._locked(revision) as document:
            change = retimed(document, data, data.pop("keep_beats", True) is not False)
            if change != Change(change.label):
                self.do(change, revision)
            return self.json()

    def _step(self, word: str, revision: int) -> dict[str, Any]:
        """Undo the last operation, or apply again the one that was undone last, and return the
        document; ``word`` is "undo" or "redo"."""
        with self._locked(revision) as document:
            done, length = self._history
            if done == (0 if word == "undo" else length):
                raise Refused(f"there is nothing to {word}", 409, revision=revision)
            number = done if word == "undo" else done + 1
            try:
                change, inverse = store.operation(self.folder / store.DATABASE, number)
                step = validate(Change, inverse if word == "undo" else change)
            except UserError:
                raise Refused(f"the history of this session is damaged; {word} ends here") from None
            document.check_references(step)
            self._write(step, store.History(number - (word == "undo"), length))
            return self.json()

    undo, redo = partialmethod(_step, "undo"), partialmethod(_step, "redo")

    @contextlib.contextmanager
    def locked_folder(self) -> Iterator[Path]:
        """Lock the folder, so that it is neither moved nor changed by other threads until the block
        ends. Raise :class:`Refused` (404) if the session is deleted."""
        with self._lock:
            if self.deleted:
                raise Refused("this session was deleted", 404)
            yield self.folder

    @contextlib.contextmanager
    def _locked(self, revision: Any) -> Iterator[Document]:
        """Lock the document, so that no other thread changes it until the block ends. Raise
        :class:`Refused` (409) if the document does not have this ``revision``."""
        with self.locked_folder():
            if revision != self.document.revision or type(revision) is not int:
                sentence = "another page changed this music in between; it is read again"
                raise Refused(sentence, 409, revision=self.document.revision)
            yield self.document

    def _write(self, change: Change, history: store.History, is_new: bool = False) -> None:
        document = self.document.copy()
        inverse = document.apply(change)
        path = self.folder / store.DATABASE
        store.write(path, document, change, inverse, history.done, is_new)
        self.document, self._history = document, history

    # --------------------------------------------------------------------------------- answers

    def json(self) -> dict[str, Any]:
        """Return the document as JSON for a page, without takes."""
        with self._lock:
            return {"id": self.id} | exchange.document_json(self.document) | self._undo_state()

    def opened_file(self) -> bytes:
        """Return the MIDI file that was opened; b"" if there is none or it was no MIDI file."""
        with contextlib.suppress(OSError):
            return (self.folder / f"{OPENED_FILE}.mid").read_bytes()
        return b""

    def _undo_state(self) -> dict[str, bool]:
        done, length = self._history
        return {"can_undo": done > 0, "can_redo": done < length}


def fill_folder(folder: Path, document: Document, data: bytes = b"", suffix: str = ".mid") -> None:
    """Write the first files of a session into its new ``folder``: ``document``, and the file that
    was opened, if any, with its ``data`` and ending."""
    if data:
        write_bytes(folder / (OPENED_FILE + suffix), data)
    store.create(folder / store.DATABASE, document)


def sync(folder: Path) -> None:
    """Write the names of the files in ``folder`` to the disk, where the system supports this."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
