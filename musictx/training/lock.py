"""One process at a time in a folder."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

from musictx.errors import UserError
from musictx.files import cannot_write, lock


class Lock:
    """``with Lock(folder / ".lock"):`` the second process is refused, with who has it.

    The system gives the lock back when its process ends, in whatever way. Where a file system knows
    no locks, nothing is locked. Folders made for the lock go again if nothing else came into them.
    """

    def __init__(self, path: Path, option: str = "out", doing: str = "is training in") -> None:
        self.path = path
        self._option, self._doing = f"{option}={path.parent}", doing
        self._file: Any = None
        self._made: list[Path] = []  # folders that were not there, innermost first

    def __enter__(self) -> Lock:
        self._made = [folder for folder in self.path.parents if not folder.exists()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+", encoding="utf-8")
        except OSError as error:
            raise cannot_write(self._option, error) from error
        try:
            lock(self._file, wait=False)
        except (BlockingIOError, PermissionError):
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise UserError(
                f"{self._option}: {holder} {self._doing} this folder; wait for it, or give another "
                "folder"
            ) from None
        except OSError:
            pass  # no locks here
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self._file.flush()
        return self

    def __exit__(self, *error: object) -> None:
        if sys.platform == "win32":  # which removes no file that is open
            self._file.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
        self._file.close()
        with contextlib.suppress(OSError):  # what is not empty stays
            for folder in self._made:
                folder.rmdir()
