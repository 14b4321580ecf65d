"""Messages to the pages: server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

#: The function :meth:`Hub.publish`.
Publish = Callable[[str, str, Any], None]
#: The messages for a page. None: the stream ends.
PageQueue = asyncio.Queue[bytes | None]


class Hub:
    """The connected pages. Create it inside the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pages: dict[PageQueue, str] = {}  # page -> id of the session that it shows

    def publish(self, session: str, kind: str, data: Any) -> None:
        """Send an event to every page of the session with this id. Thread-safe."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: no page is connected
            self._loop.call_soon_threadsafe(self._send, session, encode_event(kind, data))

    def _send(self, session: str, data: bytes) -> None:
        for page, session_id in self._pages.items():
            if session_id == session:
                page.put_nowait(data)

    @contextlib.contextmanager
    def connect(self, session: str) -> Iterator[PageQueue]:
        """Connect a page until the block ends, and yield the queue of its messages."""
        page: PageQueue = asyncio.Queue()
        self._pages[page] = session
        try:
            yield page
        finally:
            del self._pages[page]

    def close(self) -> None:
        """End the streams of all pages."""
        for page in self._pages:
            page.put_nowait(None)


def encode_event(kind: str, data: Any) -> bytes:
    """Return the bytes of a server-sent event."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()
