"""Reports the progress of long work: a bar on a terminal, else a line every 15 seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tqdm import tqdm

#: Seconds before the first line, and between two lines.
EVERY = 15.0

#: Callback with (task, done, total or None) for every step. An exception in it ends the work.
Listener = Callable[[str, float, float | None], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send progress to ``listener`` instead of showing it, in this context and thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def progress(task: str, unit: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """Yield a function ``update(done, total=total)`` that reports the progress of ``task``.

    ``unit`` is a plural such as "windows". On a terminal, a bar is shown that disappears at the
    end; elsewhere, a line is printed every :data:`EVERY` seconds.
    """
    if (listener := _listener.get()) is not None:
        yield lambda done, total=total: listener(task, done, total)
    elif sys.stderr.isatty():
        with tqdm(desc=task, unit=f" {unit}", total=total, leave=False) as bar:

            def update(done: float, total: float | None = total) -> None:
                bar.total = total
                bar.update(done - bar.n)

            yield update
    else:
        yield _line_printer(task, unit, total)


def _line_printer(task: str, unit: str, total: float | None) -> Callable[..., None]:
    """Return the function ``update`` of :func:`progress` that prints lines."""
    start = last = time.monotonic()

    def update(done: float, total: float | None = total) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < EVERY:
            return
        last = now
        seconds, share = now - start, done / total if total else 0.0
        of = f" of {total:,.0f}" if total else ""
        left = f", about {seconds * (1 / share - 1):.0f} s left" if 0 < share < 1 else ""
        print(f"{task}: {done:,.0f}{of} {unit}, {seconds:.0f} s{left}", flush=True)

    return update
