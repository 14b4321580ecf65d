"""stdout and stderr that may be full, closed or gone: a command does its work all the same.

What a command says is not what it is for. A pipe that nobody reads any more (``| head``), a full
disk behind ``>`` or a closed stream (``>&-``) must not keep it from writing its files.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class ForgivingStream:
    """A text stream of which failed writes are kept in ``failed`` and not raised; after the first
    one all goes to the null device."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.failed: OSError | None = None

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._lost(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lost(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _lost(self, error: OSError) -> None:
        self.failed = self.failed or error
        with suppress(OSError, ValueError, AttributeError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)


@contextmanager
def forgiving() -> Iterator[None]:
    """Within it ``sys.stdout`` and ``sys.stderr`` raise nothing; then one sentence says on stderr
    if what was printed could not be written. Who has closed a pipe is told nothing."""
    before = sys.stdout, sys.stderr
    _open_closed()
    out, err = (ForgivingStream(io.StringIO() if stream is None else stream) for stream in before)
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        out.flush()
        if out.failed is not None and not isinstance(out.failed, BrokenPipeError):
            reason = out.failed.strerror or out.failed
            err.write(f"musictx: what it prints could not be written: {reason}\n")
        err.flush()
        sys.stdout, sys.stderr = before


def _open_closed() -> None:
    """Else the next file that is opened would be stdout to all that prints."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
