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

#: Names of folders that are sessions.
ID = r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?"
#: Where deleted sessions go.
DELETED = "deleted"
#: Those that were asked for last are kept in memory although nobody holds them.
KEPT = 8


class Sessions:
    """Every session under ``folder``. A session is one object as long as anybody holds it."""

    def __init__(self, folder: Path, limits: StudioLimits) -> None:
        self.folder = folder
        self.limits = limits
        self._lock = threading.Lock()
        self._all: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        self._recent: deque[Session] = deque(maxlen=KEPT)
        folder.mkdir(parents=True, exist_ok=True)
        tidy(folder)

    def create(self, document: Document, start: tuple[str, bytes] | None = None) -> Session:
        """A new session that begins with ``document``, read from the bytes of ``start``."""
        while True:
            name = f"{datetime.now():%Y%m%d}-{_slug(document.name)}-{secrets.token_hex(2)}"
            if not (self.folder / name).exists() and not (self.folder / DELETED / name).exists():
                break
        with atomic_folder(self.folder / name) as part:
            fill_folder(part, document, start)
        sync(self.folder)
        return self.get(name)

    def get(self, name: str) -> Session:
        """The session of that id; :class:`Refused` (404) if there is none."""
        with self._lock:
            session = self._all.get(name)
            if session is None:
                folder = self.folder / name
                if not re.fullmatch(ID, name) or name == DELETED or not folder.is_dir():
                    raise Refused("there is no such session; it may have been deleted", 404)
                session = self._all[name] = Session(folder, self.limits)
            self._recent.append(session)
            return session

    def list(self) -> list[dict[str, Any]]:
        """An entry for each session, the one changed last first."""
        entries = []
        for folder in self.folder.iterdir():
            if not re.fullmatch(ID, folder.name) or folder.name == DELETED or not folder.is_dir():
                continue
            with contextlib.suppress(OSError, UserError):  # damaged, or just deleted
                entries.append({"id": folder.name} | store.summary(folder / store.DATABASE))
        return sorted(entries, key=lambda entry: str(entry["changed"]), reverse=True)

    def delete(self, session: Session) -> None:
        """Move the session to ``deleted/``, from where :meth:`restore` brings it back."""
        name = session.id
        with session.held(), self._lock:
            target = self.folder / DELETED / name
            if target.exists():  # what was brought back by hand was a copy of it
                target = target.with_name(f"{name}-{secrets.token_hex(2)}")
            try:
                target.parent.mkdir(exist_ok=True)
                session.folder.rename(target)
            except OSError as error:
                raise WriteError(f"the session cannot be moved: {error.strerror}") from error
            session.folder, session.deleted = target, True
            self._all.pop(name, None)

    def restore(self, name: str) -> None:
        """Bring a deleted session back to where it was; :class:`Refused` where there is none."""
        with self._lock:
            source, target = self.folder / DELETED / name, self.folder / name
            if target.exists() or not source.is_dir():
                raise Refused("there is no such deleted piece", 404)
            try:
                source.rename(target)
            except OSError as error:
                raise WriteError(f"the piece cannot be moved: {error.strerror}") from error


def _slug(name: str) -> str:
    """Letters and digits of ``name`` that any file system takes."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:24].strip("-") or "music"
