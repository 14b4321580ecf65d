"""A session is a document with its history, in a folder. An operation is acknowledged only once it
is on the disk.

Files in the folder of a session:
    start.mid, start.musicxml   the file that was opened, if there was one
    piece.sqlite                the document and every operation (musictx/studio/store.py)
    takes/                      composed music (musictx/studio/takes.py)
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import unicodedata
import weakref
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from functools import partialmethod
from pathlib import Path
from typing import Any

from musictx.errors import UserError, WriteError, shown
from musictx.files import atomic_folder, remove_partial, write_bytes
from musictx.studio import exchange, store
from musictx.studio.change import Change
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused, validate
from musictx.studio.takes import Takes

#: The name, without its ending, of the file that was opened.
OPENED_FILE = "start"
#: The pattern of the ids of sessions, which are the names of their folders.
ID = r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?"
#: The folder of deleted sessions.
DELETED = "deleted"
#: The number of sessions, the last used ones, that stay in memory.
CACHED = 8


class Session:
    """One session, read from its folder. Raises :class:`Refused` (404) if it is damaged. An
    operation never changes ``document``, but replaces it by a new one once it is on the disk."""

    def __init__(self, folder: Path, limits: StudioLimits) -> None:
        self.id = folder.name
        self.folder = folder
        self.deleted = False
        self._lock = threading.RLock()
        self._limits = limits
        remove_partial(folder)
        # The history has ``_length`` operations; all after the first ``_done`` are undone.
        self.document, self._done, self._length = store.load(folder / store.DATABASE)
        self.takes = Takes(folder)  # only the composer changes them

    def apply(self, change: Change, revision: Any) -> dict[str, Any]:
        """Apply a change of a page, and return :func:`.exchange.derived_json`. Raise
        :class:`Refused`, without changing anything, if the document has another ``revision`` than
        that which the page changed (409), or the change cannot be applied."""
        with self.locked_folder():
            document = self.document_at(revision)
            change = document.check(change, self._limits)
            path, done = self.folder / store.DATABASE, self._done + 1
            self.document = store.write(path, document, change, done, is_new=True)
            self._done = self._length = done
            return exchange.derived_json(self.document) | self._undo_state()

    def _undo_or_redo(self, word: str, revision: Any) -> dict[str, Any]:
        """Undo the last operation, or redo the last undone one, and return the document as JSON."""
        with self.locked_folder():
            document, is_undo = self.document_at(revision), word == "undo"
            if self._done == (0 if is_undo else self._length):
                raise Refused(f"there is nothing to {word}", 409, revision=revision)
            number = self._done if is_undo else self._done + 1
            path = self.folder / store.DATABASE
            change = validate(Change, store.operation(path, number, inverse=is_undo))
            document.check_references(change)
            done = number - 1 if is_undo else number
            self.document = store.write(path, document, change, done, is_new=False)
            self._done = done
            return self.json()

    undo, redo = partialmethod(_undo_or_redo, "undo"), partialmethod(_undo_or_redo, "redo")

    @contextlib.contextmanager
    def locked_folder(self) -> Iterator[Path]:
        """Yield the folder, which no other thread moves or changes until the block ends. Raise
        :class:`Refused` (404) if the session is deleted."""
        with self._lock:
            if self.deleted:
                raise Refused("this session was deleted", 404)
            yield self.folder

    def document_at(self, revision: Any) -> Document:
        """Return the document; raise :class:`Refused` (409) if it has another ``revision``."""
        document = self.document
        if type(revision) is not int:
            raise Refused(f"revision={shown(revision)}: expected the piece's, a whole number")
        if revision != document.revision:
            sentence = "this music has changed meanwhile, so nothing was done"
            raise Refused(sentence, 409, revision=document.revision)
        return document

    def json(self) -> dict[str, Any]:
        """Return the document as JSON for a page, without takes."""
        with self._lock:
            return {"id": self.id} | exchange.document_json(self.document) | self._undo_state()

    def opened_file(self) -> bytes:
        """Return the content of the MIDI file that was opened; b"" if there was none."""
        with contextlib.suppress(OSError):
            return (self.folder / f"{OPENED_FILE}.mid").read_bytes()
        return b""

    def _undo_state(self) -> dict[str, bool]:
        return {"can_undo": self._done > 0, "can_redo": self._done < self._length}


class Sessions:
    """All sessions under ``folder``. Two users of one session get the same object."""

    def __init__(self, folder: Path, limits: StudioLimits) -> None:
        self.folder = folder
        self.limits = limits
        self._lock = threading.Lock()
        self._all: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        self._recent: deque[Session] = deque(maxlen=CACHED)
        folder.mkdir(parents=True, exist_ok=True)
        remove_partial(folder)

    def create(self, document: Document, data: bytes = b"", suffix: str = ".mid") -> Session:
        """Create a session of ``document``, which was read from the file ``data`` (b"": none),
        whose name ends in ``suffix``."""
        while True:
            name = f"{datetime.now():%Y%m%d}-{_slug(document.name)}-{secrets.token_hex(2)}"
            if not (self.folder / name).exists() and not (self.folder / DELETED / name).exists():
                break
        with atomic_folder(self.folder / name) as new_folder:
            if data:
                write_bytes(new_folder / (OPENED_FILE + suffix), data)
            store.create(new_folder / store.DATABASE, document)
        with contextlib.suppress(OSError):  # where possible, write the new name to the disk, too
            handle = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return self.get(name)

    def get(self, name: str) -> Session:
        """Return the session ``name``; raise :class:`Refused` (404) if there is none."""
        with self._lock:
            session = self._all.get(name)
            if session is None:
                if not _is_session(self.folder / name):
                    raise Refused("there is no such session; it may have been deleted", 404)
                session = self._all[name] = Session(self.folder / name, self.limits)
            self._recent.append(session)
            return session

    def list(self) -> list[dict[str, Any]]:
        """Return an entry for each session as JSON, the last changed first."""
        entries = []
        for folder in filter(_is_session, self.folder.iterdir()):
            with contextlib.suppress(OSError, UserError):  # damaged, or just deleted
                entries.append({"id": folder.name} | store.summary(folder / store.DATABASE))
        return sorted(entries, key=lambda entry: str(entry["changed"]), reverse=True)

    def delete(self, session: Session) -> None:
        """Move the session to ``deleted/``; :meth:`restore` moves it back."""
        name = session.id
        with session.locked_folder(), self._lock:
            target = self.folder / DELETED / name
            _move(session.folder, target)
            session.folder, session.deleted = target, True
            self._all.pop(name, None)

    def restore(self, name: str) -> None:
        """Move a deleted session back. Raise :class:`Refused` (404) if there is none."""
        with self._lock:
            source, target = self.folder / DELETED / name, self.folder / name
            if target.exists() or not source.is_dir():
                raise Refused("there is no such deleted piece", 404)
            _move(source, target)


def _move(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(exist_ok=True)
        source.rename(target)
    except OSError as error:
        raise WriteError(f"the piece cannot be moved: {error.strerror}") from error


def _is_session(folder: Path) -> bool:
    return bool(re.fullmatch(ID, folder.name)) and folder.name != DELETED and folder.is_dir()


def _slug(name: str) -> str:
    """Return ``name`` in lower-case ASCII letters, digits and hyphens, as any file system has."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", letters)[:24].strip("-") or "music"
