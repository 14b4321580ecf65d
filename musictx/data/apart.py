"""One call in a process of its own, ended from outside where it passes its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import Any, TypeVar

from musictx.config.limits import Limits
from musictx.data.budget import Budget, TookTooLong, within
from musictx.data.parallel import processes
from musictx.errors import ReadError, UserError

Result = TypeVar("Result")

#: Processes that wait for work; each does one call at a time.
_idle: list[ProcessPoolExecutor] = []


def apart(function: Callable[..., Result], *arguments: Any, limits: Limits) -> Result:
    """``function(*arguments)``, both picklable, from another process; any thread may ask.

    Raises what ``function`` raises, and :class:`ReadError` where it passes ``limits.read_seconds``
    or ``limits.read_mb``: also in one call of C, where no exception can end it, and after which its
    process is gone.
    """
    budget = Budget(limits.read_seconds, limits.read_mb)
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


def listed(function: Callable[..., Iterable[Result]], *arguments: Any) -> list[Result]:
    """All that ``function`` yields: a generator itself cannot come from another process."""
    return list(function(*arguments))


def _bounded(budget: Budget, function: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
    try:
        with within(budget):
            return function(*arguments)
    except (TookTooLong, MemoryError):
        raise _too_much(budget) from None


def _too_much(budget: Budget) -> UserError:
    most = f"{budget.seconds:g} seconds or {budget.megabytes} MB"
    return ReadError(f"the music: it takes more than {most} of this machine", "took too long")
