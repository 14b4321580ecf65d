"""A composer over tiny models, and what it tells."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter

import numpy as np

from musictx.notes import KEY, METER, NOTE, TEMPO, Score
from musictx.studio import exchange
from musictx.studio.composer import Composer
from musictx.studio.config import StudioConfig
from musictx.studio.sessions import Sessions
from tests.untrained import saved

OVER = ("done", "failed", "stopped")


def models(folder) -> dict:
    """Untrained ones of each kind, by the names of those that come with musictx."""
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
    """Six bars of 3/4 at 96: a tune, chords on a track of its own, drums; on the grid."""
    beat = 60 / 96
    rows = [(beat * i, beat * (i + 0.75), 72 + i % 5, 90, 0, False, 0) for i in range(18)]
    for i in range(6):
        rows += [(beat * 3 * i, beat * (3 * i + 2), 48 + 4 * k, 55, 0, False, 1) for k in range(3)]
        rows += [(beat * 3 * i, beat * (3 * i + 0.25), 36, 80, 0, True, 2)]
    return Score(
        notes=np.array(sorted(rows), NOTE),
        tempos=np.array([(0.0, 96.0)], TEMPO),
        meters=np.array([(0.0, 3, 4)], METER),
        keys=np.array([(0.0, 0, False)], KEY),
        names={0: "Melody", 1: "Piano"},
        ticks_per_quarter=480,
    )


class Published:
    """What was published: (session, kind, data), and a way to wait for it."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str, dict]] = []
        self.changed = threading.Condition()
        self.look = None

    def __call__(self, session, kind, data) -> None:
        if self.look is not None:
            self.look(session, kind, data)
        with self.changed:
            self.all.append((session, kind, data))
            self.changed.notify_all()

    def wait(self, session, number, states=OVER) -> dict:
        """The first message about the take in one of these states."""

        def message():
            mine = (d for s, k, d in self.all if (s, k) == (session.id, "take"))
            return next((d for d in mine if d["id"] == number and d["state"] in states), None)

        with self.changed:
            assert self.changed.wait_for(message, 30), self.all[-3:]
            return message()

    def of(self, session, kind) -> list[dict]:
        return [data for s, k, data in self.all if (s, k) == (session.id, kind)]


@contextlib.contextmanager
def composing(folder, **options):
    """(composer, new session, published) in ``folder``."""
    config = StudioConfig(folder=str(folder), browser=False, device="cpu", **options)
    sessions, published = Sessions(folder, config.limits), Published()
    composer = Composer(sessions, published, config)

    def session(score=None):
        return sessions.create(exchange.document_of(song() if score is None else score, "song"))

    try:
        yield composer, session, published
    finally:
        composer.close()
        assert not composer._thread.is_alive()


def take_of(composer, session, number) -> dict:
    return next(take for take in composer.takes(session) if take["id"] == number)


def finished(studio, session, **request) -> dict:
    composer, _, published = studio
    take = composer.submit(session, request)
    assert take["state"] in ("waiting", "composing")
    end = published.wait(session, take["id"])
    assert end["state"] == "done", end["error"]
    return take_of(composer, session, take["id"])


def rounded(notes) -> Counter:
    """Notes by start, end, pitch and velocity, to the half millisecond of a file's ticks."""
    return Counter((round(n[0], 2), round(n[1], 2), *map(int, n[2:4])) for n in notes)
