"""Worker processes with a limit of time and memory for each task, by pebble.

A worker that takes too long is killed, one that crashes is replaced; either costs only its task.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessFuture, ProcessPool

from musictx.config.limits import Limits
from musictx.errors import ReadError, UserError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Tasks scheduled at once for each worker: while one takes long, the others have work.
AHEAD = 16
#: Times in a row that a pool may break before its first result.
ATTEMPTS = 3
#: Idle workers for :func:`run_isolated`.
ISOLATED = 2


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def run(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    failed: Callable[[Item, BaseException], Result],
    *,
    limits: Limits,
    workers: int,
) -> Generator[tuple[Item, Result], None, None]:
    """(item, ``function(item)``) of every item, in their order.

    items    may be without end: no more than ``AHEAD`` a worker are taken at once
    failed   the result of an item that passes ``limits.read_seconds`` (``TimeoutError``) or
             ``limits.read_mb`` (``MemoryError``), or crashes its worker (``ProcessExpired``)
    workers  processes; 0 works in this one, without the limit of time

    Whatever else ``function`` raises is raised. Raises ``UserError`` if no process can be started.
    """
    if not workers:
        for item in items:
            try:
                result = _in_memory(limits.read_mb, function, item)
            except MemoryError as error:
                result = failed(item, error)
            yield item, result
        return
    items = iter(items)
    pool, broken = _pool(workers), 0
    pending: deque[tuple[Item, ProcessFuture[Result]]] = deque()
    try:
        while True:
            for item in islice(items, AHEAD * workers - len(pending)):
                pending.append((item, _schedule(pool, limits, function, item)))
            if not pending:
                return
            item, future = pending[0]
            failure = _error(pool, future)
            if isinstance(failure, BrokenProcessPool):
                broken += 1
                if broken == ATTEMPTS:
                    raise UserError(
                        "corpus.workers: processes cannot be started here (a script that prepares "
                        'a corpus needs if __name__ == "__main__":); give corpus.workers=1'
                    ) from failure
                _stop(pool)
                pool = _pool(workers)
                again = partial(_schedule, pool, limits, function)
                pending = deque((item, again(item)) for item, _ in pending)
                continue
            broken = 0
            pending.popleft()
            if isinstance(failure, (TimeoutError, MemoryError, ProcessExpired)):
                yield item, failed(item, failure)
            else:
                yield item, future.result()
    finally:
        _stop(pool)


_shared: list[ProcessPool] = []
_starting = threading.Lock()


def run_isolated(function: Callable[..., Result], *arguments: Any, limits: Limits) -> Result:
    """``function(*arguments)``, both picklable, in a worker process; any thread may call.

    Raises what ``function`` raises, and :class:`ReadError` if it passes ``limits.read_seconds`` or
    ``limits.read_mb``, or crashes its process.
    """
    for _ in range(ATTEMPTS):
        with _starting:
            if not _shared:
                _shared.append(_pool(ISOLATED))
            pool = _shared[0]
        future = _schedule(pool, limits, function, *arguments)
        error = _error(pool, future)
        if error is None:
            return future.result()
        if isinstance(error, (TimeoutError, MemoryError, ProcessExpired)):
            break
        if not isinstance(error, BrokenProcessPool):
            raise error
        with _starting:
            if pool in _shared:
                _shared.remove(pool)
                _stop(pool)
    most = f"{limits.read_seconds:g} seconds or {limits.read_mb} MB"
    raise ReadError(f"the music: it takes more than {most} of this machine", "took too long")


# ------------------------------------------------------------------------------------------- pools


def _pool(workers: int) -> ProcessPool:
    context = multiprocessing.get_context("spawn")  # inherits no lock that a thread here holds
    return ProcessPool(workers, initializer=_exit_with_parent, context=context)


def _stop(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()


def _schedule(
    pool: ProcessPool, limits: Limits, function: Callable[..., Result], *arguments: Any
) -> ProcessFuture[Result]:
    task = (limits.read_mb, function, *arguments)
    try:
        return pool.schedule(_in_memory, task, timeout=limits.read_seconds)
    except RuntimeError as error:  # the pool is broken
        future: ProcessFuture[Result] = ProcessFuture()
        future.set_exception(BrokenProcessPool(str(error)))
        return future


def _error(pool: ProcessPool, future: ProcessFuture[Any]) -> BaseException | None:
    """Wait for ``future``; what it raised. A broken pool may forget a task that it just took."""
    while True:
        try:
            return future.exception(timeout=1)
        except TimeoutError:
            if not pool.active and not future.done():
                return BrokenProcessPool("the pool is broken")


def _exit_with_parent() -> None:
    """In a new worker: exit when the parent process has died."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


# ------------------------------------------------------------------------------------------ memory


def _in_memory(megabytes: int, function: Callable[..., Result], *arguments: Any) -> Result:
    with memory_limit(megabytes):
        return function(*arguments)


@contextlib.contextmanager
def memory_limit(megabytes: int) -> Iterator[None]:
    """The block gets ``MemoryError`` beyond so many MB more than the process has now.

    Where there is RLIMIT_AS and /proc (Linux); elsewhere there is no limit.
    """
    used = _address_space() if resource is not None else 0
    if not used:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + megabytes * 2**20
    if soft != resource.RLIM_INFINITY:
        limit = min(limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    """Bytes of address space of this process; 0 where /proc does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
