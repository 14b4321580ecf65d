"""Worker processes with a limit of time and memory for each call, by pebble.

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

#: Items in the queue for each worker, so that a slow item does not leave the others idle.
AHEAD = 16
#: How often a call is tried if the pool breaks, as it does when an idle worker is killed.
ATTEMPTS = 3
#: Idle workers for :func:`run_isolated`.
ISOLATED = 2
#: The exceptions of a call that exceeds a limit or crashes its process.
FAILURES = (TimeoutError, MemoryError, ProcessExpired)


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class Workers:
    """``count`` processes for calls from any thread; they start at the first call."""

    def __init__(self, count: int) -> None:
        self._count, self._lock, self._stopped = count, threading.Lock(), False
        self._pool = _pool(count)

    def call(self, limits: Limits, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call ``function(*arguments)``, both picklable, in a worker process.

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
            _stop(self._pool)


def _pool(workers: int) -> ProcessPool:
    # "spawn", since a fork would inherit locks that other threads hold.
    context = multiprocessing.get_context("spawn")
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
    *,
    limits: Limits,
    workers: int,
) -> Generator[tuple[Item, Result | Exception], None, None]:
    """Yield (item, ``function(item)``) for every item, in order.

    items    may be endless: at most ``AHEAD`` for each worker are taken at once
    workers  number of processes; 0: this process, without the limit of time

    In place of a result there is an exception if an item exceeds ``limits.read_seconds``
    (``TimeoutError``) or ``limits.read_mb`` (``MemoryError``), or crashes its worker
    (``ProcessExpired``). Other exceptions of ``function`` are raised. Raises ``UserError`` if no
    process can be started, or ``function`` or an item cannot be pickled for them.
    """
    if not workers:
        for item in items:
            try:
                yield item, _in_memory(limits.read_mb, function, item)
            except MemoryError as error:
                yield item, error
        return
    items = iter(items)
    processes = Workers(workers)
    threads = ThreadPoolExecutor(2 * workers)  # so that the next call of a worker is ready
    pending: deque[tuple[Item, Future[Result]]] = deque()
    try:
        while True:
            for item in islice(items, AHEAD * workers - len(pending)):
                _check_picklable((function, item), workers)
                pending.append((item, threads.submit(processes.call, limits, function, item)))
            if not pending:
                return
            item, future = pending.popleft()
            try:
                yield item, future.result()
            except FAILURES as error:
                yield item, error
            except BrokenProcessPool as error:
                raise UserError(
                    "corpus.workers: processes cannot be started here (a script that prepares "
                    'a corpus needs if __name__ == "__main__":); give corpus.workers=1'
                ) from error
    finally:
        processes.stop()
        threads.shutdown(cancel_futures=True)


def _check_picklable(call: Any, workers: int) -> None:
    try:
        pickle.dumps(call)
    except Exception as error:  # pickle raises many kinds
        raise UserError(
            f"corpus.workers={workers}: other processes cannot read this corpus "
            f"({reason(error)}); its read must be a function of a module, and the sources of its "
            "items picklable, or give corpus.workers=1"
        ) from error


_isolated = Workers(ISOLATED)


def run_isolated(function: Callable[..., Result], *arguments: Any, limits: Limits) -> Result:
    """Call ``function(*arguments)``, both picklable, in a worker process, from any thread.

    Raises what ``function`` raises, and :class:`ReadError` if it exceeds ``limits.read_seconds`` or
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
    """Raise ``MemoryError`` in the block if it needs so many MB more than the process has now.

    There is no limit on systems without RLIMIT_AS and /proc (other than Linux).
    """
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, AttributeError):  # another system; without the module ``resource``
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
