"""The interface of tokens that the rules of chorales use."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Ids(Protocol):
    """A vocabulary of four voices that take turns, one token a voice and step.

    ties  held notes are written as ties
    """

    ties: bool

    @property
    def size(self) -> int:
        """How many ids there are."""
        ...

    @property
    def pitch_of(self) -> np.ndarray:
        """(size,) int64: the pitch that each id sounds; -1 for silence, a tie and what is none."""
        ...

    def is_tie(self, ids: np.ndarray) -> np.ndarray:
        """Which of ``ids`` are ties."""
        ...

    def pitches(self, ids: np.ndarray) -> np.ndarray:
        """ids (B, n) without ``bos`` -> (B, T, 4) int64 pitches; -1 = silent, or not written."""
        ...
