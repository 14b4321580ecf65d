"""Let a command continue if it cannot print. If a pipe (``| head``) or stream is closed, or a disk
(``>``) is full, the printed text is lost, but the command still writes its files. Characters that a
terminal cannot show are escaped."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class _SafeStream:
    """A text stream that is redirected to the null device when it cannot be written."""

    def __init__(self, stream: Any) -> None:
        self._stream = io.StringIO() if stream is None else stream

    def write(self, text: str) -> int:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        with suppress(OSError):  # flush will raise it again
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            with suppress(OSError, ValueError), open(os.devnull, "w") as null:
                os.dup2(null.fileno(), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def ignore_output_errors() -> Iterator[None]:
    """A context in which ``sys.stdout`` and ``sys.stderr`` raise no errors."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_SafeStream(stream) for stream in streams)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = streams
