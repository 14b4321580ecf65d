"""Progress of long operations: a bar on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tqdm import tqdm

#: The minimum number of seconds between two lines, and before the first.
INTERVAL = 15.0

#: Called at each step with (what is done, amount done, total or ``None``). An exception stops it.
Listener = Callable[[str, float, float | None], None]
#: If set, the listener is called instead of printing.
LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def progress(what: str, unit: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """Yield a function ``update(done, total=total)`` that shows the progress of ``what``, counted
    in ``unit`` (a plural: "windows"). On a terminal it moves a bar, which disappears at the end.
    Otherwise it prints a line for logs at most every :data:`INTERVAL` seconds."""
    if (listener := LISTENER.get()) is not None:
        yield lambda done, total=total: listener(what, done, total)
    elif sys.stderr.isatty():
        with tqdm(desc=what, unit=f" {unit}", total=total, leave=False) as bar:

            def move(done: float, total: float | None = total) -> None:
                bar.total = total
                bar.update(done - bar.n)

            yield move
    else:
        yield _lines(what, unit, total)


def _lines(what: str, unit: str, total: float | None) -> Callable[..., None]:
    begin = last = time.monotonic()

    def show(done: float, total: float | None = total) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < INTERVAL:
            return
        last = now
        seconds, share = now - begin, done / total if total else 0.0
        goal = f" of {total:,.0f}" if total else ""
        left = f", about {seconds * (1 / share - 1):.0f} s left" if 0 < share < 1 else ""
        print(f"{what}: {done:,.0f}{goal} {unit}, {seconds:.0f} s{left}", flush=True)

    return show
