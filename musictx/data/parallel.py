"""Work on chunks in processes, such that a process that dies takes only its culprit with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from typing import TypeVar

from musictx.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

#: "spawn": workers start fresh, hold no copy of the parent and never inherit a locked lock of it.
START_METHOD = "spawn"


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def run(
    work: Callable[[Sequence[Item]], list[Result]],
    chunks: Sequence[Sequence[Item]],
    crashed: Callable[[Item], Result],
    *,
    workers: int,
    executor: Executor | None = None,
) -> Generator[tuple[int, list[Result]], None, None]:
    """(number of the chunk, ``work(chunk)``) for every chunk, in the order they become ready.

    work      must be picklable; returns one result for each item
    crashed   the result for an item that kills the process working on it
    workers   processes; 1 works in this process (and cannot survive such an item)
    executor  used instead of own processes; is left running

    When a process dies (segmentation fault, out of memory), the chunks under way are done again
    item by item in a process of their own, so that only the culprit is lost, and the rest goes on
    in new processes. An exception raised by ``work`` ends the run.
    """
    if executor is None and workers == 1:
        for number, chunk in enumerate(chunks):
            yield number, work(chunk)
        return
    workers = max(1, min(workers, len(chunks)))
    pool: Executor = executor or _pool(workers)
    own = executor is None
    waiting = deque(range(len(chunks)))
    flying: dict[Future[list[Result]], int] = {}
    at_most = 2 * workers if own else 64
    try:
        while waiting or flying:
            broken = False
            try:
                while waiting and len(flying) < at_most:
                    flying[pool.submit(work, chunks[waiting[0]])] = waiting[0]
                    waiting.popleft()
            except BrokenExecutor:
                broken = True
            wait(flying, return_when=FIRST_COMPLETED)
            for future in [f for f in flying if f.done()]:
                error = future.exception()
                if isinstance(error, BrokenExecutor):
                    broken = True
                    continue
                number = flying.pop(future)
                yield number, future.result()
            if broken:
                suspects = sorted(flying.values())
                flying.clear()
                if own:
                    pool.shutdown(wait=True)
                for number in suspects:
                    yield number, _one_by_one(work, chunks[number], crashed)
                pool, own = _pool(workers), True
    finally:
        if own:
            pool.shutdown(wait=True, cancel_futures=True)


def _pool(workers: int) -> ProcessPoolExecutor:
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


def _ready() -> None:
    """Nothing: shows that a worker can start at all."""


def _one_by_one(
    work: Callable[[Sequence[Item]], list[Result]],
    chunk: Sequence[Item],
    crashed: Callable[[Item], Result],
) -> list[Result]:
    results: list[Result] = []
    pool: ProcessPoolExecutor | None = None
    try:
        for item in chunk:
            if pool is None:
                pool = _pool(1)
                try:
                    pool.submit(_ready).result()
                except BrokenExecutor as error:
                    raise UserError(
                        "corpus.workers: processes cannot be started here (a script that prepares "
                        'a corpus needs if __name__ == "__main__":); give corpus.workers=1'
                    ) from error
            try:
                results += pool.submit(work, [item]).result()
            except BrokenExecutor:
                pool.shutdown()
                pool = None
                results.append(crashed(item))
    finally:
        if pool is not None:
            pool.shutdown()
    return results
