"""One call in a process of its own, ended from outside where it passes its budget."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import Any, TypeVar

from musictx.data.budget import Budget, TookTooLong, within
from musictx.data.parallel import processes
from musictx.errors import ReadError, UserError

Result = TypeVar("Result")

#: For a file that somebody hands to a server. Files within ``limits`` take a tenth of it.
BUDGET = Budget(seconds=10, megabytes=1024)
#: Processes that wait for work; each does one call at a time.
_idle: list[ProcessPoolExecutor] = []


def apart(function: Callable[..., Result], *arguments: Any, budget: Budget = BUDGET) -> Result:
    """``function(*arguments)``, both picklable, from another process; any thread may ask.

    Raises what ``function`` raises, and :class:`ReadError` where it passes ``budget``: also in one
    call of C, where no exception can end it, and after which its process is gone.
    """
    try:
        process = _idle.pop()
    except IndexError:
        process = processes(1)
    try:
        done = process.submit(_bounded, budget, function, arguments)
    except BrokenExecutor:  # it was ended while it had no work
        process.shutdown()
        process = processes(1)
        done = process.submit(_bounded, budget, function, arguments)
    if isinstance(done.exception(), BrokenExecutor):
        process.shutdown()
        raise _too_much(budget)
    _idle.append(process)
    return done.result()


def _bounded(budget: Budget, function: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
    try:
        with within(budget):
            return function(*arguments)
    except (TookTooLong, MemoryError):
        raise _too_much(budget) from None


def _too_much(budget: Budget) -> UserError:
    most = f"{budget.seconds:g} seconds or {budget.megabytes} MB"
    return ReadError(f"the music: it takes more than {most} of this machine", "took too long")
