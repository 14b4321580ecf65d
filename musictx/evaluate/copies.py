"""The longest span of notes that a piece shares with a training set, in any key.

A span of n notes is n - 1 steps of (pitch interval, time from onset to onset), the time in steps of
50 ms, notes in order of onset, then pitch. So a transposed copy counts, one at another tempo only
as far as its steps stay the same. Real pieces share short spans by chance, by trills and scales:
only the comparison with held-out pieces tells copying from style.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from musictx.notes import Score, pitched

#: Onset differences are compared in steps of so many seconds; so many steps and more are equal.
STEP, LONGEST_STEPS = 0.05, 1023
#: Spans of fewer notes do not count: so few are shared by all music.
SHORTEST_COPY = 5
#: Base of the rolling hash, odd, modulo 2^64. Equal hashes are only candidates, which are compared.
_BASE = np.uint64(0x9E3779B97F4A7C15)


class Copy(NamedTuple):
    """``notes`` of a piece from number ``start`` on that are also in training piece ``piece``.

    0 notes, and -1 for both others, if no span is as long as the shortest that counts."""

    notes: int
    start: int
    piece: int


NOTHING = Copy(0, -1, -1)


def symbols(score: Score) -> np.ndarray:
    """(n - 1,) int32, not negative: one number for each step from note to note; empty if n < 2."""
    notes = pitched(score)
    interval = np.diff(notes["pitch"].astype(np.int64)) + 128
    time = np.minimum(steps(np.diff(notes["start"]), STEP), LONGEST_STEPS)
    return (interval * (LONGEST_STEPS + 1) + time).astype(np.int32)


def steps(seconds: np.ndarray, step: float) -> np.ndarray:
    """Times -> the nearest whole number of ``step``, halves upwards, int64.

    What lies a millionth of a step below a half goes up too: that much rounding moves differences
    of times, and a piece that begins later must not be another one."""
    return np.floor(seconds / step + 0.5 + 1e-6).astype(np.int64)


class CopyIndex:
    """All spans of :data:`SHORTEST_COPY` notes of the training pieces, sorted by hash.

    16 bytes a note: a table of 64-bit hashes, their places, and the symbols themselves.
    """

    def __init__(self, pieces: Sequence[np.ndarray]) -> None:
        """``pieces``: the steps of each, as :func:`symbols` gives them, or other numbers from 0."""
        wall = np.array([-1], np.int32)  # between pieces: no step of a piece equals it
        parts = [wall]
        for piece in pieces:
            parts += [piece, wall]
        self._symbols = np.concatenate(parts)
        # Piece i begins after the i-th wall.
        self._walls = np.flatnonzero(self._symbols == -1)
        hashes = _hashes(self._symbols, SHORTEST_COPY - 1)
        self._places = np.argsort(hashes, kind="stable").astype(np.int32)
        self._hashes = hashes[self._places]

    def longest(self, piece: np.ndarray) -> Copy:
        """The longest span of a piece, as its steps, that is in the index; of equal ones the
        first."""
        best, start, where = 0, -1, -1
        keys = _hashes(piece, SHORTEST_COPY - 1)
        low = np.searchsorted(self._hashes, keys, side="left")
        high = np.searchsorted(self._hashes, keys, side="right")
        for at in np.flatnonzero(high > low).tolist():
            if len(piece) - at <= best:
                break
            places = self._places[low[at] : high[at]].astype(np.int64)
            if at:  # a span that could begin earlier was met at that place
                places = places[self._symbols[places - 1] != piece[at - 1]]
            length, place = self._extend(piece[at:], places, best)
            if length > best:
                best, start, where = length, at, place
        if best < SHORTEST_COPY - 1:
            return NOTHING
        return Copy(best + 1, start, int(np.searchsorted(self._walls, where)) - 1)

    def _extend(self, piece: np.ndarray, places: np.ndarray, least: int) -> tuple[int, int]:
        """How many symbols of ``piece`` stand at one of ``places``, at most, and the place.

        Those that do not exceed ``least`` may be cut short."""
        # Most candidates fail at the symbol that would beat the best so far.
        ahead = np.minimum(places + least, len(self._symbols) - 1)
        places = places[self._symbols[ahead] == piece[least]]
        length, place = 0, -1
        while len(places):
            length, place = length + 1, int(places[0])
            if length - 1 == len(piece):
                break
            places = places[self._symbols[places + length - 1] == piece[length - 1]]
        return max(0, length - 1), place


def _hashes(values: np.ndarray, length: int) -> np.ndarray:
    """(n - length + 1,) uint64 hashes of every window of ``length`` values."""
    count = len(values) - length + 1
    if count <= 0:
        return np.empty(0, np.uint64)
    wide = values.astype(np.int64).astype(np.uint64)
    hashes = np.zeros(count, np.uint64)
    for i in range(length):
        hashes = hashes * _BASE + wide[i : i + count]
    return hashes
