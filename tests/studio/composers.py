"""A composer of tiny models, and its published messages."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter

from musictx.notes import Score
from musictx.studio import exchange
from musictx.studio.composer import Composer
from musictx.studio.config import StudioConfig
from musictx.studio.sessions import Sessions
from tests import pieces
from tests.untrained import saved

FINAL = ("done", "failed", "stopped")


def models(folder) -> dict:
    """Return an untrained model of each kind, by the names of the included models."""
    piano = {"name": "performance", "low": 30, "high": 96, "controls": True, "velocity_bins": 8}
    corpus = {"programs": {"melody": 73, "bridge": 48, "piano": 0}, "tasks": {"melody": "73"}}
    return {
        "piano": saved(folder / "piano", tokens=piano, context=160),
        "pop": saved(
            folder / "pop", {"corpus": corpus}, tokens=piano | {"tracks": "programs"}, context=160
        ),
        "chorale": saved(folder / "chorale", tokens={"name": "chorale"}, context=400),
        "plain": saved(folder / "plain", tokens=piano | {"controls": False}, context=160),
    }


def song() -> Score:
    """Return six bars of 3/4 at 96 bpm: a tune, chords and drums, each on a track."""
    beat = 60 / 96
    rows = [(beat * i, beat * (i + 0.75), 72 + i % 5, 90, 0, False, 0) for i in range(18)]
    for i in range(6):
        rows += [(beat * 3 * i, beat * (3 * i + 2), 48 + 4 * k, 55, 0, False, 1) for k in range(3)]
        rows += [(beat * 3 * i, beat * (3 * i + 0.25), 36, 80, 0, True, 2)]
    names = {0: "Melody", 1: "Piano"}
    return pieces.score(rows, bpm=96.0, meter=(3, 4), keys=[(0.0, 0, False)], names=names)


class Published:
    """A callback that records the published messages (session id, kind, data), and passes each to
    the function ``on_message`` first, if a test sets it."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str, dict]] = []
        self.changed = threading.Condition()
        self.on_message = None

    def __call__(self, session, kind, data) -> None:
        if self.on_message is not None:
            self.on_message(session, kind, data)
        with self.changed:
            self.all.append((session, kind, data))
            self.changed.notify_all()

    def wait(self, session, number, states=FINAL) -> dict:
        """Wait until the take has one of these states, and return the first such message."""

        def message():
            takes = (take for take in self.data(session, "take") if take["id"] == number)
            return next((take for take in takes if take["state"] in states), None)

        with self.changed:
            assert self.changed.wait_for(message, 30), self.all[-3:]
            return message()

    def data(self, session, kind) -> list[dict]:
        return [data for s, k, data in self.all if (s, k) == (session.id, kind)]


@contextlib.contextmanager
def composing(folder, **options):
    """Yield (composer, function for a new session, :class:`Published`)."""
    config = StudioConfig(folder=str(folder), browser=False, device="cpu", **options)
    sessions, published = Sessions(folder, config.limits), Published()
    composer = Composer(sessions, published, config)

    def new_session(score=None):
        return sessions.create(exchange.document_of(song() if score is None else score, "song"))

    try:
        yield composer, new_session, published
    finally:
        composer.close()
        assert not composer._thread.is_alive()


def take_of(composer, session, number) -> dict:
    return next(take for take in composer.takes(session) if take["id"] == number)


def compose(studio, session, **request) -> dict:
    """Submit a request, and return its finished take."""
    composer, _, published = studio
    take = composer.submit(session, request)
    assert take["state"] in ("waiting", "composing")
    last = published.wait(session, take["id"])
    assert last["state"] == "done", last["error"]
    return take_of(composer, session, take["id"])


def rounded(notes) -> Counter:
    """Count notes by start, end, pitch and velocity. A file rounds times to ticks."""
    return Counter((round(n[0], 2), round(n[1], 2), *map(int, n[2:4])) for n in notes)
