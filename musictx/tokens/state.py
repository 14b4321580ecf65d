"""What the grammars of notes share."""

from __future__ import annotations

from typing import Self

import numpy as np

from musictx.tokens.sounding import Sounding
from musictx.tokens.velocities import Velocities
from musictx.tokens.vocab import Vocabulary


class SoundingState:
    """What grammar states share that know what sounds: the notes, a mask that is remembered until
    the next id is taken (which sets ``_mask`` to None), copies that go their own way."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ids = {kind: slice(*vocabulary.range(kind)) for kind in vocabulary.kinds}
        self.sounding = Sounding()
        self._notes = 0
        loud = self._ids["velocity"]
        self._loudness = Velocities(loud.stop - loud.start).of_bin
        self._mask: np.ndarray | None = None

    @property
    def notes(self) -> int:
        return self._notes

    def allowed(self) -> np.ndarray:
        """(vocab,) bool, read-only: ids that may come next, at least one."""
        if self._mask is None:
            self._mask = self._allowed()
            self._mask.setflags(write=False)
        return self._mask

    def _allowed(self) -> np.ndarray:
        """What :meth:`allowed` gives, of the grammar that is a subclass."""
        raise NotImplementedError

    def copy(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.sounding = self.sounding.copy()
        return other

    def _name(self, token_id: int) -> str:
        if 0 <= token_id < self._vocabulary.size:
            return self._vocabulary.describe(token_id)
        return f"id {token_id} (of {self._vocabulary.size})"
