"""Events of a MIDI track, many at once: what ``midi/scan.py`` reads one by one."""

from __future__ import annotations

import numpy as np

#: Events of the shortest stretch that is worth it; events tried at once at first, and at most.
FEWEST_EVENTS, FIRST_EVENTS, MOST_EVENTS = 32, 512, 1 << 16


class Stretches:
    """Reads consecutive events of two data bytes all at once.

    Almost all events of a track are note-ons, note-offs and controllers. Each has exactly three
    bytes below 128 - the last of its delta time and two data bytes - whether its status byte is
    written or left out (running status). So in a stretch of such events every third of these bytes
    ends a delta time; where that is not so, the stretch ends, and :mod:`musictx.midi.scan`
    continues event by event.

    Stretches are tried where they are likely: after each one that was long, and ever more rarely
    where they are short, so that the whole stays linear in the bytes.
    """

    def __init__(self, chunk: bytes) -> None:
        self._data = np.frombuffer(chunk, np.uint8)
        self._low = np.flatnonzero(self._data < 0x80)
        self._window, self._pause = FIRST_EVENTS, 8
        #: The byte of the chunk at which to try again.
        self.due = 0 if len(chunk) >= 8 * FEWEST_EVENTS else len(chunk)

    def take(self, at: int, tick: int, status: int, last: int) -> tuple[np.ndarray, int, int, int]:
        """The events from byte ``at`` on, as far as they have two data bytes and begin by tick
        ``last``: (``tick << 24 | status << 16 | a << 8 | b`` of each note-on, note-off and movement
        of controller 64 among them, where the next event begins, the tick and the running status
        reached)."""
        data = self._data
        first = int(np.searchsorted(self._low, at))
        low = self._low[first : first + 3 * self._window]
        low = low[: len(low) // 3 * 3].reshape(-1, 3)
        ends, a, b = low[:, 0], low[:, 1], low[:, 2]
        begins = np.empty_like(ends)
        begins[:1], begins[1:] = at, b[:-1] + 1
        more = ends - begins  # bytes of the delta time before its last
        written = a - ends - 1  # is the status byte there?
        given = data[ends + 1]  # the status byte, where it is
        two = (given < 0xC0) | (given >= 0xE0) & (given < 0xF0)
        good = (more <= 3) & (b == a + 1) & ((written == 0) | (written == 1) & two)
        if not (0x80 <= status < 0xC0 or 0xE0 <= status < 0xF0):
            good &= np.cumsum(written) > 0
        count = len(good) if good.all() else int(np.argmin(good))
        ends, more, written = ends[:count], more[:count], written[:count]
        deltas = data[ends].astype(np.int64)
        for k in (1, 2, 3):
            longer = np.flatnonzero(more >= k)
            if not len(longer):
                break
            deltas[longer] |= (data[ends[longer] - k].astype(np.int64) & 0x7F) << 7 * k
        ticks = np.cumsum(deltas) + tick
        if count and ticks[-1] > last:
            count = int(np.searchsorted(ticks, last, side="right"))
            ticks, ends, written = ticks[:count], ends[:count], written[:count]
        self._judge(count, int(b[count - 1]) + 1 if count else at)
        if not count:
            return np.empty(0, np.int64), at, tick, status
        latest = np.maximum.accumulate(np.where(written == 1, np.arange(count), -1))
        statuses = np.where(latest < 0, status, given[latest]).astype(np.int64)
        words = ticks << 24 | statuses << 16 | data[a[:count]].astype(np.int64) << 8
        words |= data[b[:count]]
        words = words[
            (statuses < 0xA0) | (statuses >= 0xB0) & (statuses < 0xC0) & (data[a[:count]] == 64)
        ]
        return words, int(b[count - 1]) + 1, int(ticks[-1]), int(statuses[-1])

    def _judge(self, count: int, at: int) -> None:
        """When to try again, after ``count`` events up to byte ``at``."""
        if count >= FEWEST_EVENTS:
            self._window, self._pause, self.due = min(8 * self._window, MOST_EVENTS), 8, at
        else:
            self._window, self._pause = FIRST_EVENTS, min(2 * self._pause, 4096)
            self.due = at + self._pause
