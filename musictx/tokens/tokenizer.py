"""The class that tokenizers derive from, and the clock of their ids."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from musictx.beats import NEAR, Beats
from musictx.grid import in_time
from musictx.notes import DRUMS, Score
from musictx.tokens.grammar import GrammarState
from musictx.tokens.vocab import SPECIALS, Vocabulary

#: Former names of members of tokenizers -> the present ones. The former names work until the next
#: minor version, in classes of users too.
FORMER = {
    "rules": "encoding_version",
    "events": "without_controls",
    "merged": "merged_tracks",
    "moved": "off_grid_count",
    "opening": "window_start",
}


@dataclass(frozen=True)
class NoteEvents:
    """What each id does to notes, where strikes and releases are tokens. Arrays (size,) of int64:

    strike   the pitch that an id strikes, -1 if none; released by another id later
    release  the pitch that an id releases, -1 if none
    program  the program that an id makes the current one, -1 if none
    prepares_strike  (bool) ids that only describe the strike that follows, such as a velocity
    wait     (float) the seconds by which an id lets time pass, 0 for other ids
    """

    strike: np.ndarray
    release: np.ndarray
    program: np.ndarray
    prepares_strike: np.ndarray
    wait: np.ndarray

    @cached_property
    def step_seconds(self) -> float:
        """The shortest wait."""
        return float(self.wait[self.wait > 0].min())

    @cached_property
    def strikes(self) -> np.ndarray:
        """(size,) bool: ids that strike a note or a drum, or describe the strike that follows."""
        strikes: np.ndarray = (self.release < 0) & (self.wait == 0)
        strikes[: len(SPECIALS)] = False
        return strikes


@dataclass(frozen=True)
class Clock:
    """Converts between the time of ids and the seconds of their score. The time of ids starts with
    the first id; it counts seconds, or beats at a constant tempo. A score may have a rest before
    its first note, and a tempo map.

    beats   the beats of the score
    offset  the second of the score at which its ids begin
    tempo   for ids that count beats: quarter notes per minute of the time of ids; ``None`` for ids
            that count seconds
    """

    beats: Beats
    offset: float = 0.0
    tempo: float | None = None

    @cached_property
    def _first(self) -> float:
        return self.beats.quarters(self.offset)

    def seconds(self, time: Any) -> Any:
        """Convert a time of the ids to seconds of the score."""
        if self.tempo is None:
            return time + self.offset
        return self.beats.seconds(self._first + np.asarray(time) * self.tempo / 60.0)

    def notes_in_seconds(self, notes: np.ndarray) -> np.ndarray:
        """Convert ``notes`` (:data:`musictx.notes.NOTE`) from times of the ids to seconds of the
        score."""
        notes = notes.copy()
        for name in ("start", "end"):
            notes[name] = self.seconds(notes[name])
        return notes

    def time(self, seconds: float) -> float:
        """The inverse of :meth:`seconds`."""
        if self.tempo is None:
            return seconds - self.offset
        return (self.beats.quarters(seconds) - self._first) * 60.0 / self.tempo

    def seconds_per_id_second(self, begin: float, end: float) -> float:
        """Seconds of the score per second of the ids, on average from ``begin`` to ``end``."""
        if self.tempo is None:
            return 1.0
        first, last = (self.beats.quarters(at) for at in (begin, end))
        return (end - begin) / max((last - first) * 60.0 / self.tempo, 1e-6)

    def after_bars(self, seconds: float, bars: int) -> float:
        """The end, in seconds of the score, of ``bars`` whole bars from the first bar line at or
        after ``seconds``, or the one a moment before."""
        line = self.beats.bar_line(self.beats.quarters(max(seconds - NEAR, 0.0)), bars)
        return self.beats.seconds(line)


class Tokenizer(ABC):
    """Score <-> ids. Everything after it (shards, model, sampling) knows ids only.

    ``encode`` and ``decode`` work on bare events, without pad, bos, eos or cut: these are added in
    ``data/windows.py`` and ``sampling/engine.py``. A tokenizer has a ``name`` and a ``vocabulary``
    and implements the abstract methods; the others have defaults.
    How music is composed in its tokens is described by an :class:`musictx.sampling.idiom.Idiom`.
    """

    #: The name for ``tokens.build`` and ``tokenizer.name``.
    name: str
    #: The table of its ids, from which the features of a network read what each says.
    vocabulary: Vocabulary
    #: To be raised when a score is encoded differently by the same vocabulary.
    encoding_version: int = 1
    #: Ids that a network takes as one step, the fields of a note; windows begin with the first.
    group: int = 1
    #: Whether time is counted in beats; otherwise in seconds, and a bar means nothing.
    beats: bool = False
    #: How many voices take turns, a token each and step by step; 0: tokens are not voices in turn.
    voices: int = 0
    #: ``module:Class`` of the idiom; empty: one of the module :mod:`musictx.sampling.idiom`.
    idiom: str = ""

    @abstractmethod
    def encode_with_report(self, score: Score) -> tuple[np.ndarray, Mapping[str, int]]:
        """(n,) uint16 event ids of a whole piece; empty if nothing in it can be written. And what
        was left out: reason -> number of notes."""

    @abstractmethod
    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        """Any ids -> a playable Score; specials are skipped, notes left open end with the piece.
        Notes stand in the order in which they were struck, so of ``prefix + more`` the first
        ``grammar(prefix).notes`` are the notes of ``prefix``."""

    @abstractmethod
    def state(self) -> GrammarState:
        """The grammar's state at the beginning of a piece."""

    @abstractmethod
    def augment(
        self, ids: np.ndarray, *, semitones: int = 0, stretch: float = 1.0
    ) -> np.ndarray | None:
        """A window of a piece, transposed and stretched in time (2.0 = twice as long); ``None`` if
        a note would leave the range. Identity settings return the ids unchanged. The result may be
        longer or shorter."""

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """JSON-able description from which ``tokens.build(**config)`` makes an equal tokenizer."""

    @property
    def without_controls(self) -> Tokenizer:
        """The tokenizer without control tokens, with which corpora are prepared. Its ids are the
        first of this one's, with the same meaning."""
        return self

    @property
    def note_events(self) -> NoteEvents | None:
        """Which ids strike and release; ``None`` where notes are written with their length."""
        return None

    def clock(self, score: Score) -> Clock:
        """The clock of the ids of ``score``."""
        return Clock(score.beats)

    def merged_tracks(self, score: Score) -> int:
        """How many tracks of ``score`` the ids merge with another track."""
        return 0

    def off_grid_count(self, score: Score) -> int:
        """How many notes of ``score`` begin off the grid on which the ids can write them."""
        return 0

    def window_start(self, ids: np.ndarray, start: int) -> int:
        """The index at which to begin a window of the piece ``ids``: ``start``, or a better one
        before it."""
        return start

    @cached_property
    def pitch_of(self) -> np.ndarray:
        """(size,) int64: the pitch that each id strikes or sounds (drums have none), -1 if none."""
        table = self.vocabulary
        return table.values("pitch" if "pitch" in table.kinds else "note_on")

    def grammar(self, prefix: np.ndarray | Sequence[int] = ()) -> Any:
        """The state after ``prefix`` (:meth:`GrammarState.read`)."""
        state = self.state()
        state.read(prefix)
        return state

    def encode(self, score: Score) -> np.ndarray:
        """The ids of :meth:`encode_with_report`."""
        return self.encode_with_report(score)[0]

    @property
    def align(self) -> int:
        """Windows of a piece begin at multiples of so many events."""
        return max(self.group, self.voices)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of the vocabulary and every option that changes the encoding."""
        described = [
            self.encoding_version,
            self.vocabulary.fingerprint,
            sorted(self.to_config().items()),
        ]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for former in FORMER.keys() & vars(cls):
            setattr(cls, FORMER[former], vars(cls)[former])

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("size", "kinds", "kind_of"):  # former members, as those of FORMER
                return getattr(self.vocabulary, name)
            if name in FORMER:
                return getattr(self, FORMER[name])
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def programs_of_ids(tokenizer: Tokenizer) -> np.ndarray:
    """(size,) the program that each id names, 128 for ids of drums, -1 for others."""
    table, events = tokenizer.vocabulary, tokenizer.note_events
    programs = table.values("program") if events is None else events.program.copy()
    for kind in {"drum", "drums"} & set(table.kinds):
        programs[table.slices[kind]] = DRUMS
    return programs


def with_written_beats(tokenizer: Tokenizer, score: Score) -> Score:
    """``score`` with the beats that its ids count, where they count beats."""
    return in_time(score) if tokenizer.beats else score
