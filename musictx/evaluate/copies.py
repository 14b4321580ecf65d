"""The longest span of notes that a piece shares with a training set, in any key.

Notes are sorted by onset and pitch. A span of n notes is n - 1 pairs (pitch interval, time between
onsets in steps of 50 ms). So transposed copies are found, but copies at another tempo only if their
steps stay the same. Real pieces share short spans by chance, such as trills and scales: judge a
span by those that held-out pieces share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.notes import Score, pitched

#: Seconds of a step; times between onsets are at most this many steps, longer ones are shortened.
STEP_SECONDS, LONGEST_STEPS = 0.05, 1023
#: Shorter spans are not copies: all music shares them.
SHORTEST_COPY = 5
#: Base of the polynomial hash modulo 2^64; it must be odd. Spans of equal hash are then compared.
_BASE = np.uint64(0x9E3779B97F4A7C15)


def symbols(score: Score) -> np.ndarray:
    """(n - 1,) int32: a number from 0 for each (interval, time) between successive notes."""
    notes = pitched(score)
    interval = np.diff(notes["pitch"].astype(np.int64)) + 128
    # Halves are rounded up, even if rounding errors make them a millionth less: a piece that begins
    # later must have the same steps.
    steps = np.floor(np.diff(notes["start"]) / STEP_SECONDS + 0.5 + 1e-6).astype(np.int64)
    time = np.minimum(steps, LONGEST_STEPS)
    return (interval * (LONGEST_STEPS + 1) + time).astype(np.int32)


class CopyIndex:
    """All spans of :data:`SHORTEST_COPY` notes of the training pieces, sorted by hash.

    It takes 16 bytes a note: a 64-bit hash, its position in the symbols, and the symbol.
    """

    def __init__(self, pieces: Sequence[np.ndarray]) -> None:
        """``pieces`` has the :func:`symbols` of each piece, or any other int32 numbers from 0."""
        separator = np.array([-1], np.int32)  # no symbol equals it, so no span crosses it
        arrays = [separator]  # piece i begins after separator i
        for piece in pieces:
            arrays += [piece, separator]
        self._symbols = np.concatenate(arrays)
        self._separators = np.flatnonzero(self._symbols == -1)
        hashes = _hashes(self._symbols, SHORTEST_COPY - 1)
        self._positions = np.argsort(hashes, kind="stable").astype(np.int32)
        self._hashes = hashes[self._positions]

    def longest(self, piece: np.ndarray) -> tuple[int, int]:
        """Find the longest span of ``piece`` (its :func:`symbols`) that is in a training piece, or
        the first of equally long ones. Return (its number of notes, the number of the training
        piece); (0, -1) if no such span has :data:`SHORTEST_COPY` notes."""
        best_length, best_position = 0, -1
        hashes = _hashes(piece, SHORTEST_COPY - 1)
        low = np.searchsorted(self._hashes, hashes, side="left")
        high = np.searchsorted(self._hashes, hashes, side="right")
        for i in np.flatnonzero(high > low).tolist():
            if len(piece) - i <= best_length:
                break
            positions = self._positions[low[i] : high[i]].astype(np.int64)
            if i:  # drop the ends of spans that begin earlier, which are already found
                positions = positions[self._symbols[positions - 1] != piece[i - 1]]
            length, position = self._extend(piece[i:], positions, best_length)
            if length > best_length:
                best_length, best_position = length, position
        if best_length < SHORTEST_COPY - 1:
            return 0, -1
        return best_length + 1, int(np.searchsorted(self._separators, best_position)) - 1

    def _extend(self, piece: np.ndarray, positions: np.ndarray, least: int) -> tuple[int, int]:
        """Return (n, position): the largest n for which the first n symbols of ``piece`` are at one
        of ``positions``, if it is more than ``least``; else some n up to ``least``."""
        # Most candidates differ at the symbol that would make them longer than ``least``.
        decisive = np.minimum(positions + least, len(self._symbols) - 1)
        positions = positions[self._symbols[decisive] == piece[least]]
        length, position = -1, -1
        while len(positions):
            length, position = length + 1, int(positions[0])
            if length == len(piece):
                break
            positions = positions[self._symbols[positions + length] == piece[length]]
        return max(0, length), position


def _hashes(values: np.ndarray, length: int) -> np.ndarray:
    """Return (n - length + 1,) uint64: the hash of every ``length`` successive ``values`` (n,)."""
    count = len(values) - length + 1
    if count <= 0:
        return np.empty(0, np.uint64)
    wide = values.astype(np.int64).astype(np.uint64)
    hashes = np.zeros(count, np.uint64)
    for i in range(length):
        hashes = hashes * _BASE + wide[i : i + count]
    return hashes
