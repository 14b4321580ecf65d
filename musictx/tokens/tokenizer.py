"""The base class of tokenizers, and the clock of their ids."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from musictx.beats import NEAR, Beats
from musictx.grid import in_time
from musictx.notes import DRUMS, Score
from musictx.tokens.grammar import GrammarState
from musictx.tokens.vocab import SPECIALS, Vocabulary


@dataclass(frozen=True)
class NoteEvents:
    """The meaning of each id of a vocabulary with note-ons and note-offs, as arrays (size,).

    note_on         int64: the pitch of a note-on, else -1
    note_off        int64: the pitch of a note-off, else -1
    program         int64: the program of a program token, else -1
    describes_note  bool: whether it is a velocity or program token, which describes later notes
    shift_seconds   float64: the seconds of a time shift, else 0
    """

    note_on: np.ndarray
    note_off: np.ndarray
    program: np.ndarray
    describes_note: np.ndarray
    shift_seconds: np.ndarray

    @cached_property
    def step_seconds(self) -> float:
        """The shortest time shift, in seconds."""
        return float(self.shift_seconds[self.shift_seconds > 0].min())

    @cached_property
    def begins_note(self) -> np.ndarray:
        """(size,) bool: whether it is a note-on, a drum stroke, or an id of ``describes_note``."""
        begins_note: np.ndarray = (self.note_off < 0) & (self.shift_seconds == 0)
        begins_note[: len(SPECIALS)] = False
        return begins_note


@dataclass(frozen=True)
class Clock:
    """Converts between seconds of a score and id time: seconds from the first id of its encoding.
    Id time has a constant tempo, while a score may begin with a rest and have a tempo map.

    beats   the beats of the score
    offset  the second of the score at which its ids begin
    tempo   for ids that count beats: their constant tempo in quarter notes per minute; ``None`` for
            ids that count seconds
    """

    beats: Beats
    offset: float = 0.0
    tempo: float | None = None

    @cached_property
    def _first_quarter(self) -> float:
        return self.beats.quarters(self.offset)

    def seconds(self, time: Any) -> Any:
        """Convert id time to seconds of the score."""
        if self.tempo is None:
            return time + self.offset
        return self.beats.seconds(self._first_quarter + np.asarray(time) * self.tempo / 60.0)

    def notes_in_seconds(self, notes: np.ndarray) -> np.ndarray:
        """Convert ``notes`` (:data:`musictx.notes.NOTE`) from id time to seconds of the score."""
        notes = notes.copy()
        for name in ("start", "end"):
            notes[name] = self.seconds(notes[name])
        return notes

    def time(self, seconds: float) -> float:
        """Convert seconds of the score to id time, the inverse of :meth:`seconds`."""
        if self.tempo is None:
            return seconds - self.offset
        return (self.beats.quarters(seconds) - self._first_quarter) * 60.0 / self.tempo

    def seconds_per_id_second(self, begin: float, end: float) -> float:
        """Mean seconds of the score per second of id time, from second ``begin`` to ``end``."""
        if self.tempo is None or end <= begin:
            return 1.0
        first, last = (self.beats.quarters(seconds) for seconds in (begin, end))
        return (end - begin) / max((last - first) * 60.0 / self.tempo, 1e-6)

    def after_bars(self, seconds: float, bars: int) -> float:
        """The second of the score at which ``bars`` bars end, counted from the first bar line at or
        after ``seconds``. A bar line up to :data:`~musictx.beats.NEAR` earlier counts, too."""
        line = self.beats.bar_line(self.beats.quarters(max(seconds - NEAR, 0.0)), bars)
        return self.beats.seconds(line)


class Tokenizer(ABC):
    """Converts scores to ids and back.

    ``encode`` returns ids without pad, bos, eos and cut, which ``data/windows.py`` and
    ``sampling/engine.py`` add. A subclass has a ``name`` and a ``vocabulary`` and implements the
    abstract methods; the other methods have defaults. A :class:`musictx.sampling.idiom.Idiom`
    describes how to compose in its tokens.
    """

    #: The name for ``tokens.build`` and the option ``tokenizer.name``.
    name: str
    #: The kind and value of each id.
    vocabulary: Vocabulary
    #: Increase it if the same vocabulary now encodes a score differently.
    encoding_version: int = 1
    #: The number of ids that a network reads in one step, such as the fields of a note.
    group: int = 1
    #: Whether time is counted in beats; otherwise in seconds, and ids know no bars.
    beats: bool = False
    #: The number of interleaved voices, with a token for each at every step; 0: not interleaved.
    voices: int = 0
    #: ``module:Class`` of the idiom; "": one from :mod:`musictx.sampling.idiom`.
    idiom: str = ""

    @abstractmethod
    def encode_with_report(self, score: Score) -> tuple[np.ndarray, Mapping[str, int]]:
        """Encode a whole piece: (n,) uint16 ids, none if no note can be encoded; and
        {reason: number of notes left out}."""

    @abstractmethod
    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        """Decode any ids of the vocabulary. Special ids are skipped; notes without an end last to
        the end of the piece. Notes are in the order of their ids, so the first
        ``grammar(prefix).notes`` notes of ``prefix + more`` are those of ``prefix``."""

    @abstractmethod
    def state(self) -> GrammarState:
        """The state of the grammar at the beginning of a piece."""

    @abstractmethod
    def augment(
        self, ids: np.ndarray, *, semitones: int = 0, stretch: float = 1.0
    ) -> np.ndarray | None:
        """Transpose a window of a piece, and stretch it in time (2.0: twice as long). Returns
        ``None`` if a pitch leaves the range. The result may have more or fewer ids; the defaults
        return ``ids`` unchanged."""

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """The options as JSON values; ``tokens.build(**config)`` builds an equal tokenizer."""

    @property
    def without_controls(self) -> Tokenizer:
        """The same tokenizer without control tokens and marks, which encodes corpora. Its ids have
        the same meaning in this one."""
        return self

    @property
    def note_events(self) -> NoteEvents | None:
        """The note-ons and note-offs among the ids; ``None`` if tokens state lengths of notes."""
        return None

    def clock(self, score: Score) -> Clock:
        """The clock of the ids of ``score``."""
        return Clock(score.beats)

    def merged_tracks(self, score: Score) -> int:
        """How many fewer tracks the encoded ``score`` has, since its ids merge some tracks."""
        return 0

    def off_grid_count(self, score: Score) -> int:
        """The number of notes of ``score`` that do not begin on the grid of the ids."""
        return 0

    def window_start(self, ids: np.ndarray, start: int) -> int:
        """The index at which a window of the piece ``ids`` should begin: ``start``, or a better one
        before it."""
        return start

    @cached_property
    def pitch_of(self) -> np.ndarray:
        """(size,) int64: the pitch of each id that begins or continues a note; -1 for other ids and
        for drums."""
        vocabulary = self.vocabulary
        return vocabulary.values("pitch" if "pitch" in vocabulary.kinds else "note_on")

    def grammar(self, prefix: np.ndarray | Sequence[int] = ()) -> Any:
        """The state of the grammar after ``prefix`` (:meth:`GrammarState.read`)."""
        state = self.state()
        state.read(prefix)
        return state

    def encode(self, score: Score) -> np.ndarray:
        """The ids of :meth:`encode_with_report`."""
        return self.encode_with_report(score)[0]

    @property
    def align(self) -> int:
        """Windows of a piece begin at multiples of this number of ids."""
        return max(self.group, self.voices)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits: a hash of encoding version, vocabulary and options."""
        content = [
            self.encoding_version,
            self.vocabulary.fingerprint,
            sorted(self.to_config().items()),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def programs_of_ids(tokenizer: Tokenizer) -> np.ndarray:
    """(size,) int64: the program that each id stands for, 128 for drums, -1 for other ids."""
    vocabulary, events = tokenizer.vocabulary, tokenizer.note_events
    programs = vocabulary.values("program") if events is None else events.program.copy()
    for kind in {"drum", "drums"} & set(vocabulary.kinds):
        programs[vocabulary.slices[kind]] = DRUMS
    return programs


def with_id_beats(tokenizer: Tokenizer, score: Score) -> Score:
    """``score`` with the beats that its ids count; unchanged if its ids count seconds."""
    return in_time(score) if tokenizer.beats else score
