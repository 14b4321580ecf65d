"""Messages to the pages: server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

#: The most events that wait for a page. A page that falls further behind is disconnected; when it
#: connects again, it gets the whole state.
MOST_WAITING = 1000


class Hub:
    """The connected pages of each session. :meth:`publish` may be called from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pages: dict[str, set[asyncio.Queue[bytes | None]]] = {}

    def publish(self, session: str, kind: str, data: Any) -> None:
        """Send an event to every page that shows the session of this id."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: no page is connected
            self._loop.call_soon_threadsafe(self._send, session, message(kind, data))

    def _send(self, session: str, data: bytes) -> None:
        for page in [*self._pages.get(session, ())]:
            try:
                page.put_nowait(data)
            except asyncio.QueueFull:
                self._disconnect(session, page)

    def open(self, session: str) -> asyncio.Queue[bytes | None]:
        """Connect a page, and return the queue of its messages; the last message is None."""
        page: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        self._pages.setdefault(session, set()).add(page)
        return page

    def close(self, session: str, page: asyncio.Queue[bytes | None]) -> None:
        """Forget a page that has closed its connection."""
        pages = self._pages.get(session, set())
        pages.discard(page)
        if not pages:
            self._pages.pop(session, None)

    def close_all(self) -> None:
        """Disconnect every page."""
        for session, pages in [*self._pages.items()]:
            for page in [*pages]:
                self._disconnect(session, page)

    def _disconnect(self, session: str, page: asyncio.Queue[bytes | None]) -> None:
        self.close(session, page)
        while not page.empty():
            page.get_nowait()
        page.put_nowait(None)


def message(kind: str, data: Any) -> bytes:
    """Return one event in the format of the protocol."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()
