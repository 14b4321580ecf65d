"""Work on chunks in processes, such that a process that dies takes only its culprit with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from itertools import islice
from typing import TypeVar

from musictx.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Sequence[Item]], list[Result]]

#: "spawn": workers start fresh, hold no copy of the parent and never inherit a locked lock of it.
START_METHOD = "spawn"


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def run(
    work: Work[Item, Result],
    chunks: Iterable[tuple[int, Sequence[Item]]],
    crashed: Callable[[Item], Result],
    *,
    workers: int,
) -> Generator[tuple[int, list[Result]], None, None]:
    """(number, ``work(chunk)``) for every numbered chunk, in the order they become ready.

    work      must be picklable; returns one result for each item
    chunks    taken from as processes become free, so they may be without end
    crashed   the result for an item that kills the process working on it
    workers   processes; 1 works in this process (and cannot survive such an item)

    When a process dies (segmentation fault, out of memory), the chunks under way are done again one
    by one, each in a process of its own and in halves where that dies too, so that only the culprit
    is lost. An exception raised by ``work`` ends the run.
    """
    if workers == 1:
        for number, chunk in chunks:
            yield number, work(chunk)
        return
    chunks = iter(chunks)
    flying: dict[Future[list[Result]], tuple[int, Sequence[Item]]] = {}
    pool = _pool(workers)
    try:
        while True:
            again: list[tuple[int, Sequence[Item]]] = []
            for number, chunk in islice(chunks, 2 * workers - len(flying)):
                try:
                    flying[pool.submit(work, chunk)] = number, chunk
                except BrokenExecutor:
                    again.append((number, chunk))
            if not flying and not again:
                return
            wait(flying, return_when=FIRST_COMPLETED)
            for future in [f for f in flying if f.done()]:
                if isinstance(future.exception(), BrokenExecutor):
                    again.append(flying.pop(future))
                else:
                    yield flying.pop(future)[0], future.result()
            if again:
                again += flying.values()
                flying.clear()
                pool.shutdown(wait=True)
                _check_that_processes_start()
                for number, chunk in sorted(again, key=lambda pair: pair[0]):
                    yield number, _carefully(work, chunk, crashed)
                pool = _pool(workers)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _carefully(
    work: Work[Item, Result], chunk: Sequence[Item], crashed: Callable[[Item], Result]
) -> list[Result]:
    try:
        with _pool(1) as pool:
            return pool.submit(work, chunk).result()
    except BrokenExecutor:
        if len(chunk) == 1:
            return [crashed(chunk[0])]
        half = len(chunk) // 2
        parts = (chunk[:half], chunk[half:])
        return [result for part in parts for result in _carefully(work, part, crashed)]


def _check_that_processes_start() -> None:
    try:
        with _pool(1) as pool:
            pool.submit(os.getpid).result()
    except BrokenExecutor as error:
        raise UserError(
            "corpus.workers: processes cannot be started here (a script that prepares "
            'a corpus needs if __name__ == "__main__":); give corpus.workers=1'
        ) from error


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
