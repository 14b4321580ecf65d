"""A composer of tiny models, with its sessions and published messages."""

import contextlib
import threading
from collections import Counter

from musictx.studio import exchange
from musictx.studio.composer import Composer
from musictx.studio.config import StudioConfig
from musictx.studio.session import Sessions
from tests.pieces import waltz

FINAL = ("done", "failed", "stopped")


class Studio:
    """A composer, its sessions, and the published messages (session id, kind, data). A test may set
    ``on_message``, a function that gets each message first."""

    def __init__(self, folder) -> None:
        config = StudioConfig(folder=str(folder), browser=False, device="cpu")
        self.limits = config.limits
        self.messages: list[tuple[str, str, dict]] = []
        self.changed, self.on_message = threading.Condition(), None
        self.sessions = Sessions(folder, self.limits)
        self.composer = Composer(self._publish, config)
        self.composer.start()

    def _publish(self, session_id, kind, data) -> None:
        if self.on_message is not None:
            self.on_message(session_id, kind, data)
        with self.changed:
            self.messages.append((session_id, kind, data))
            self.changed.notify_all()

    def published(self, session, kind) -> list[dict]:
        return [data for s, k, data in self.messages if (s, k) == (session.id, kind)]

    def new_session(self, score=None):
        score = waltz() if score is None else score
        return self.sessions.create(exchange.document_of(score, "song"))

    def wait(self, session, number, states=FINAL) -> dict:
        """Wait until the take has one of these states, and return the first such message."""

        def message():
            takes = (take for take in self.published(session, "take") if take["id"] == number)
            return next((take for take in takes if take["state"] in states), None)

        with self.changed:
            assert self.changed.wait_for(message, 30), self.messages[-3:]
            return message()

    def take(self, session, number) -> dict:
        return next(take for take in self.composer.takes(session) if take["id"] == number)

    def compose(self, session, **request) -> dict:
        """Submit a request, and return its finished take."""
        take = self.composer.submit(session, request)
        assert take["state"] in ("waiting", "composing")
        last = self.wait(session, take["id"])
        assert last["state"] == "done", last["error"]
        return self.take(session, take["id"])


@contextlib.contextmanager
def composing(folder):
    """Yield a :class:`Studio`, and end its thread."""
    threads = {*threading.enumerate()}
    studio = Studio(folder)
    try:
        yield studio
    finally:
        studio.composer.close()
        assert {*threading.enumerate()} <= threads


def rounded(notes) -> Counter:
    """Count notes by start, end, pitch and velocity. A file rounds times to ticks."""
    return Counter((round(n[0], 2), round(n[1], 2), *map(int, n[2:4])) for n in notes)
