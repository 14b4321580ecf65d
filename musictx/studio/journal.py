"""Lines of JSON in a file that only grows: each is on the disk before anybody is told of it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from musictx.errors import UserError, WriteError
from musictx.files import write_bytes

#: A longer line is no line, and a larger snapshot or take is none, MB: a hundred thousand notes
#: changed at once are 10, a million movements of pedals 36. Damaged ones fill the memory.
MOST_MB = 64


class Journal:
    """The lines of ``path``, known by the byte at which they begin.

    What a killed process or a failing disk left of a line at the end is no line; it is cut off, and
    kept beside as ``NAME.rest``, before anything is added. A damaged line before a whole one stays
    where it is. Only what follows byte ``since`` is read and looked at, or all of it if no line
    ends there.
    """

    def __init__(self, path: Path, since: int = 0) -> None:
        self.path = path
        self._rest = b""
        with path.open("rb") if path.exists() else io.BytesIO() as file:
            since = since if 0 < since <= file.seek(0, io.SEEK_END) else 0
            file.seek(max(since - 1, 0))
            if since and file.read(1) != b"\n":
                since = file.seek(0)
            self._rest = file.read()
        self.since = self.size = since
        """Where reading began; bytes of whole lines."""

    def lines(self) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """(place, line) of those that were there when it was opened, from ``since`` on; once. Of a
        damaged line None."""
        place = self.since
        for line in self._rest.splitlines(keepends=True):
            found = _parsed(line)
            if found is not None or line.endswith(b"\n"):
                yield place, found
            place += len(line)
            if found is not None:
                self.size = place
        self._rest = self._rest[self.size - self.since :]

    def at(self, place: int) -> dict[str, Any]:
        """The line that begins at byte ``place``."""
        with self.path.open("rb") as file:
            file.seek(place)
            found = _parsed(file.readline())
        if found is None:
            raise WriteError("the journal of this session was changed by another program")
        return found

    def append(self, line: dict[str, Any]) -> int:
        """Put ``line`` at the end, on the disk; its place. :class:`WriteError` where the machine
        cannot write, and then the journal is as it was."""
        data = json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        if len(data) > MOST_MB * 1_000_000:
            raise UserError(f"this would take more than {MOST_MB} MB to write down; change less")
        place = self.size
        try:
            if self._rest:
                write_bytes(self.path.with_suffix(".rest"), self._rest)
            with self.path.open("r+b" if self.path.exists() else "xb") as file:
                file.truncate(place)
                file.seek(place)
                try:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    os.ftruncate(file.fileno(), place)
                    raise
        except OSError as error:
            raise WriteError(
                f"this piece cannot be written: {error.strerror or error}; nothing was changed"
            ) from error
        self._rest = b""
        self.size = place + len(data)
        return place


def last_line(path: Path) -> dict[str, Any] | None:
    """The last whole line of a journal, without reading all of it; None if there is none."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        data, begin = b"", end
        while True:
            lines = data.split(b"\n")
            # The first may have begun before; the last is empty or torn.
            whole = lines[1:-1] if begin else lines[:-1]
            for line in reversed(whole):
                found = _parsed(line + b"\n")
                if found is not None:
                    return found
            if not begin:
                return None
            step = min(begin, max(1 << 16, len(data)))
            begin -= step
            file.seek(begin)
            data = file.read(step) + data


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A whole line; None for a torn, damaged or endless one."""
    if not line.endswith(b"\n") or len(line) > MOST_MB * 1_000_000:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
