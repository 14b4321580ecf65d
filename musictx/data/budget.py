"""A bound on the time and the memory that reading one file may take."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


class Budget(NamedTuple):
    """For one file: seconds by the clock, and megabytes beyond what the process has already."""

    seconds: float
    megabytes: int


class TookTooLong(Exception):
    """The seconds of a budget are over."""


@contextlib.contextmanager
def within(budget: Budget) -> Iterator[None]:
    """The block ends with :class:`TookTooLong` or ``MemoryError`` where it passes ``budget``.

    The clock runs where there is SIGALRM and in a process's main thread; memory is bounded where
    there is RLIMIT_AS and /proc. Elsewhere the block runs unbounded. What stays in one call of C,
    where no handler runs, is ended with its process by the system, after twice the seconds of
    processor time, if this process is a worker (:mod:`musictx.data.parallel` loses the file alone,
    :mod:`musictx.data.apart` the call).
    """
    with contextlib.ExitStack() as stack:
        if resource is not None and (held := _held()):
            soft, hard = resource.getrlimit(resource.RLIMIT_AS)
            most = held + budget.megabytes * 2**20
            if soft == resource.RLIM_INFINITY or most < soft:
                resource.setrlimit(resource.RLIMIT_AS, (most, hard))
                stack.callback(resource.setrlimit, resource.RLIMIT_AS, (soft, hard))
        if hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGALRM, _over)
            stack.callback(signal.signal, signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, budget.seconds)
            stack.callback(signal.setitimer, signal.ITIMER_REAL, 0)
            if multiprocessing.parent_process() is not None:
                signal.setitimer(signal.ITIMER_VIRTUAL, 2 * budget.seconds)
                stack.callback(signal.setitimer, signal.ITIMER_VIRTUAL, 0)
        yield


def _over(number: int, frame: FrameType | None) -> None:
    raise TookTooLong


def _held() -> int:
    """Bytes of address space of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
