"""Independent jobs side by side: Python threads in which torch's operations keep to one thread.

torch shares the work of every operation among its threads, which then wait for each other at its
end: on a machine that does something else as well, most of the time. Large jobs that do not need
each other are done sooner by a thread for each, which waits for nobody and keeps its numbers in its
own core's cache. (Operations run without Python's lock.) Small jobs are not worth it, because the
threads of the operation before stay awake for some milliseconds, in the way of these: see
:class:`musictx.attention.chunked.plan.Shares`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

Job = TypeVar("Job")


def available() -> int:
    """How many threads may work here side by side: 1 where somebody watches the operations.

    What traces, compiles or counts them (``torch.compile``, ``torch.export``, ``torch.jit.trace``,
    a ``TorchDispatchMode``) sees those of the calling thread only.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or is_in_torch_dispatch_mode():
        return 1
    return torch.get_num_threads()


def each(work: Callable[[Job], None], jobs: Iterable[Job], threads: int) -> None:
    """``work`` on every job: in turn if ``threads`` is 1, else in that many threads.

    There gradients are not recorded and autocast is off, whatever the caller's modes, which belong
    to its thread. Raises what the first of the jobs raised that failed.
    """
    if threads == 1:
        for job in jobs:
            work(job)
        return
    inference = torch.is_inference_mode_enabled()

    def alone(job: Job) -> None:
        with torch.inference_mode(inference), torch.no_grad():
            work(job)

    for _ in _pool(threads).map(alone, jobs):
        pass  # raises what the job raised


def _one_thread() -> None:
    """Operations called from this thread keep to it."""
    torch.get_num_threads()  # at its first question a thread takes over the process's number
    torch.set_num_threads(1)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """They wait for jobs as long as the process lives."""
    here = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, "musictx", _one_thread)
    together = Barrier(threads)  # so that every thread has begun
    list(pool.map(lambda _: together.wait(), range(threads)))
    # The number holds for the thread that sets it; the last one set by any thread is what others
    # begin with.
    torch.set_num_threads(here)
    return pool


# A forked process has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
