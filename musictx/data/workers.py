"""Worker processes with a limit of time and memory for each call, by pebble.

A worker that takes too long is killed, one that crashes is replaced; either costs only its call.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from musictx.config.limits import Limits
from musictx.errors import ReadError, UserError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Items taken at once for each worker: while one takes long, the others have work.
AHEAD = 16
#: Times that a call is made when the pool breaks, as it does when an idle worker is killed.
ATTEMPTS = 3
#: Idle workers for :func:`run_isolated`.
ISOLATED = 2
#: What a call raises that passes a limit or crashes its process.
FAILURES = (TimeoutError, MemoryError, ProcessExpired)


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class Workers:
    """``count`` processes for calls from any thread, started at the first one."""

    def __init__(self, count: int) -> None:
        self._count, self._lock, self._stopped = count, threading.Lock(), False
        self._pool = _pool(count)

    def call(self, limits: Limits, function: Callable[..., Result], *arguments: Any) -> Result:
        """``function(*arguments)``, both picklable, in a worker process.

        Raises what ``function`` raises, ``TimeoutError`` beyond ``limits.read_seconds``,
        ``MemoryError`` beyond ``limits.read_mb``, ``ProcessExpired`` if it crashes its process, and
        ``BrokenProcessPool`` if no process can be started.
        """
        task = (limits.read_mb, function, *arguments)
        for _ in range(ATTEMPTS):
            with self._lock:
                if not self._pool.active and not self._stopped:
                    _stop(self._pool)
                    self._pool = _pool(self._count)
                pool = self._pool
            try:
                future = pool.schedule(_in_memory, task, timeout=limits.read_seconds)
            except RuntimeError:  # it has been stopped, or just broken
                continue
            while not wait([future], timeout=1).done and pool.active:
                pass  # a broken pool may forget a task that it just took
            if future.done() and not isinstance(future.exception(), BrokenProcessPool):
                return future.result()
        raise BrokenProcessPool("worker processes cannot be started")

    def stop(self) -> None:
        """End all processes, and the calls that wait for them."""
        with self._lock:
            self._stopped = True
            _stop(self._pool)


def _pool(workers: int) -> ProcessPool:
    context = multiprocessing.get_context("spawn")  # inherits no lock that a thread here holds
    return ProcessPool(workers, initializer=_exit_with_parent, context=context)


def _stop(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()


def _exit_with_parent() -> None:
    """In a new worker: exit when the parent process has died."""

    def wait_for_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait_for_parent, daemon=True).start()


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
    processes = Workers(workers)
    threads = ThreadPoolExecutor(2 * workers)  # a worker that is done has its next call at hand
    pending: deque[tuple[Item, Future[Result]]] = deque()
    try:
        while True:
            for item in islice(items, AHEAD * workers - len(pending)):
                pending.append((item, threads.submit(processes.call, limits, function, item)))
            if not pending:
                return
            item, future = pending.popleft()
            try:
                result = future.result()
            except FAILURES as error:
                result = failed(item, error)
            except BrokenProcessPool as error:
                raise UserError(
                    "corpus.workers: processes cannot be started here (a script that prepares "
                    'a corpus needs if __name__ == "__main__":); give corpus.workers=1'
                ) from error
            yield item, result
    finally:
        processes.stop()
        threads.shutdown(cancel_futures=True)


_isolated = Workers(ISOLATED)


def run_isolated(function: Callable[..., Result], *arguments: Any, limits: Limits) -> Result:
    """``function(*arguments)``, both picklable, in a worker process; any thread may call.

    Raises what ``function`` raises, and :class:`ReadError` if it passes ``limits.read_seconds`` or
    ``limits.read_mb``, or crashes its process.
    """
    try:
        return _isolated.call(limits, function, *arguments)
    except (*FAILURES, BrokenProcessPool) as error:
        most = f"{limits.read_seconds:g} seconds or {limits.read_mb} MB"
        raise ReadError(
            f"the music: it takes more than {most} of this machine", "took too long"
        ) from error


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
