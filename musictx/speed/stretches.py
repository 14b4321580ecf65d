"""Read many events of a MIDI track at once; ``midi/scan.py`` reads all others one by one."""

from __future__ import annotations

import numpy as np

FEWEST_EVENTS = 32  # for which numpy is faster than reading event by event
FIRST_EVENTS, MOST_EVENTS = 512, 1 << 16  # covered by one attempt: at first, and at most
FIRST_PAUSE, MOST_PAUSE = 8, 4096  # bytes from a short stretch to the next attempt
SUSTAIN = 64  # the controller of the sustain pedal


class Stretches:
    """Reads stretches, which are consecutive events with two data bytes, with numpy.

    Almost all events of a track are note-ons, note-offs and controllers. Each has exactly three
    bytes below 128 (the last byte of its delta time and two data bytes), whether its status byte is
    present or omitted (running status). So in a stretch of such events every third byte below 128
    is the last of a delta time. The stretch ends at the first event for which this does not hold;
    from there :mod:`musictx.midi.scan` continues event by event.

    The next attempt follows immediately after a long stretch. After a short one it is postponed, by
    twice as many bytes each time, so that the time stays linear in the number of bytes.
    """

    def __init__(self, chunk: bytes) -> None:
        self._data = np.frombuffer(chunk, np.uint8)
        self._low = np.flatnonzero(self._data < 0x80)
        self._window, self._pause = FIRST_EVENTS, FIRST_PAUSE
        #: The byte of the chunk at which the next attempt is due.
        self.next_attempt = 0 if len(chunk) >= 8 * FEWEST_EVENTS else len(chunk)

    def read(self, at: int, tick: int, status: int, last: int) -> tuple[np.ndarray, int, int, int]:
        """Read the stretch that begins at byte ``at``, up to tick ``last``.

        ``tick`` and ``status`` are the tick and the running status before it. Returns (events,
        byte, tick, status): the note-ons, note-offs and changes of the sustain pedal, each as
        ``tick << 24 | status << 16 | a << 8 | b`` with the data bytes a and b; the byte at which
        the next event begins; and the tick and the running status there.
        """
        data = self._data
        first = int(np.searchsorted(self._low, at))
        low = self._low[first : first + 3 * self._window]
        # The indices of the last byte of each delta time and of both data bytes.
        ends, a, b = low[: len(low) // 3 * 3].reshape(-1, 3).T
        begins = np.concatenate([[at], b + 1])[:-1]
        extra = ends - begins  # bytes of the delta time before its last
        status_bytes = a - ends - 1  # 0 for running status, 1 for a status byte; others are invalid
        new_status = data[ends + 1]  # the status of an event with a status byte
        two_data_bytes = (new_status < 0xC0) | (new_status >= 0xE0) & (new_status < 0xF0)
        has_status = (status_bytes == 0) | (status_bytes == 1) & two_data_bytes
        valid = (extra <= 3) & (b == a + 1) & has_status
        # If events with the running status do not have two data bytes, a status byte must be first.
        if not (0x80 <= status < 0xC0 or 0xE0 <= status < 0xF0):
            valid &= np.cumsum(status_bytes) > 0
        count = len(valid) if valid.all() else int(np.argmin(valid))
        deltas = data[ends[:count]].astype(np.int64)
        for k in (1, 2, 3):
            longer = np.flatnonzero(extra[:count] >= k)
            deltas[longer] |= (data[ends[longer] - k].astype(np.int64) & 0x7F) << 7 * k
        ticks = np.cumsum(deltas) + tick
        count = int(np.searchsorted(ticks, last, side="right"))
        self._schedule(count, int(b[count - 1]) + 1 if count else at)
        if not count:
            return np.empty(0, np.int64), at, tick, status
        ticks, a, b = ticks[:count], a[:count], b[:count]
        latest = np.maximum.accumulate(np.where(status_bytes[:count] == 1, np.arange(count), -1))
        statuses = np.where(latest < 0, status, new_status[latest]).astype(np.int64)
        events = ticks << 24 | statuses << 16 | data[a].astype(np.int64) << 8 | data[b]
        pedal = (statuses >= 0xB0) & (statuses < 0xC0) & (data[a] == SUSTAIN)
        events = events[(statuses < 0xA0) | pedal]
        return events, int(b[-1]) + 1, int(ticks[-1]), int(statuses[-1])

    def _schedule(self, count: int, at: int) -> None:
        """Schedule the next attempt, after a stretch of ``count`` events up to byte ``at``."""
        if count >= FEWEST_EVENTS:
            self._window, self._pause = min(8 * self._window, MOST_EVENTS), FIRST_PAUSE
            self.next_attempt = at
        else:
            self._window, self._pause = FIRST_EVENTS, min(2 * self._pause, MOST_PAUSE)
            self.next_attempt = at + self._pause
