"""Work on chunks in processes, such that a process that dies takes only its culprit with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from itertools import islice
from typing import TypeVar

from musictx.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Sequence[Item]], list[Result]]

#: "spawn": workers start fresh, hold no copy of the parent and never inherit a locked lock of it.
START_METHOD = "spawn"
#: Chunks under way at once for each worker: while one takes long, the others have work.
AHEAD = 4


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def run(
    work: Work[Item, Result],
    chunks: Iterable[Sequence[Item]],
    crashed: Callable[[Item], Result],
    *,
    workers: int,
) -> Generator[tuple[Sequence[Item], list[Result]], None, None]:
    """Every chunk with ``work(chunk)``, in order.

    work      must be picklable; returns one result for each item
    chunks    taken from as processes become free, so they may be without end
    crashed   the result for an item that kills the process working on it
    workers   processes; 0 works in this process (and cannot survive such an item)

    When a process dies (segmentation fault, out of memory), the chunks under way are done again
    item by item, so that only the culprit is lost. An exception raised by ``work`` ends the run.
    """
    if not workers:
        for chunk in chunks:
            yield chunk, work(chunk)
        return
    chunks = iter(chunks)
    flying: deque[tuple[Sequence[Item], Future[list[Result]]]] = deque()
    pool = processes(workers)
    try:
        while True:
            for chunk in islice(chunks, AHEAD * workers - len(flying)):
                flying.append((chunk, _submit(pool, work, chunk)))
            if not flying:
                return
            chunk, future = flying.popleft()
            if not isinstance(future.exception(), BrokenExecutor):
                yield chunk, future.result()
                continue
            pool.shutdown()
            _check_that_processes_start()
            for again in (chunk, *(waiting for waiting, _ in flying)):
                yield again, _one_by_one(work, again, crashed)
            flying.clear()
            pool = processes(workers)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _submit(
    pool: ProcessPoolExecutor, work: Work[Item, Result], chunk: Sequence[Item]
) -> Future[list[Result]]:
    try:
        return pool.submit(work, chunk)
    except BrokenExecutor as error:
        broken: Future[list[Result]] = Future()
        broken.set_exception(error)
        return broken


def _one_by_one(
    work: Work[Item, Result], chunk: Sequence[Item], crashed: Callable[[Item], Result]
) -> list[Result]:
    results: list[Result] = []
    while len(results) < len(chunk):
        with processes(1) as pool:
            try:
                for item in chunk[len(results) :]:
                    results += pool.submit(work, [item]).result()
            except BrokenExecutor:
                results.append(crashed(chunk[len(results)]))
    return results


def _check_that_processes_start() -> None:
    try:
        with processes(1) as pool:
            pool.submit(os.getpid).result()
    except BrokenExecutor as error:
        raise UserError(
            "corpus.workers: processes cannot be started here (a script that prepares "
            'a corpus needs if __name__ == "__main__":); give corpus.workers=1'
        ) from error


def processes(workers: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context(START_METHOD)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)


def _begin() -> None:
    """In a new worker: Ctrl-C is for the parent to handle, and the parent's death ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
