"""The folder of all sessions: they are created, looked up, listed, deleted and restored."""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
import unicodedata
import weakref
from collections import deque
from datetime import datetime
from pathlib import Path
from typing import Any

from musictx.errors import UserError, WriteError
from musictx.files import atomic_folder, tidy
from musictx.studio import store
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.session import Session, fill_folder, sync

#: The pattern of the ids of sessions, which are the names of their folders.
ID = r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?"
#: The folder of deleted sessions.
DELETED = "deleted"
#: The number of sessions that stay in memory when nobody uses them.
CACHED = 8


class Sessions:
    """Every session under ``folder``. While a session is in use, :meth:`get` always returns the
    same object."""

    def __init__(self, folder: Path, limits: StudioLimits) -> None:
        self.folder = folder
        self.limits = limits
        self._lock = threading.Lock()
        self._all: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        self._recent: deque[Session] = deque(maxlen=CACHED)
        folder.mkdir(parents=True, exist_ok=True)
        tidy(folder)

    def create(self, document: Document, data: bytes = b"", suffix: str = ".mid") -> Session:
        """Return a new session of ``document``, which was read from a file with this ``data`` and
        ``suffix``, if any."""
        while True:
            name = f"{datetime.now():%Y%m%d}-{_slug(document.name)}-{secrets.token_hex(2)}"
            if not (self.folder / name).exists() and not (self.folder / DELETED / name).exists():
                break
        with atomic_folder(self.folder / name) as new_folder:
            fill_folder(new_folder, document, data, suffix)
        sync(self.folder)
        return self.get(name)

    def get(self, name: str) -> Session:
        """Return the session with the id ``name``; raise :class:`Refused` (404) if there is
        none."""
        with self._lock:
            session = self._all.get(name)
            if session is None:
                if not _is_session(self.folder / name):
                    raise Refused("there is no such session; it may have been deleted", 404)
                session = self._all[name] = Session(self.folder / name, self.limits)
            self._recent.append(session)
            return session

    def list(self) -> list[dict[str, Any]]:
        """Return an entry for each session, the last changed first."""
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
            if target.exists():  # somebody has restored a copy by hand
                target = target.with_name(f"{name}-{secrets.token_hex(2)}")
            _move(session.folder, target)
            session.folder, session.deleted = target, True
            self._all.pop(name, None)

    def restore(self, name: str) -> None:
        """Move a deleted session back; raise :class:`Refused` if there is none of this name."""
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
    """Return the letters and digits of ``name`` in ASCII, which any file system accepts."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", letters)[:24].strip("-") or "music"
