"""A wish about notes that sound: not struck again before their end, not for ever, not too many.

A model of note-on and note-off tokens now and then loses sight of a note it has struck. The grammar
has nothing against that; the ear has. Made for vocabularies with ``note_on``, ``note_off``,
``time_shift`` and ``velocity`` (and ``program``, if there are several instruments).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from musictx.tokens.vocab import Vocabulary

KINDS = ("note_on", "note_off", "time_shift", "velocity")


class HeldNotes:
    """A :class:`musictx.sampling.constraints.Constraint`, to be used as a wish in ``All``.

    past      (P,) ids that every row begins with
    rows      how many rows go on from there
    restrike  whether a pitch may be struck again while it sounds (in the same program)
    longest   seconds after which the only wish is that a note ends; ``None`` = as long as it likes
    most      notes that may sound at once; ``None`` = any number
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        past: np.ndarray | Sequence[int] = (),
        *,
        rows: int,
        step_seconds: float,
        restrike: bool = False,
        longest: float | None = None,
        most: int | None = None,
    ) -> None:
        missing = [kind for kind in KINDS if kind not in vocabulary.kinds]
        if missing:
            raise ValueError(f"HeldNotes: this vocabulary has no {', '.join(missing)}")
        steps = None if longest is None else max(1, round(longest / step_seconds))
        row = _Row(vocabulary, restrike, steps, most)
        for token_id in past:
            row.take(int(token_id))
        self._rows = [copy.deepcopy(row) for _ in range(rows)]

    def allowed(self) -> Tensor:
        return torch.from_numpy(np.stack([row.allowed() for row in self._rows]))

    def advance(self, ids: Tensor) -> None:
        for row, token_id in zip(self._rows, ids.tolist()):
            row.take(token_id)

    def done(self) -> Tensor:
        return torch.zeros(len(self._rows), dtype=torch.bool)


class _Row:
    """What sounds in one row: (program, pitch) -> steps at which it was struck, oldest first."""

    def __init__(
        self, vocabulary: Vocabulary, restrike: bool, longest: int | None, most: int | None
    ) -> None:
        self.vocabulary, self.restrike = vocabulary, restrike
        self.longest, self.most = longest, most
        self.sounding: dict[tuple[int, int], list[int]] = {}
        self.program, self.step, self.struck = 0, 0, False

    def __deepcopy__(self, memo: dict) -> _Row:
        other = copy.copy(self)  # the vocabulary is shared
        other.sounding = {key: steps.copy() for key, steps in self.sounding.items()}
        return other

    def take(self, token_id: int) -> None:
        kind, value = self.vocabulary.token(token_id)
        key = (self.program, value)
        if kind == "time_shift":
            self.step += value
            self.struck = False
        elif kind == "program":
            self.program = value
        elif kind == "note_on":
            self.sounding.setdefault(key, []).append(self.step)
            self.struck = True
        elif kind == "note_off" and key in self.sounding:
            self.sounding[key].pop(0)
            if not self.sounding[key]:
                del self.sounding[key]

    def allowed(self) -> np.ndarray:
        overdue = self._overdue()
        if overdue is not None:
            return overdue
        mask = np.ones(self.vocabulary.size, dtype=bool)
        if self.most is not None and sum(map(len, self.sounding.values())) >= self.most:
            self._no_strike(mask)
        if not self.restrike:
            for program, pitch in self.sounding:
                if program == self.program:
                    mask[self.vocabulary.id("note_on", pitch)] = False
        return mask

    def _no_strike(self, mask: np.ndarray) -> None:
        """Forbid strikes, and the tokens that lead to nothing else."""
        for kind in ("note_on", "velocity", "program"):
            if kind in self.vocabulary.kinds:
                mask[slice(*self.vocabulary.range(kind))] = False
        if "program" in self.vocabulary.kinds and not self.struck:
            for program, _ in self.sounding:  # there is something to release
                mask[self.vocabulary.id("program", program)] = True

    def _overdue(self) -> np.ndarray | None:
        """Nothing but the end of a note that is overdue, or the way there; None if none is.

        Releases come before the strikes of their step, so the wish waits for the next step.
        """
        if self.longest is None or self.struck:
            return None
        late = [key for key, steps in self.sounding.items() if self.step - steps[0] >= self.longest]
        if not late:
            return None
        mask = np.zeros(self.vocabulary.size, dtype=bool)
        here = [pitch for program, pitch in late if program == self.program]
        for pitch in here:
            mask[self.vocabulary.id("note_off", pitch)] = True
        if not here:
            for program, _ in late:
                mask[self.vocabulary.id("program", program)] = True
        return mask
