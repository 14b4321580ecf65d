"""Progress of long operations: a bar, on a terminal live, otherwise from time to time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tqdm import tqdm

#: The minimum number of seconds between two states of the bar, and before the first, in a log.
INTERVAL = 15.0

#: Called at each step with (what is done, amount done, total or ``None``). An exception stops it.
Listener = Callable[[str, float, float | None], None]
#: If set, the listener is called instead of printing.
LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def progress(what: str, unit: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """Yield a function ``update(done, total=total)`` that shows the progress of ``what``, counted
    in ``unit`` (a plural: "windows")."""
    if (listener := LISTENER.get()) is not None:
        yield lambda done, total=total: listener(what, done, total)
        return
    wait = {} if sys.stderr.isatty() else {"mininterval": INTERVAL, "delay": INTERVAL}
    with tqdm(desc=what, unit=f" {unit}", total=total, leave=False, **wait) as bar:

        def update(done: float, total: float | None = total) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield update
