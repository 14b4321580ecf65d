"""What may follow in a half-written performance: the state machine behind constrained sampling.

The rules follow the order in which the tokenizer writes, ``[shifts] [program] [velocity] event``:

- a release only of what sounds, in the current program, and before the strikes of the same step
  (so no note has zero length and a repeated pitch is released before it is struck again);
- a velocity or program token only if it changes something, and never without what it is for:
  velocity before a strike, program before a velocity, strike or release;
- no shift before the first event, none after a shift shorter than the longest;
- ``eos`` only after a release or a drum stroke, when nothing sounds;
- a control token never: in a prefix they are passed over, and after ``here`` time may be shifted
  whatever shift was before it.

Sound, not canonical: every encoding is accepted and every accepted sequence decodes, but some
accepted sequences are not what the tokenizer would write (chords in another order, say).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.tokens.controls import HERE
from musictx.tokens.controls import KINDS as CONTROLS
from musictx.tokens.sounding import SoundingState
from musictx.tokens.vocab import BOS, CUT, EOS, Vocabulary


class PerformanceState(SoundingState):
    """State of a piece in the vocabulary of ``PerformanceTokenizer``; see :class:`GrammarState`.

    vocabulary    with note_on, note_off, time_shift, velocity and, or not, program and drum
    step_seconds  length of one step of time_shift
    """

    def __init__(self, vocabulary: Vocabulary, step_seconds: float) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._step_seconds = step_seconds
        self._programs = "program" in vocabulary.kinds
        self._ids = {kind: slice(*vocabulary.range(kind)) for kind in vocabulary.kinds}
        first = CONTROLS[0] if CONTROLS[0] in self._ids else None
        #: Control tokens are the last ones.
        self._controls = range(
            self._ids[first].start if first else vocabulary.size, vocabulary.size
        )
        self._low = int(vocabulary.value_of[self._ids["note_on"].start])
        self._longest = int(vocabulary.value_of[self._ids["time_shift"].stop - 1])
        self._steps = 0
        self._last = ""  # kind of the last id; "" before the first
        self._after_program = False  # the last ids were a program and a velocity
        self._may_shift = False
        self._velocity: int | None = None
        self._program_known = False

    @property
    def seconds(self) -> float:
        return self._steps * self._step_seconds

    def advance(self, token_id: int) -> None:
        """Write one id. Raises ``ValueError`` if it is not allowed here."""
        if not 0 <= token_id < self._vocabulary.size or not self.allowed()[token_id]:
            raise ValueError(f"{self._name(token_id)} is not allowed after {self._last or 'start'}")
        self._take(*self._vocabulary.token(token_id))

    def read(self, prefix: np.ndarray | Sequence[int]) -> None:
        """Advance by all of ``prefix``; one ``bos`` or ``cut`` before it, and control tokens, are
        passed over.

        Raises ``ValueError`` naming the place of the first id that cannot stand there.
        """
        for place, token_id in enumerate(np.asarray(prefix).reshape(-1).tolist()):
            if place == 0 and token_id in (BOS, CUT):
                continue
            if token_id in self._controls:
                if token_id == self._ids[HERE].start:
                    self._may_shift, self._mask = True, None
                continue
            try:
                self.advance(token_id)
            except ValueError as error:
                raise ValueError(f"token {place}: {error}") from None

    def _allowed(self) -> np.ndarray:
        mask = np.zeros(self._vocabulary.size, dtype=bool)
        ids, last = self._ids, self._last
        if last == "eos":
            mask[EOS] = True
            return mask
        has_velocity = self._velocity is not None
        has_program = not self._programs or self._program_known
        mask[ids["note_on"]] = has_velocity and has_program
        if self._programs:
            mask[ids["drum"]] = has_velocity and last != "program" and not self._after_program
        if last == "velocity":
            return mask
        mask[ids["velocity"]] = True
        if self._velocity is not None:
            mask[ids["velocity"].start + self._velocity - 1] = False
        if not self.sounding.struck:
            first = ids["note_off"].start - self._low
            mask[[first + pitch for pitch in self.sounding.here()]] = True
        if last == "program":
            return mask
        if self._programs:
            mask[ids["program"]] = True
            if self._program_known:
                mask[ids["program"].start + self.sounding.program] = False
        mask[ids["time_shift"]] = self._may_shift
        mask[EOS] = last in ("note_off", "drum") and len(self.sounding) == 0
        return mask

    def _take(self, kind: str, value: int) -> None:
        self._mask = None
        self._after_program = self._last == "program" and kind == "velocity"
        self._last = kind
        self._may_shift = kind != "time_shift" or value == self._longest
        if kind == "time_shift":
            self._steps += value
            self.sounding.wait()
        elif kind == "velocity":
            self._velocity = value
        elif kind == "program":
            self.sounding.program, self._program_known = value, True
        elif kind == "note_on":
            self.sounding.strike(value, self.seconds)
            self._notes += 1
        elif kind == "note_off":
            self.sounding.release(value)
        elif kind == "drum":
            self._notes += 1

    def _name(self, token_id: int) -> str:
        if 0 <= token_id < self._vocabulary.size:
            return self._vocabulary.describe(token_id)
        return f"id {token_id} (of {self._vocabulary.size})"
