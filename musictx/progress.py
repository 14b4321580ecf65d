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
        yield lambda done, now=None: listener(what, done, total if now is None else now)
    elif sys.stderr.isatty():
        with tqdm(desc=what, unit=f" {unit}", total=total, leave=False) as bar:

            def move(done: float, total: float | None = None) -> None:
                bar.total = bar.total if total is None else total
                bar.update(done - bar.n)

            yield move
    else:
        yield _Lines(what, unit, total)


class _Lines:
    """Prints a line at an update that comes :data:`EVERY` seconds or more after the last one."""

    def __init__(self, what: str, unit: str, total: float | None) -> None:
        self.what, self.unit, self.total = what, unit, total
        self.began = self.last = time.monotonic()

    def __call__(self, done: float, total: float | None = None) -> None:
        self.total = self.total if total is None else total
        now = time.monotonic()
        if now - self.last < EVERY:
            return
        self.last = now
        share = done / self.total if self.total else 0.0
        of = f" of {self.total:,.0f}" if self.total else ""
        seconds = now - self.began
        left = f", about {seconds * (1 / share - 1):.0f} s left" if 0 < share < 1 else ""
        print(f"{self.what}: {done:,.0f}{of} {self.unit}, {seconds:.0f} s{left}", flush=True)
