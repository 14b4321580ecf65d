"""Worker processes with a time and memory limit for each call, built on pebble.

A worker that takes too long is killed, and a worker that crashes is replaced; only its current call
fails.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from musictx.config.limits import Limits
from musictx.errors import ReadError, UserError, reason

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: The number of items queued for each worker, so that a slow item leaves no worker idle.
QUEUED_PER_WORKER = 16
#: How many times a call is tried if the pool breaks, as it does when an idle worker is killed.
ATTEMPTS = 3
#: The exceptions of a call that exceeds a limit or crashes its process.
FAILURES = (TimeoutError, MemoryError, ProcessExpired)


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class Workers:
    """A pool of ``count`` processes for calls from any thread. They start at the first call."""

    def __init__(self, count: int) -> None:
        self._count, self._lock, self._stopped = count, threading.Lock(), False
        self._pool = _start_pool(count)

    def call(self, limits: Limits, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call ``function(*arguments)``, both picklable, in a worker process.

        Raises what ``function`` raises, ``TimeoutError`` beyond ``limits.read_seconds``,
        ``MemoryError`` beyond ``limits.read_mb``, ``ProcessExpired`` if it crashes its process, and
        ``BrokenProcessPool`` if no process can be started.
        """
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise SystemExit(1)  # a worker imports a script without if __name__ == "__main__":
        task = (limits.read_mb, function, *arguments)
        for _ in range(ATTEMPTS):
            with self._lock:
                if not self._pool.active and not self._stopped:
                    _stop_pool(self._pool)
                    self._pool = _start_pool(self._count)
                pool = self._pool
            try:
                future = pool.schedule(_within_memory, task, timeout=limits.read_seconds)
            except RuntimeError:  # the pool is stopped or broken
                continue
            while not wait([future], timeout=1).done and pool.active:
                pass  # a broken pool may lose a task
            if future.done() and not isinstance(future.exception(), BrokenProcessPool):
                return future.result()
        raise BrokenProcessPool("worker processes cannot be started")

    def stop(self) -> None:
        """Stop all processes and their calls."""
        with self._lock:
            self._stopped = True
            _stop_pool(self._pool)


def _start_pool(workers: int) -> ProcessPool:
    context = multiprocessing.get_context("spawn")  # a fork would inherit locks of other threads
    return ProcessPool(workers, initializer=_exit_with_parent, context=context)


def _stop_pool(pool: ProcessPool) -> None:
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
    function: Callable[[Item], Result], items: Iterable[Item], *, limits: Limits, workers: int
) -> Generator[tuple[Item, Result | ReadError], None, None]:
    """Yield (item, ``function(item)``) for every item, in order.

    items    may be endless: at most ``QUEUED_PER_WORKER`` items per worker are taken in advance
    workers  number of worker processes; 0: call ``function`` in this process, without a time limit
             (``corpus.workers=1``)

    Instead of the result there is a :class:`ReadError` if an item exceeds ``limits.read_seconds``
    or ``limits.read_mb``, or crashes its worker. Other exceptions of ``function`` are raised.
    Raises ``UserError`` if no process can be started, or if ``function`` or an item cannot be
    pickled.
    """
    if not workers:
        for item in items:
            try:
                yield item, _within_memory(limits.read_mb, function, item)
            except MemoryError as error:
                yield item, _read_error(error, limits)
        return
    items = iter(items)
    processes = Workers(workers)
    threads = ThreadPoolExecutor(2 * workers)  # 2: the next call of each worker waits in the pool
    pending: deque[tuple[Item, Future[Result]]] = deque()
    try:
        while True:
            for item in islice(items, QUEUED_PER_WORKER * workers - len(pending)):
                _check_picklable((function, item), workers)
                pending.append((item, threads.submit(processes.call, limits, function, item)))
            if not pending:
                return
            item, future = pending.popleft()
            try:
                yield item, future.result()
            except FAILURES as error:
                yield item, _read_error(error, limits)
            except BrokenProcessPool as error:
                raise UserError(
                    "corpus.workers: processes cannot be started (a script must prepare a corpus "
                    'under if __name__ == "__main__":); set corpus.workers=1'
                ) from error
    finally:
        processes.stop()
        threads.shutdown(cancel_futures=True)


def _check_picklable(task: Any, workers: int) -> None:
    try:
        pickle.dumps(task)
    except Exception as error:  # pickle raises many kinds
        raise UserError(
            f"corpus.workers={workers}: other processes cannot read this corpus "
            f"({reason(error)}); its `read` must be a module-level function and the sources of its "
            "items picklable; or set corpus.workers=1"
        ) from error


#: The worker processes of :func:`run_isolated`.
_isolated = Workers(count=2)


def run_isolated(function: Callable[..., Result], *arguments: Any, limits: Limits) -> Result:
    """Call ``function(*arguments)``, both picklable, in a worker process, from any thread.

    Raises what ``function`` raises, :class:`ReadError` if the call exceeds ``limits.read_seconds``
    or ``limits.read_mb`` or crashes its process, and ``UserError`` if no process can be started.
    """
    try:
        return _isolated.call(limits, function, *arguments)
    except FAILURES as error:
        raise _read_error(error, limits) from error
    except BrokenProcessPool as error:
        raise UserError(str(error)) from error


def _read_error(failure: Exception, limits: Limits) -> ReadError:
    """The error for one of :data:`FAILURES`."""
    if isinstance(failure, TimeoutError):
        message = f"the music takes more than limits.read_seconds={limits.read_seconds:g}"
        return ReadError(message, "took too long")
    if isinstance(failure, MemoryError):
        message = f"the music needs more memory than limits.read_mb={limits.read_mb}"
        return ReadError(message, "too large")
    message = "the music crashes the process that reads it; please report this file"
    return ReadError(message, "crashed the reader")


def _within_memory(megabytes: int, function: Callable[..., Result], *arguments: Any) -> Result:
    with memory_limit(megabytes):
        return function(*arguments)


@contextlib.contextmanager
def memory_limit(megabytes: int) -> Iterator[None]:
    """Raise ``MemoryError`` if the block needs more than ``megabytes`` MB beyond the memory that
    the process uses now. There is no limit on systems other than Linux."""
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, AttributeError):  # not Linux, or no module ``resource``
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
