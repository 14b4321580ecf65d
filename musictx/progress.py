"""Progress of long work: a bar on a terminal, now and then a line where the output is a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm import tqdm

#: Seconds between two lines, and before the first.
EVERY = 15.0

#: Called with (what, done, total or None) at every step; what it raises ends the work.
Listener = Callable[[str, float, float | None], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within this context, and this thread, progress is told to ``listener`` and to nobody else."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def progress(what: str, unit: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """A function ``update(done, total=None)`` that tells how far ``what`` has come, in ``unit``
    (a plural: "windows").

    On a terminal it moves a bar that goes away at the end; elsewhere it prints a line every
    :data:`EVERY` seconds, so that a log shows that something happens.
    """
    listener = _listener.get()
    if listener is not None:
        known = total

        def hear(done: float, total: float | None = None) -> None:
            listener(what, done, known if total is None else total)

        yield hear
        return
    if sys.stderr.isatty():
        settings: dict[str, Any] = {
            "desc": what,
            "unit": f" {unit}",
            "total": total,
            "leave": False,
        }
        with tqdm(**settings) as bar:

            def move(done: float, total: float | None = None) -> None:
                bar.total = bar.total if total is None else total
                bar.update(done - bar.n)

            yield move
        return
    began = last = time.monotonic()
    whole = total

    def tell(done: float, total: float | None = None) -> None:
        nonlocal last, whole
        whole = whole if total is None else total
        now = time.monotonic()
        if now - last < EVERY:
            return
        last = now
        share = done / whole if whole else 0.0
        of = f" of {whole:,.0f}" if whole else ""
        left = f", about {(now - began) * (1 / share - 1):.0f} s left" if 0 < share < 1 else ""
        print(f"{what}: {done:,.0f}{of} {unit}, {now - began:.0f} s{left}", flush=True)

    yield tell
