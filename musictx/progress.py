"""Progress of long work: a bar on a terminal, now and then a line where the output is a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tqdm import tqdm

#: Seconds between two lines, and before the first.
EVERY = 15.0

#: Called with (what, done, total or None) at every step; what it raises ends the work.
Listener = Callable[[str, float, float | None], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within this context, and this thread, ``listener`` gets the progress; nothing is shown."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def progress(what: str, unit: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """A function ``update(done, total=None)`` that shows how far ``what`` has come, in ``unit``
    (a plural: "windows").

    On a terminal it moves a bar that goes away at the end; elsewhere it prints a line every
    :data:`EVERY` seconds, so that a log shows that something happens.
    """
    if (listener := _listener.get()) is not None:
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
    """A function that prints a line if it is called :data:`EVERY` seconds or more after the last
    one."""
    began = last = time.monotonic()

    def show(done: float, total: float | None = total) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < EVERY:
            return
        last = now
        seconds, share = now - began, done / total if total else 0.0
        of = f" of {total:,.0f}" if total else ""
        left = f", about {seconds * (1 / share - 1):.0f} s left" if 0 < share < 1 else ""
        print(f"{what}: {done:,.0f}{of} {unit}, {seconds:.0f} s{left}", flush=True)

    return show
