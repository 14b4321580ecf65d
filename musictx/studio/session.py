"""A document and its history: every operation is on the disk before it is acknowledged.

Folder of a session:
    start.mid, start.musicxml   the file that it began with, if there was one
    piece.sqlite                the document and every operation (musictx/studio/store.py)
    takes/                      what was composed (musictx/studio/takes.py)
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from musictx.errors import UserError
from musictx.files import tidy, write_bytes
from musictx.studio import exchange, store
from musictx.studio.change import Change, recorded
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.takes import Takes

START = "start"


class Session:
    """One session, from its folder; :class:`Refused` (404) for one that is damaged. Its
    ``document`` is never changed: an operation puts another one in its place, once that is on the
    disk."""

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
        """Its takes, for the composer."""
        return Takes(self.folder)

    # ------------------------------------------------------------------------------ operations

    def do(self, change: Change, revision: int) -> dict[str, Any]:
        """Apply a change that a page made on ``revision``; what else is different then.

        :class:`Refused` for a revision that is no longer the document's (409) and a change that
        cannot be; then nothing is changed.
        """
        with self._at(revision) as document:
            change = document.check(exchange.stored_names(change, document), self._limits)
            place = self._history.done + 1
            self._write(change, store.History(place, place), new=True)
            return exchange.derived(self.document) | self._standing()

    def undo(self, revision: int) -> dict[str, Any]:
        """Take back the last operation that stands; the document (see :meth:`json`)."""
        return self._move(revision, "undo")

    def redo(self, revision: int) -> dict[str, Any]:
        """Do again what was undone last; the document."""
        return self._move(revision, "redo")

    def accept(
        self, take: int, proposal: dict[str, Any], label: str, revision: int
    ) -> dict[str, Any]:
        """Bring the notes of a proposal, as one operation; the document."""
        with self._at(revision) as document:
            self.do(document.accepting(take, proposal, label), revision)
            return self.json()

    def _move(self, revision: int, word: str) -> dict[str, Any]:
        with self._at(revision) as document:
            done, length = self._history
            if done == (0 if word == "undo" else length):
                raise Refused(f"there is nothing to {word}", 409, revision=revision)
            change = self._step(word)
            document.fits(change)
            after = store.History(done - 1 if word == "undo" else done + 1, length)
            self._write(change, after)
            return self.json()

    def _step(self, word: str) -> Change:
        """What undoes the last operation that stands, or does the next one again."""
        place = self._history.done + (word == "redo")
        try:
            change, back = store.operation(self.folder / store.DATABASE, place)
            return recorded(back if word == "undo" else change)
        except UserError:
            raise Refused(f"the history of this session is damaged; {word} ends here") from None

    @contextlib.contextmanager
    def held(self) -> Iterator[Path]:
        """The folder, which stays where it is until the block ends; :class:`Refused` (404) once the
        session is deleted. Whoever writes there holds it."""
        with self._lock:
            if self.deleted:
                raise Refused("this session was deleted", 404)
            yield self.folder

    @contextlib.contextmanager
    def _at(self, revision: Any) -> Iterator[Document]:
        """The document, which nobody else changes until the block ends; :class:`Refused` (409) if
        it is not of this ``revision``."""
        with self.held():
            if revision != self.document.revision or type(revision) is not int:
                sentence = "another page changed this music in between; it is read again"
                raise Refused(sentence, 409, revision=self.document.revision)
            yield self.document

    def _write(self, change: Change, history: store.History, new: bool = False) -> None:
        document = self.document.copy()
        back = document.apply(change)
        store.write(self.folder / store.DATABASE, document, change, back, history.done, new)
        self.document, self._history = document, history

    # --------------------------------------------------------------------------------- answers

    def json(self) -> dict[str, Any]:
        """The document as a page gets it, without takes."""
        with self._lock:
            return {"id": self.id} | exchange.view(self.document) | self._standing()

    def start(self) -> bytes:
        """The MIDI file that it began with; nothing of another, or none."""
        with contextlib.suppress(OSError):
            return (self.folder / f"{START}.mid").read_bytes()
        return b""

    def _standing(self) -> dict[str, bool]:
        done, length = self._history
        return {"can_undo": done > 0, "can_redo": done < length}


def fill_folder(folder: Path, document: Document, start: tuple[str, bytes] | None) -> None:
    """Fill the new ``folder`` of a session that begins with ``document``, read from the bytes of
    ``start``, (".mid", bytes), if there are any."""
    if start is not None:
        write_bytes(folder / (START + start[0]), start[1])
    store.create(folder / store.DATABASE, document)


def sync(folder: Path) -> None:
    """Bring the names of the files in ``folder`` to the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


Publish = Callable[[str, str, Any], None]
"""Sends an event to the pages of a session: (id, kind of event, data); from any thread."""
