"""What the grammars of notes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from musictx.tokens.sounding import Sounding
from musictx.tokens.vocab import BOS, CUT, Vocabulary


class SoundingState:
    """What grammar states share that know what sounds: the notes, a mask that is remembered until
    the next id is taken (which sets ``_mask`` to None), copies that go their own way."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ids = {kind: slice(*vocabulary.range(kind)) for kind in vocabulary.kinds}
        self.sounding = Sounding()
        self._notes = 0
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

    def advance(self, token_id: int) -> None:
        """Write one id. Raises ``ValueError`` if it is not allowed here."""
        raise NotImplementedError

    def passes(self, token_id: int) -> bool:
        """Whether the next id of a prefix is none of the piece, but says what it is to be like or
        what is known of it ahead; called once for each id."""
        raise NotImplementedError

    def cut(self) -> None:
        """The piece does not begin here: something stood before."""

    def read(self, prefix: np.ndarray | Sequence[int]) -> None:
        """Advance by all of ``prefix`` that is of the piece."""
        for place, token_id in enumerate(np.asarray(prefix).reshape(-1).tolist()):
            if place == 0 and token_id in (BOS, CUT):
                if token_id == CUT:
                    self.cut()
                continue
            if self.passes(token_id):
                continue
            try:
                self.advance(token_id)
            except ValueError as error:
                raise ValueError(f"token {place}: {error}") from None

    def copy(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.sounding = self.sounding.copy()
        return other

    def _name(self, token_id: int) -> str:
        if 0 <= token_id < self._vocabulary.size:
            return self._vocabulary.describe(token_id)
        return f"id {token_id} (of {self._vocabulary.size})"
