"""The longest span of notes that a piece shares with a training set, in any key.

A span of n notes is n - 1 pairs of (pitch interval, time between onsets), the time in steps of
50 ms, with notes sorted by onset and pitch. So transposed copies are found, and copies at another
tempo only if their steps stay the same. Real pieces share short spans by chance, such as trills and
scales: compare with the spans that held-out pieces share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.notes import Score, pitched

#: Times between onsets are in steps of so many seconds, and at most so many steps.
STEP, LONGEST_STEPS = 0.05, 1023
#: Shorter spans are not copies: all music shares them.
SHORTEST_COPY = 5
#: Base of the rolling hash, odd, modulo 2^64. Equal hashes are only candidates, which are compared.
_BASE = np.uint64(0x9E3779B97F4A7C15)


def symbols(score: Score) -> np.ndarray:
    """(n - 1,) int32, not negative: a number for each pair of successive notes; empty if n < 2."""
    notes = pitched(score)
    interval = np.diff(notes["pitch"].astype(np.int64)) + 128
    # Halves are rounded upwards, also those that are a millionth less by rounding errors: a piece
    # that begins later must give the same steps.
    steps = np.floor(np.diff(notes["start"]) / STEP + 0.5 + 1e-6).astype(np.int64)
    time = np.minimum(steps, LONGEST_STEPS)
    return (interval * (LONGEST_STEPS + 1) + time).astype(np.int32)


class CopyIndex:
    """All spans of :data:`SHORTEST_COPY` notes of the training pieces, sorted by hash.

    16 bytes a note: 64-bit hashes, their places, and the symbols.
    """

    def __init__(self, pieces: Sequence[np.ndarray]) -> None:
        """``pieces`` are the :func:`symbols` of each, or other numbers from 0."""
        wall = np.array([-1], np.int32)  # between pieces, since no symbol equals it
        parts = [wall]
        for piece in pieces:
            parts += [piece, wall]
        self._symbols = np.concatenate(parts)
        # Piece i begins after the i-th wall.
        self._walls = np.flatnonzero(self._symbols == -1)
        hashes = _hashes(self._symbols, SHORTEST_COPY - 1)
        self._places = np.argsort(hashes, kind="stable").astype(np.int32)
        self._hashes = hashes[self._places]

    def longest(self, piece: np.ndarray) -> tuple[int, int]:
        """Return the notes of the longest span of ``piece``, its :func:`symbols`, in the index, and
        the number of the training piece that has it; of equally long spans the first. (0, -1)
        without a span of :data:`SHORTEST_COPY` notes."""
        best, where = 0, -1
        keys = _hashes(piece, SHORTEST_COPY - 1)
        low = np.searchsorted(self._hashes, keys, side="left")
        high = np.searchsorted(self._hashes, keys, side="right")
        for i in np.flatnonzero(high > low).tolist():
            if len(piece) - i <= best:
                break
            places = self._places[low[i] : high[i]].astype(np.int64)
            if i:  # spans that continue a span from i - 1 were found there
                places = places[self._symbols[places - 1] != piece[i - 1]]
            length, place = self._extend(piece[i:], places, best)
            if length > best:
                best, where = length, place
        if best < SHORTEST_COPY - 1:
            return 0, -1
        return best + 1, int(np.searchsorted(self._walls, where)) - 1

    def _extend(self, piece: np.ndarray, places: np.ndarray, least: int) -> tuple[int, int]:
        """Return the largest number of symbols of ``piece`` that are at one of ``places``, and the
        place. The number may be too small if it does not exceed ``least``."""
        # Most candidates differ at the symbol that would make them the longest.
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
