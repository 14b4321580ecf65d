"""The longest passage of notes that a piece shares with a training set, in any key.

Notes are sorted by onset and pitch. A passage of n notes is n - 1 pairs (pitch interval, time
between onsets in steps of 50 ms). So transposed copies are found, but copies at another tempo only
if their steps stay the same. Real pieces share short passages by chance, such as trills and scales:
compare the length of a passage with what held-out pieces share with the training set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.notes import Score, pitched

#: Length of a step, seconds.
STEP_SECONDS = 0.05
#: Longer times between onsets are clipped to this many steps.
LONGEST_STEPS = 1023
#: Shorter passages are not copies: all music shares them.
SHORTEST_COPY = 5
#: Base of the polynomial hash modulo 2^64; it must be odd. If hashes are equal, notes are compared.
_BASE = np.uint64(0x9E3779B97F4A7C15)


def symbols(score: Score) -> np.ndarray:
    """Return (n - 1,) int32: a number from 0 for each (interval, time) between successive notes."""
    notes = pitched(score)
    interval = np.diff(notes["pitch"].astype(np.int64)) + 128
    # Halves are rounded up, even if rounding errors make them a millionth of a step less: a piece
    # that begins later must have the same steps.
    steps = np.floor(np.diff(notes["start"]) / STEP_SECONDS + 0.5 + 1e-6).astype(np.int64)
    time = np.minimum(steps, LONGEST_STEPS)
    return (interval * (LONGEST_STEPS + 1) + time).astype(np.int32)


class CopyIndex:
    """All passages of :data:`SHORTEST_COPY` notes of the training pieces, sorted by hash.

    It takes 16 bytes a note: a 64-bit hash, its position in the symbols, and the symbol.
    """

    def __init__(self, pieces: Sequence[np.ndarray]) -> None:
        """``pieces`` has the :func:`symbols` of each piece, or any other int32 numbers from 0."""
        separator = np.array([-1], np.int32)  # no symbol equals it, so no passage crosses it
        arrays = [separator]  # piece i begins after separator i
        for piece in pieces:
            arrays += [piece, separator]
        self._symbols = np.concatenate(arrays)
        self._separators = np.flatnonzero(self._symbols == -1)
        hashes = _hashes(self._symbols, SHORTEST_COPY - 1)
        self._positions = np.argsort(hashes, kind="stable").astype(np.int32)
        self._hashes = hashes[self._positions]

    def longest(self, piece: np.ndarray) -> tuple[int, int]:
        """Find the longest passage of ``piece`` (its :func:`symbols`) that is in a training piece,
        or the first of equally long ones. Return (its number of notes, the number of the training
        piece); (0, -1) if no such passage has :data:`SHORTEST_COPY` notes."""
        best_length, best_position = 0, -1
        hashes = _hashes(piece, SHORTEST_COPY - 1)
        low = np.searchsorted(self._hashes, hashes, side="left")
        high = np.searchsorted(self._hashes, hashes, side="right")
        for i in np.flatnonzero(high > low).tolist():
            if len(piece) - i <= best_length:
                break
            positions = self._positions[low[i] : high[i]].astype(np.int64)
            if i:  # drop the ends of passages that begin earlier, which are already found
                positions = positions[self._symbols[positions - 1] != piece[i - 1]]
            length, position = self._extend(piece[i:], positions, best_length)
            if length > best_length:
                best_length, best_position = length, position
        if best_length < SHORTEST_COPY - 1:
            return 0, -1
        return best_length + 1, int(np.searchsorted(self._separators, best_position)) - 1

    def _extend(self, piece: np.ndarray, positions: np.ndarray, to_beat: int) -> tuple[int, int]:
        """Return (n, position): the largest n for which the first n symbols of ``piece`` are at one
        of ``positions``, if it is more than ``to_beat``; else any n up to ``to_beat``."""
        # Most candidates differ at the symbol that would make them longer than ``to_beat``.
        decisive = np.minimum(positions + to_beat, len(self._symbols) - 1)
        positions = positions[self._symbols[decisive] == piece[to_beat]]
        if not len(positions):
            return 0, -1
        for length in range(len(piece)):
            matches = positions[self._symbols[positions + length] == piece[length]]
            if not len(matches):
                return length, int(positions[0])
            positions = matches
        return len(piece), int(positions[0])


def _hashes(values: np.ndarray, length: int) -> np.ndarray:
    """Return (n - length + 1,) uint64: the hash of each run of ``length`` in ``values`` (n,)."""
    count = len(values) - length + 1
    if count <= 0:
        return np.empty(0, np.uint64)
    wide = values.astype(np.int64).astype(np.uint64)
    hashes = np.zeros(count, np.uint64)
    for i in range(length):
        hashes = hashes * _BASE + wide[i : i + count]
    return hashes
