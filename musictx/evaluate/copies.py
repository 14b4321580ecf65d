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
#: The factors of a hash modulo 2^64, one for each symbol of the shortest copy.
_FACTORS = np.uint64(0x9E3779B97F4A7C15) ** np.arange(SHORTEST_COPY - 1, dtype=np.uint64)


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
    """All passages of :data:`SHORTEST_COPY` notes of the training pieces, sorted by a hash."""

    def __init__(self, pieces: Sequence[np.ndarray]) -> None:
        """``pieces`` has the :func:`symbols` of each piece, or any other int32 numbers from 0."""
        ended = [np.append(piece, -1) for piece in pieces]  # no passage crosses a -1
        self._symbols = np.concatenate([*ended, np.full(SHORTEST_COPY, -1)])
        self._ends = np.cumsum([len(piece) for piece in ended])
        hashes = _hashes(self._symbols)
        self._positions = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._positions]

    def longest(self, piece: np.ndarray) -> tuple[int, int]:
        """Find the longest passage of ``piece`` (its :func:`symbols`) that is in a training piece,
        or the first of equally long ones. Return (its number of notes, the number of the training
        piece); (0, -1) if no such passage has :data:`SHORTEST_COPY` notes."""
        best, source = SHORTEST_COPY - 2, -1
        piece = np.append(piece, np.full(SHORTEST_COPY, -2))  # -2 equals no symbol
        hashes = _hashes(piece)
        first = np.searchsorted(self._hashes, hashes, side="left")
        stop = np.searchsorted(self._hashes, hashes, side="right")
        for i in np.flatnonzero(stop > first).tolist():
            positions, length = self._positions[first[i] : stop[i]], 0
            while len(same := positions[self._symbols[positions + length] == piece[i + length]]):
                positions, length = same, length + 1
            if length > best:
                best, source = length, int(np.searchsorted(self._ends, positions[0], "right"))
        return (best + 1, source) if source >= 0 else (0, -1)


def _hashes(symbols: np.ndarray) -> np.ndarray:
    """(n,) uint64: a hash of each passage of the shortest copy in ``symbols``."""
    runs = np.lib.stride_tricks.sliding_window_view(symbols, SHORTEST_COPY - 1)
    hashes: np.ndarray = runs.astype(np.uint64) @ _FACTORS
    return hashes
