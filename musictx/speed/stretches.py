"""Read many events of a MIDI track at once; ``midi/scan.py`` reads all others one by one."""

from __future__ import annotations

import numpy as np

#: The fewest events for which numpy is faster; how many events an attempt covers at first, at most.
FEWEST_EVENTS, FIRST_EVENTS, MOST_EVENTS = 32, 512, 1 << 16


class Stretches:
    """Reads stretches, which are consecutive events with two data bytes, with numpy.

    Almost all events of a track are note-ons, note-offs and controllers. Each has exactly three
    bytes below 128 (the last byte of its delta time and two data bytes), whether its status byte is
    present or omitted (running status). So in a stretch of such events every third byte below 128
    is the last of a delta time. The stretch ends at the first event for which this does not hold;
    from there :mod:`musictx.midi.scan` continues event by event.

    The next attempt follows immediately after a long stretch. After a short one it is postponed, by
    twice as many bytes each time up to 4096, so that the time stays linear in the number of bytes.
    """

    def __init__(self, chunk: bytes) -> None:
        self._data = np.frombuffer(chunk, np.uint8)
        self._low = np.flatnonzero(self._data < 0x80)
        self._window, self._pause = FIRST_EVENTS, 8
        #: The byte of the chunk at which the next attempt is due.
        self.due = 0 if len(chunk) >= 8 * FEWEST_EVENTS else len(chunk)

    def take(self, at: int, tick: int, status: int, last: int) -> tuple[np.ndarray, int, int, int]:
        """Read the stretch that begins at byte ``at``, up to tick ``last``.

        ``tick`` and ``status`` are the tick and the running status before it. Returns (events,
        byte, tick, status): the note-ons, note-offs and changes of controller 64 (the sustain
        pedal), each as ``tick << 24 | status << 16 | a << 8 | b``; the byte at which the next event
        begins; and the tick and the running status there.
        """
        data = self._data
        first = int(np.searchsorted(self._low, at))
        low = self._low[first : first + 3 * self._window]
        low = low[: len(low) // 3 * 3].reshape(-1, 3)
        ends, a, b = low[:, 0], low[:, 1], low[:, 2]
        begins = np.empty_like(ends)
        begins[:1], begins[1:] = at, b[:-1] + 1
        extra = ends - begins  # bytes of the delta time before its last
        present = a - ends - 1  # bytes between delta time and data: 1 is a status byte, 0 none
        own_status = data[ends + 1]  # the status byte of an event that has one
        two_bytes = (own_status < 0xC0) | (own_status >= 0xE0) & (own_status < 0xF0)
        valid = (extra <= 3) & (b == a + 1) & ((present == 0) | (present == 1) & two_bytes)
        # If the running status is that of other events, the stretch must begin with a status byte.
        if not (0x80 <= status < 0xC0 or 0xE0 <= status < 0xF0):
            valid &= np.cumsum(present) > 0
        count = len(valid) if valid.all() else int(np.argmin(valid))
        ends, extra, present = ends[:count], extra[:count], present[:count]
        deltas = data[ends].astype(np.int64)
        for k in (1, 2, 3):
            longer = np.flatnonzero(extra >= k)
            if not len(longer):
                break
            deltas[longer] |= (data[ends[longer] - k].astype(np.int64) & 0x7F) << 7 * k
        ticks = np.cumsum(deltas) + tick
        if count and ticks[-1] > last:
            count = int(np.searchsorted(ticks, last, side="right"))
            ticks, ends, present = ticks[:count], ends[:count], present[:count]
        self._schedule(count, int(b[count - 1]) + 1 if count else at)
        if not count:
            return np.empty(0, np.int64), at, tick, status
        latest = np.maximum.accumulate(np.where(present == 1, np.arange(count), -1))
        statuses = np.where(latest < 0, status, own_status[latest]).astype(np.int64)
        events = ticks << 24 | statuses << 16 | data[a[:count]].astype(np.int64) << 8
        events |= data[b[:count]]
        events = events[
            (statuses < 0xA0) | (statuses >= 0xB0) & (statuses < 0xC0) & (data[a[:count]] == 64)
        ]
        return events, int(b[count - 1]) + 1, int(ticks[-1]), int(statuses[-1])

    def _schedule(self, count: int, at: int) -> None:
        """Schedule the next attempt, after a stretch of ``count`` events up to byte ``at``."""
        if count >= FEWEST_EVENTS:
            self._window, self._pause, self.due = min(8 * self._window, MOST_EVENTS), 8, at
        else:
            self._window, self._pause = FIRST_EVENTS, min(2 * self._pause, 4096)
            self.due = at + self._pause
