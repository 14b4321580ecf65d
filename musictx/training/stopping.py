"""Ctrl-C during training: finish the step, keep everything, then stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any


class Stopped(Exception):
    """Training was asked to stop and has saved its state."""


class StoppedAtOnce(BaseException):
    """The person asked twice: stop where we stand. Not an ``Exception``, so nothing swallows it."""


class StopRequest:
    """``with StopRequest() as request:`` SIGINT and SIGTERM set ``request.signal``.

    The first one only asks: whoever trains looks at ``signal`` between two steps. A second SIGINT
    raises :class:`StoppedAtOnce` on the spot. Outside the main thread signals cannot be caught;
    then nothing changes. ``tell``: say on stderr that it was heard.
    """

    def __init__(self, *, tell: bool = True) -> None:
        self.signal: int | None = None
        self.tell = tell
        self._before: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.getsignal(number)
        self.listen()
        return self

    def listen(self) -> None:
        """Take the signals (again), within the ``with`` block; also one that has waited since this
        process was started (:func:`musictx.training.ranks.start_deaf_to_ctrl_c`)."""
        for number in self._before:
            signal.signal(number, self._handle)
        if self._before and sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._before)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise StoppedAtOnce
        self.signal = number
        if self.tell:  # by os.write, for print may not be entered again from a signal handler
            os.write(2, b"\nstopping after this step ... (Ctrl-C again: at once)\n")
