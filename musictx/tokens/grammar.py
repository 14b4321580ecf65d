"""Grammars: state machines for constrained sampling, which compute the ids that may come next.

:class:`GrammarState` is the base class, :class:`SoundingNotes` holds the notes that sound, and
:class:`PerformanceState` is the grammar of events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from musictx.notes import DRUMS
from musictx.tokens.controls import CONTROL_KINDS, HERE
from musictx.tokens.stream import Velocities
from musictx.tokens.vocab import BOS, CUT, Vocabulary

#: Strikes that are remembered: more than four seconds of the densest music.
REMEMBERED = 128
#: Kinds of id that can follow in some state.
WRITTEN = {"note_on", "note_off", "drum", "velocity", "program", "time_shift", "eos"}


class NoteChange(NamedTuple):
    """A note that an id begins (``on``) or ends, in seconds of the ids.

    velocity  1 to 127; 0 where a note ends
    part      program, 128 for drums; the voice where voices take turns
    end       of a note that begins: when it ends, infinite where what follows may prolong it;
              ``None``: an id of its own ends it
    """

    seconds: float
    on: bool
    pitch: int
    velocity: int
    part: int
    end: float | None = None


class Strike(NamedTuple):
    """A note that was struck at ``seconds``; ``velocity`` is 1 to 127."""

    seconds: float
    pitch: int
    velocity: int


class SoundingNotes:
    """The notes that sound: (program, pitch) -> the times at which they were struck, seconds.

    A release ends the oldest note of a pitch: first in, first out. ``program`` and ``velocity`` are
    those in force, velocity 0 before the first; ``struck`` says whether a note was struck since
    time last passed.
    """

    def __init__(self) -> None:
        self.notes: dict[tuple[int, int], list[float]] = {}
        self.program = self.velocity = 0
        self.struck = False
        self._recent: deque[Strike] = deque(maxlen=REMEMBERED)

    def __len__(self) -> int:
        """How many notes sound."""
        return sum(map(len, self.notes.values()))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(program, pitch) of every note that sounds."""
        return (key for key, struck in self.notes.items() for _ in struck)

    def pitches_of_program(self) -> list[int]:
        """The pitches that sound of the current program."""
        return [pitch for program, pitch in self.notes if program == self.program]

    def recent(self) -> list[Strike]:
        """The last strikes, the last one first."""
        return list(self._recent)

    def strike(self, pitch: int, seconds: float) -> None:
        """Begin a note with the current program and velocity."""
        self.notes.setdefault((self.program, pitch), []).append(seconds)
        self._recent.appendleft(Strike(seconds, pitch, self.velocity))
        self.struck = True

    def release(self, pitch: int) -> None:
        """End the oldest sounding note of ``pitch`` in the current program."""
        struck = self.notes[self.program, pitch]
        struck.pop(0)
        if not struck:
            del self.notes[self.program, pitch]

    def copy(self) -> SoundingNotes:
        other = SoundingNotes()
        other.__dict__.update(self.__dict__)
        other._recent = self._recent.copy()
        other.notes = {key: struck.copy() for key, struck in self.notes.items()}
        return other


class GrammarState:
    """The state of a piece while it is written: the ids that may come next, the notes that sound,
    and the time reached.

    The object is mutable and cheap to copy; sampling has one for each row. It starts before the
    first event (after ``bos`` or ``cut``). Subclasses implement the grammars.

    table  the vocabulary;  ids  kind -> slice of its ids
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.table, self.ids = vocabulary, vocabulary.slices
        #: Notes that wait for a release; always empty where notes are written with their length.
        self.sounding = SoundingNotes()
        #: Notes struck so far.
        self.notes = 0
        self._mask: np.ndarray | None = None  # the cached result of `allowed`

    @property
    def seconds(self) -> float:
        """Time from the start of the piece to the last id."""
        raise NotImplementedError

    def end_of_bars(self, bars: int) -> float | None:
        """The time at which so many bars from the start of the piece end, if all to come are as
        long as the present one; ``None`` where no bar line is written."""
        return None

    def _allowed(self) -> np.ndarray:
        """Computes :meth:`allowed`."""
        raise NotImplementedError

    def _take(self, kind: str, value: int) -> Sequence[NoteChange] | None:
        """Write an allowed id; returns the same as :meth:`advance`."""
        raise NotImplementedError

    def _passes(self, token_id: int) -> bool:
        """Whether the next id of a prefix is a control token, or one of the given notes ahead;
        called once for each id."""
        return False

    def _cut(self) -> None:
        """The prefix begins with ``cut``: it is not the beginning of the piece."""

    def allowed(self) -> np.ndarray:
        """(vocab,) bool, read-only: ids that may come next, at least one. ``pad``, ``bos``, ``cut``
        never; ``eos`` where the piece may end."""
        if self._mask is None:
            self._mask = self._allowed()
            self._mask.setflags(write=False)
        return self._mask

    def advance(self, token_id: int) -> Sequence[NoteChange] | None:
        """Write one id, and return the notes that it begins or ends; ``None`` for tokens whose
        notes are certain only when the piece is complete. Raises ``ValueError`` if the id is not
        allowed."""
        table = self.table
        if not 0 <= token_id < table.size or not self.allowed()[token_id]:
            raise ValueError(f"{table.describe(token_id)} is not allowed here")
        self._mask = None
        return self._take(*table.tokens[token_id])

    def read(self, prefix: np.ndarray | Sequence[int]) -> None:
        """Advance by the ids of the piece in ``prefix``; a ``bos`` or ``cut`` at the beginning,
        control tokens and given notes ahead are skipped. Raises ``ValueError`` naming the place of
        the first id that is not allowed."""
        for place, token_id in enumerate(np.asarray(prefix).reshape(-1).tolist()):
            if place == 0 and token_id in (BOS, CUT):
                if token_id == CUT:
                    self._cut()
            elif not self._passes(token_id):
                try:
                    self.advance(token_id)
                except ValueError as error:
                    raise ValueError(f"token {place}: {error}") from None

    def copy(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.sounding = self.sounding.copy()
        return other


class PerformanceState(GrammarState):
    """State of a piece in the vocabulary of ``PerformanceTokenizer``; see :class:`GrammarState`.

    vocabulary    with note_on, note_off, time_shift, velocity; optionally program and drum
    step_seconds  length of one step of time_shift

    steps     the time reached
    last      the kind of the last id; "" before the first
    program, velocity  those in force, velocity as its bin; ``None`` before the first

    The rules follow the order of writing, ``[shifts] [program] [velocity] event``:

    - a release only of what sounds, in the current program, and before the strikes of the same step
      (so no note has zero length and a repeated pitch is released before it is struck again);
    - a velocity or program token only if it differs from the one in force;
    - after a velocity token only a strike; after a program token only a velocity, a strike or a
      release of that program;
    - no shift before the first event, none after a shift shorter than the longest;
    - ``eos`` only after a release or a drum stroke, when nothing sounds;
    - no control token (only a prefix may have them); after ``here`` a shift is allowed, whatever
      shift was before.

    Every encoding is accepted, and every accepted sequence decodes. Some accepted sequences are not
    what the tokenizer would write: chords in another order, for example.
    """

    def __init__(self, vocabulary: Vocabulary, step_seconds: float) -> None:
        super().__init__(vocabulary)
        self._step_seconds = step_seconds
        self._kinds = frozenset(vocabulary.kinds) & WRITTEN
        #: The first control token; all after it are such, too.
        self._controls = self.ids.get(CONTROL_KINDS[0], slice(vocabulary.size, None)).start
        self._low = int(vocabulary.value_of[self.ids["note_on"].start])
        self._longest = int(vocabulary.value_of[self.ids["time_shift"].stop - 1])
        self._loudness = Velocities(len(range(*vocabulary.range("velocity")))).of_bin
        self.steps = 0
        self.last = ""
        self._after_program = False  # the last ids were a program and a velocity
        self._may_shift = False
        self.velocity: int | None = None
        self.program = None if "program" in self._kinds else 0

    @property
    def seconds(self) -> float:
        return self.steps * self._step_seconds

    def _passes(self, token_id: int) -> bool:
        if token_id < self._controls:
            return False
        if token_id == self.ids[HERE].start:
            self._may_shift, self._mask = True, None
        return True

    def _allowed(self) -> np.ndarray:
        ids, mask = self.ids, np.zeros(self.table.size, bool)
        for kind in self._kinds:
            mask[ids[kind]] = self._open(kind)
        if self.velocity is not None:
            mask[ids["velocity"].start + self.velocity - 1] = False
        if "program" in ids and self.program is not None:
            mask[ids["program"].start + self.program] = False
        if self._open("note_off"):
            mask[ids["note_off"]] = False
            for pitch in self.sounding.pitches_of_program():
                mask[ids["note_off"].start + pitch - self._low] = True
        return mask

    def _open(self, kind: str) -> bool:
        """Whether ids of ``kind``, one of ``_kinds``, may come. Of these ids, velocities and
        programs that change nothing and releases of silent notes are excluded elsewhere."""
        last = self.last
        if last == "eos":
            return kind == "eos"
        if kind == "note_on":
            return self.velocity is not None and self.program is not None
        if kind == "drum":
            return self.velocity is not None and last != "program" and not self._after_program
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
        return kind == "program" or (last in ("note_off", "drum") and not self.sounding.notes)

    def _take(self, kind: str, value: int) -> list[NoteChange]:
        self._after_program = self.last == "program" and kind == "velocity"
        self.last = kind
        self._may_shift = kind != "time_shift" or value == self._longest
        program = self.sounding.program
        if kind == "time_shift":
            self.steps += value
            self.sounding.struck = False
        elif kind == "velocity":
            self.velocity, self.sounding.velocity = value, int(self._loudness[value])
        elif kind == "program":
            self.program = self.sounding.program = value
        elif kind == "note_off":
            self.sounding.release(value)
            return [NoteChange(self.seconds, False, value, 0, program)]
        elif kind in ("note_on", "drum"):
            self.notes += 1
            loudness = self.sounding.velocity
            if kind == "drum":
                return [NoteChange(self.seconds, True, value, loudness, DRUMS, self.seconds)]
            self.sounding.strike(value, self.seconds)
            return [NoteChange(self.seconds, True, value, loudness, program)]
        return []
