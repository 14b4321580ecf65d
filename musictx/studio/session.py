"""A document and its history: every operation is on the disk before it is acknowledged.

Folder of a session:
    start.mid, start.musicxml   the file that it began with, if there was one
    piece.sqlite                the document and every operation (musictx/studio/store.py)
    takes/                      what was composed (musictx/studio/composer.py)
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from musictx.errors import UserError
from musictx.files import tidy, write_bytes
from musictx.studio import exchange, store
from musictx.studio.change import Change, recorded
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused

START = "start"


class Session:
    """One session, from its folder. ``lock`` is held by whoever reads or changes it; every method
    takes it itself. :class:`Refused` (404) for one that is damaged."""

    def __init__(self, folder: Path, limits: StudioLimits) -> None:
        self.id = folder.name
        self.folder = folder
        self.lock = threading.RLock()
        self.deleted = False
        self._limits = limits
        for place in (folder, folder / "takes"):
            tidy(place)
        self.document, self._history = store.load(folder / store.DATABASE)

    # ------------------------------------------------------------------------------ operations

    def do(self, change: Change, revision: int) -> dict[str, Any]:
        """Apply a change that a page made on ``revision``; what the page needs to know then.

        :class:`Refused` for a revision that is no longer the document's (409) and a change that
        cannot be; then nothing is changed.
        """
        with self.held():
            self._fresh(revision)
            before = exchange.horizon(self.document)
            change = exchange.stored_names(change, self.document)
            change = self.document.check(change, self._limits)
            next_id = self.document.next_id
            back = self.document.apply(change)
            place = self._history.done + 1
            try:
                self._write(change, back, store.History(place, place), new=True)
            except BaseException:
                self.document.next_id = next_id
                raise
            after = exchange.horizon(self.document)
            answer = self._standing() | {"next_id": self.document.next_id}
            answer["duration"] = self.document.duration
            if change.tracks is not None:  # what is shown where one has no name may be another
                answer["tracks"] = exchange.tracks(self.document)
            if change.markers is not None:
                answer |= exchange.above(self.document)
            return answer if before == after else answer | {"beats": exchange.beats(self.document)}

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
        with self.held():
            self._fresh(revision)
            self.do(self.document.accepting(take, proposal, label), revision)
            return self.json()

    def _move(self, revision: int, word: str) -> dict[str, Any]:
        with self.held():
            self._fresh(revision)
            done, length = self._history
            if done == (0 if word == "undo" else length):
                raise Refused(f"there is nothing to {word}", 409, revision=self.document.revision)
            change = self._step(word)
            self.document.fits(change)
            back = self.document.apply(change)
            after = store.History(done - 1 if word == "undo" else done + 1, length)
            self._write(change, back, after)
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
        with self.lock:
            if self.deleted:
                raise Refused("this session was deleted", 404)
            yield self.folder

    def _fresh(self, revision: Any) -> None:
        if revision != self.document.revision or type(revision) is not int:
            sentence = "another page changed this music in between; it is read again"
            raise Refused(sentence, 409, revision=self.document.revision)

    def _write(
        self, change: Change, back: Change, history: store.History, new: bool = False
    ) -> None:
        """Acknowledge ``change``, just applied; ``back`` takes it away if the disk does not."""
        place = self.folder / store.DATABASE
        try:
            store.write(place, self.document, change, back, history.done, new)
        except BaseException:
            self.document.apply(back)
            self.document.revision -= 2
            raise
        self._history = history

    # --------------------------------------------------------------------------------- answers

    def json(self) -> dict[str, Any]:
        """The document as a page gets it, without takes."""
        with self.lock:
            return {"id": self.id} | exchange.view(self.document) | self._standing()

    def start(self) -> bytes:
        """The MIDI file that it began with; nothing of another, or none."""
        with contextlib.suppress(OSError):
            return (self.folder / f"{START}.mid").read_bytes()
        return b""

    def copy(self) -> Document:
        """A copy of the document as it stands."""
        with self.lock:
            held = self.document
            return dataclasses.replace(
                held,
                notes=dict(held.notes),
                locked=set(held.locked),
                accepted=set(held.accepted),
            )

    def _standing(self) -> dict[str, Any]:
        return {
            "revision": self.document.revision,
            "music": exchange.music_of(self.document),
            "can_undo": self._history.done > 0,
            "can_redo": self._history.done < self._history.length,
        }


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
