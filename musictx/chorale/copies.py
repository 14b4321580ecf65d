"""The longest span of a chorale, all four voices together, that stands in a corpus too.

A piece is an int array (T, 4) as in ``voice_leading``: the pitch of S A T B in each sixteenth, -1 =
silence. Held and repeated notes count as equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.chorale.voice_leading import check
from musictx.evaluate.copies import CopyIndex


class Copies:
    """An index of the steps of a corpus, to look up spans (:mod:`musictx.evaluate.copies`)."""

    def __init__(self, corpus: Sequence[np.ndarray]) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._index = CopyIndex([self._successions(piece) for piece in corpus])

    def longest(self, piece: np.ndarray) -> int:
        """Steps of the longest span of ``piece`` that a piece of the corpus has too, in all voices,
        in any one transposition; between silences of all voices another one may begin."""
        return self._index.longest(self._successions(piece)).notes

    def _successions(self, piece: np.ndarray) -> np.ndarray:
        """(T - 1,) int32, a number for each chord after another: both as intervals above their
        first voice that sounds, and by how much that one rises."""
        pitch = check(piece)
        sounds = pitch.max(axis=1) >= 0
        height = pitch[np.arange(len(pitch)), np.argmax(pitch >= 0, 1)]
        chord = np.where(pitch >= 0, pitch - height[:, None], -1000)
        rise = np.where(sounds[1:] & sounds[:-1], np.diff(height), 0)
        rows = np.hstack([chord[:-1], chord[1:], rise[:, None]]).tolist()
        numbers = self._numbers
        return np.array([numbers.setdefault(tuple(r), len(numbers)) for r in rows], np.int32)
