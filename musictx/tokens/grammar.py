"""Grammars: state machines for constrained sampling, which compute the ids that may come next.

:class:`GrammarState` is the base class, :class:`SoundingNotes` holds the notes that sound, and
:class:`PerformanceState` is the grammar of events. To *strike* a note is to begin it by a note-on,
to *release* it is to end it by a note-off.
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

#: The number of recent strikes to remember: over four seconds of the densest music.
MAX_RECENT = 128
#: The kinds of id that the grammar of events may allow.
GRAMMAR_KINDS = {"note_on", "note_off", "drum", "velocity", "program", "time_shift", "eos"}


class NoteChange(NamedTuple):
    """The beginning (``on``) or end of a note. Times are in id time (:class:`.tokenizer.Clock`).

    velocity  1 to 127; 0 for an end
    part      the program, 128 for drums; the voice if voices are interleaved
    end       of a note that begins: the time at which it ends, infinite if later ids may prolong
              it; ``None`` if a later id ends it
    """

    seconds: float
    on: bool
    pitch: int
    velocity: int
    part: int
    end: float | None = None


class Strike(NamedTuple):
    """A note-on at ``seconds``; ``velocity`` is 1 to 127."""

    seconds: float
    pitch: int
    velocity: int


class SoundingNotes:
    """The notes that sound now, which are released first in, first out.

    notes      {(program, pitch): onsets of its sounding notes, in seconds, the oldest first}
    program    the program of the next strike or release
    velocity   the velocity of the next strike; 0 before the first velocity token
    has_onset  whether a note was struck since the last time shift; drum strokes do not count
    """

    def __init__(self) -> None:
        self.notes: dict[tuple[int, int], list[float]] = {}
        self.program = self.velocity = 0
        self.has_onset = False
        self._recent: deque[Strike] = deque(maxlen=MAX_RECENT)

    def __len__(self) -> int:
        """The number of notes that sound."""
        return sum(map(len, self.notes.values()))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(program, pitch) of every note that sounds."""
        return (key for key, onsets in self.notes.items() for _ in onsets)

    def pitches_of_program(self) -> list[int]:
        """The sounding pitches of the current program."""
        return [pitch for program, pitch in self.notes if program == self.program]

    def recent_onsets(self) -> list[Strike]:
        """The last :data:`MAX_RECENT` strikes, the latest first."""
        return list(self._recent)

    def strike(self, pitch: int, seconds: float) -> None:
        """Begin a note with the current program and velocity."""
        self.notes.setdefault((self.program, pitch), []).append(seconds)
        self._recent.appendleft(Strike(seconds, pitch, self.velocity))
        self.has_onset = True

    def release(self, pitch: int) -> None:
        """End the oldest sounding note of ``pitch`` in the current program."""
        onsets = self.notes[self.program, pitch]
        onsets.pop(0)
        if not onsets:
            del self.notes[self.program, pitch]

    def copy(self) -> SoundingNotes:
        other = SoundingNotes()
        other.__dict__.update(self.__dict__)
        other._recent = self._recent.copy()
        other.notes = {key: onsets.copy() for key, onsets in self.notes.items()}
        return other


class GrammarState:
    """The state of a piece after the ids so far: which ids may come next, which notes sound, and
    the time.

    The object is mutable and cheap to copy; sampling has one for each row. Its initial state is
    that after ``bos``. Subclasses implement ``seconds``, ``_allowed`` and ``_take``.

    table  the vocabulary;  ids  {kind: slice of its ids}
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.table, self.ids = vocabulary, vocabulary.slices
        #: Notes that end by a note-off; always empty if tokens state the length of notes.
        self.sounding = SoundingNotes()
        #: The number of notes so far.
        self.notes = 0
        self._mask: np.ndarray | None = None  # the cached result of `allowed`

    @property
    def seconds(self) -> float:
        """Time in seconds from the beginning of the piece."""
        raise NotImplementedError

    def end_of_bars(self, bars: int) -> float | None:
        """The time in seconds at which the first ``bars`` bars of the piece end, if all later bars
        are as long as the current one; ``None`` if the vocabulary has no bar lines."""
        return None

    def _allowed(self) -> np.ndarray:
        """Compute :meth:`allowed`."""
        raise NotImplementedError

    def _take(self, kind: str, value: int) -> Sequence[NoteChange] | None:
        """Append an allowed token, and return the same as :meth:`advance`."""
        raise NotImplementedError

    def _passes(self, token_id: int) -> bool:
        """Whether :meth:`read` skips this id, such as a control token. It is called once for each
        id of a prefix, so it may update the state."""
        return False

    def _cut(self) -> None:
        """Prepare for a prefix that begins with ``cut``, in the middle of a piece."""

    def allowed(self) -> np.ndarray:
        """(vocab,) bool, read-only: the ids that may come next, at least one. Never ``pad``,
        ``bos`` or ``cut``; ``eos`` if the piece may end."""
        if self._mask is None:
            self._mask = self._allowed()
            self._mask.setflags(write=False)
        return self._mask

    def advance(self, token_id: int) -> Sequence[NoteChange] | None:
        """Append one id and return the notes that it begins or ends; ``None`` if the tokens do not
        say so before the piece is complete. Raises ``ValueError`` if the id is not allowed."""
        table = self.table
        if not 0 <= token_id < table.size or not self.allowed()[token_id]:
            raise ValueError(f"{table.describe(token_id)} is not allowed here")
        self._mask = None
        return self._take(*table.tokens[token_id])

    def read(self, prefix: np.ndarray | Sequence[int]) -> None:
        """Append the ids of ``prefix``. ``bos`` or ``cut`` at its beginning, control tokens and
        marks are skipped, and so are given notes in bars before the stream. Raises ``ValueError``
        with the index of the first id that is not allowed."""
        for index, token_id in enumerate(np.asarray(prefix).reshape(-1).tolist()):
            if index == 0 and token_id == CUT:
                self._cut()
            elif not (index == 0 and token_id == BOS) and not self._passes(token_id):
                try:
                    self.advance(token_id)
                except ValueError as error:
                    raise ValueError(f"token {index}: {error}") from None

    def copy(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.sounding = self.sounding.copy()
        return other


class PerformanceState(GrammarState):
    """State of a piece in the vocabulary of ``PerformanceTokenizer``; see :class:`GrammarState`.

    vocabulary    with note_on, note_off, time_shift, velocity; optionally program and drum
    step_seconds  length of one step of time_shift

    steps     the time in steps
    last      the kind of the latest id; "" before the first
    program   the current program; ``None`` before the first program token, 0 without such tokens
    velocity  the current velocity bin; ``None`` before the first velocity token

    The rules follow the order of ids in an encoding, ``[shifts] [program] [velocity] event``:

    - a note-off only for a sounding note of the current program, and before note-ons of the same
      step (so no note has length zero, and a repeated pitch is released before it is struck again);
    - a velocity or program token only if it differs from the current one;
    - after a velocity token only a note-on or drum stroke; after a program token only a velocity
      token, or a note-on or note-off of that program;
    - no shift before the first event, and none after a shift that is not the longest;
    - ``eos`` only after a note-off or a drum stroke, if nothing sounds;
    - no control token (only a prefix may have them); after ``here`` a shift is always allowed.

    Every encoding is accepted, and every accepted sequence can be decoded. Some accepted sequences
    are never encodings, such as those with the notes of a chord in another order.
    """

    def __init__(self, vocabulary: Vocabulary, step_seconds: float) -> None:
        super().__init__(vocabulary)
        self._step_seconds = step_seconds
        self._kinds = frozenset(vocabulary.kinds) & GRAMMAR_KINDS
        # All ids from this one on are controls or marks.
        self._first_control = self.ids.get(CONTROL_KINDS[0], slice(vocabulary.size, None)).start
        self._low = int(vocabulary.value_of[self.ids["note_on"].start])
        self._longest_shift = int(vocabulary.value_of[self.ids["time_shift"].stop - 1])
        self._bin_velocities = Velocities(len(range(*vocabulary.range("velocity")))).of_bin
        self.steps = 0
        self.last = ""
        self._after_program_velocity = False  # whether the last ids were a program and a velocity
        self._may_shift = False
        self.velocity: int | None = None
        self.program = None if "program" in self._kinds else 0

    @property
    def seconds(self) -> float:
        return self.steps * self._step_seconds

    def _passes(self, token_id: int) -> bool:
        if token_id < self._first_control:
            return False
        if token_id == self.ids[HERE].start:
            self._may_shift, self._mask = True, None
        return True

    def _allowed(self) -> np.ndarray:
        ids, mask = self.ids, np.zeros(self.table.size, bool)
        for kind in self._kinds:
            mask[ids[kind]] = self._allows(kind)
        if self.velocity is not None:
            mask[ids["velocity"].start + self.velocity - 1] = False
        if "program" in ids and self.program is not None:
            mask[ids["program"].start + self.program] = False
        if self._allows("note_off"):
            mask[ids["note_off"]] = False
            for pitch in self.sounding.pitches_of_program():
                mask[ids["note_off"].start + pitch - self._low] = True
        return mask

    def _allows(self, kind: str) -> bool:
        """Whether some ids of ``kind``, one of ``_kinds``, may come next. :meth:`_allowed` excludes
        the current velocity and program, and note-offs of notes that do not sound."""
        last = self.last
        if last == "eos":
            return kind == "eos"
        if kind == "note_on":
            return self.velocity is not None and self.program is not None
        if kind == "drum":
            after_program = last == "program" or self._after_program_velocity
            return self.velocity is not None and not after_program
        if last == "velocity":
            return False
        if kind == "velocity":
            return True
        if kind == "note_off":
            return not self.sounding.has_onset
        if last == "program":
            return False
        if kind == "time_shift":
            return self._may_shift
        return kind == "program" or (last in ("note_off", "drum") and not self.sounding.notes)

    def _take(self, kind: str, value: int) -> list[NoteChange]:
        self._after_program_velocity = self.last == "program" and kind == "velocity"
        self.last = kind
        self._may_shift = kind != "time_shift" or value == self._longest_shift
        program = self.sounding.program
        if kind == "time_shift":
            self.steps += value
            self.sounding.has_onset = False
        elif kind == "velocity":
            self.velocity, self.sounding.velocity = value, int(self._bin_velocities[value])
        elif kind == "program":
            self.program = self.sounding.program = value
        elif kind == "note_off":
            self.sounding.release(value)
            return [NoteChange(self.seconds, on=False, pitch=value, velocity=0, part=program)]
        elif kind in ("note_on", "drum"):
            self.notes += 1
            onset = NoteChange(self.seconds, True, value, self.sounding.velocity, program)
            if kind == "drum":
                return [onset._replace(part=DRUMS, end=self.seconds)]
            self.sounding.strike(value, self.seconds)
            return [onset]
        return []
