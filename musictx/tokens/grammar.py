"""What may follow in a half-written stream of events: the state machine of constrained sampling.

The rules follow the order in which the tokenizer writes, ``[shifts] [program] [velocity] event``:

- a release only of what sounds, in the current program, and before the strikes of the same step
  (so no note has zero length and a repeated pitch is released before it is struck again);
- a velocity or program token only if it changes something, and never without what it is for:
  velocity before a strike, program before a velocity, strike or release;
- no shift before the first event, none after a shift shorter than the longest;
- ``eos`` only after a release or a drum stroke, when nothing sounds;
- a control token never: in a prefix they are passed over, and after ``here`` time may be shifted
  whatever shift was before it.

Every encoding is accepted, and every accepted sequence decodes. Some accepted sequences are not
what the tokenizer would write: chords in another order, for example.
"""

from __future__ import annotations

import numpy as np

from musictx.notes import DRUMS
from musictx.tokens.controls import CONTROL_KINDS, HERE
from musictx.tokens.sounding import Change
from musictx.tokens.tokenizer import GrammarState
from musictx.tokens.velocities import Velocities
from musictx.tokens.vocab import Vocabulary

#: Kinds of id that can follow in some state.
WRITTEN = {"note_on", "note_off", "drum", "velocity", "program", "time_shift", "eos"}


class PerformanceState(GrammarState):
    """State of a piece in the vocabulary of ``PerformanceTokenizer``; see :class:`GrammarState`.

    vocabulary    with note_on, note_off, time_shift, velocity and, or not, program and drum
    step_seconds  length of one step of time_shift
    """

    def __init__(self, vocabulary: Vocabulary, step_seconds: float) -> None:
        super().__init__(vocabulary)
        self._step_seconds = step_seconds
        self._programs = "program" in vocabulary.kinds
        self._kinds = frozenset(vocabulary.kinds) & WRITTEN
        first = CONTROL_KINDS[0] if CONTROL_KINDS[0] in self._ids else None
        #: Control tokens are the last ones.
        self._controls = range(
            self._ids[first].start if first else vocabulary.size, vocabulary.size
        )
        self._low = int(vocabulary.value_of[self._ids["note_on"].start])
        self._longest = int(vocabulary.value_of[self._ids["time_shift"].stop - 1])
        self._loudness = Velocities(len(range(*vocabulary.range("velocity")))).of_bin
        self._steps = 0
        self._last = ""  # kind of the last id; "" before the first
        self._after_program = False  # the last ids were a program and a velocity
        self._may_shift = False
        self._velocity: int | None = None
        self._program_known = False
        #: The kinds that may come depend on little: the masks of what was met, copies share them.
        self._masks: dict[tuple[str | bool, ...], np.ndarray] = {}

    @property
    def seconds(self) -> float:
        return self._steps * self._step_seconds

    def _where(self) -> str:
        return f"after {self._last or 'start'}"

    def _passes(self, token_id: int) -> bool:
        if token_id not in self._controls:
            return False
        if token_id == self._ids[HERE].start:
            self._may_shift, self._mask = True, None
        return True

    def _allowed(self) -> np.ndarray:
        ids, sounding, loud = self._ids, self.sounding, self._velocity is not None
        silent, after = len(sounding) == 0, self._after_program
        on = self._last, after, self._may_shift, loud, self._program_known, sounding.struck, silent
        if on not in self._masks:
            self._masks[on] = np.zeros(self._vocabulary.size, dtype=bool)
            for kind in self._kinds:
                self._masks[on][ids[kind]] = self._open(kind)
        mask = self._masks[on].copy()
        if self._velocity is not None:
            mask[ids["velocity"].start + self._velocity - 1] = False
        if self._program_known:
            mask[ids["program"].start + sounding.program] = False
        releases = mask[ids["note_off"]]
        if releases[0]:
            releases[:] = False
            for pitch in sounding.here():
                releases[pitch - self._low] = True
        return mask

    def _may_come(self, token_id: int) -> bool:
        """``allowed()[token_id]`` for this id alone: saves time where long prefixes are read."""
        if self._mask is not None:
            return bool(self._mask[token_id])
        kind, value = self._vocabulary.tokens[token_id]
        if kind not in self._kinds or not self._open(kind):
            return False
        if kind == "velocity":
            return value != self._velocity
        if kind == "program":
            return not self._program_known or value != self.sounding.program
        return kind != "note_off" or (self.sounding.program, value) in self.sounding

    def _open(self, kind: str) -> bool:
        """Whether ids of ``kind``, one of ``_kinds``, may come, but for those that change nothing
        and releases of what does not sound."""
        last = self._last
        if last == "eos":
            return kind == "eos"
        if kind == "note_on":
            return self._velocity is not None and (not self._programs or self._program_known)
        if kind == "drum":
            return self._velocity is not None and last != "program" and not self._after_program
        if last == "velocity":
            return False
        if kind == "velocity":
            return True
        if kind == "note_off":
            return not self.sounding.struck
        if last == "program":
            return False
        if kind == "time_shift":
            return self._may_shift
        return kind == "program" or (last in ("note_off", "drum") and len(self.sounding) == 0)

    def _take(self, kind: str, value: int) -> list[Change]:
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
        elif kind in ("note_on", "drum"):
            self.notes += 1
            part, end = (DRUMS, self.seconds) if kind == "drum" else (self.sounding.program, None)
            if end is None:
                self.sounding.strike(value, self.seconds)
            velocity = int(self._loudness[self._velocity or 0])
            return [Change(self.seconds, True, value, velocity, part, end)]
        elif kind == "note_off":
            self.sounding.release(value)
            return [Change(self.seconds, False, value, 0, self.sounding.program)]
        return []
