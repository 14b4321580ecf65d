"""MIDI velocities as bins of loudness, which tokens tell."""

from __future__ import annotations

from typing import Any

import numpy as np


class Velocities:
    """At most ``count`` bins of equal width over the velocities 1..127.

    Velocity v falls into bin (v - 1) // width + 1 with width = ceil(127 / count), as in note-seq,
    and comes back as the middle of its bin (note-seq: the lowest), never 0.

    bins    how many bins a velocity can reach
    of_bin  (bins + 1,) int64: the MIDI velocity of each bin; index 0 is unused
    """

    def __init__(self, count: int) -> None:
        self._width = -(-127 // count)
        self.bins: int = self.bin(127)
        lowest = np.arange(self.bins) * self._width + 1
        middle = (lowest + np.minimum(lowest + self._width - 1, 127)) // 2
        self.of_bin = np.concatenate([[0], middle]).astype(np.int64)

    def bin(self, velocity: Any) -> Any:
        """The bin, 1 and up, of MIDI velocities 1..127 (a number or an array)."""
        return (velocity - 1) // self._width + 1
