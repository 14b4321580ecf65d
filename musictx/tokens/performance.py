"""The vocabulary of the Music Transformer: note-on, note-off, time-shift and velocity events.

Oore et al. 2018 ("This Time with Feeling", section 3) and Huang et al. 2018 (section 4.2), by the
rules of note-seq. First the sustain pedal is folded into the ends of notes. Onsets and ends are
rounded to the nearest step as absolute times (half a step upwards), so that errors do not add up;
a note lasts at least one step. Within one step releases come first, then strikes in the order of
the score. A velocity or program token is written only where it changes.

The papers leave these choices open; :meth:`~.StreamTokenizer.round_trip` shows their effect:

- Silence before the first note is dropped: a piece begins with its first note.
- Of overlapping notes of the same program and pitch, the one that began first ends first.
- ``tracks="piano"`` merges all pitched instruments and leaves drums out. A pitch struck by two
  instruments at once is two notes.
- ``tracks="programs"`` writes ``program`` tokens (General MIDI 0 to 127), and sorts the notes of a
  step by program, so that few such tokens are needed. A drum stroke is one ``drum`` token, without
  release and program, so that every window shows which notes are drums. Decoded it lasts 0.1 s.
  ``low`` and ``high`` do not limit drums.
- Velocities are written in bins (:class:`~musictx.tokens.stream.Velocities`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from musictx.config import TokenizerConfig
from musictx.notes import DRUMS, Score, sort_order, sorted_by
from musictx.pairing import match_note_offs
from musictx.tokens import events as ev
from musictx.tokens.grammar import PerformanceState
from musictx.tokens.spelling import StreamTokenizer
from musictx.tokens.stream import END, OPEN, STREAM_NOTE, UNKNOWN, NoteStream
from musictx.tokens.tokenizer import Clock, NoteEvents
from musictx.tokens.vocab import SPECIALS

DRUM_SECONDS = 0.1
DEFAULT_VELOCITY = 64
DEFAULT_PROGRAM = 0


class PerformanceTokenizer(StreamTokenizer):
    """Score <-> event ids; options as in :class:`musictx.config.TokenizerConfig`.

    step_ms       length of a step, in milliseconds
    max_shift_ms  longest single time shift

    Raises :class:`musictx.errors.ConfigError` for an invalid option.
    """

    name = "performance"
    options = ("tracks", "low", "high", "step_ms", "max_shift_ms", "velocity_bins", "sustain")

    def __init__(
        self,
        *,
        tracks: str = "piano",
        low: int = 0,
        high: int = 127,
        step_ms: int = 10,
        max_shift_ms: int = 1000,
        velocity_bins: int = 32,
        sustain: bool = True,
        controls: bool = False,
    ) -> None:
        TokenizerConfig("performance", tracks, low, high, step_ms, max_shift_ms, velocity_bins)
        super().__init__(tracks, low, high, velocity_bins, sustain, controls)
        self.step_ms, self.max_shift_ms = step_ms, max_shift_ms
        fields = [
            ("note_on", low, high),
            ("note_off", low, high),
            ("time_shift", 1, max_shift_ms // step_ms),
            ("velocity", 1, self.velocities.bins),
        ]
        if tracks == "programs":
            fields += [("program", 0, 127), ("drum", 0, 127)]
        self.vocabulary = self._table(fields)
        self._drum_steps = max(1, round(DRUM_SECONDS * 1000 / step_ms))

    @property
    def step_seconds(self) -> float:
        """The length of a step."""
        return self.step_ms / 1000

    @cached_property
    def note_events(self) -> NoteEvents:
        table = self.vocabulary
        return NoteEvents(
            strike=table.values("note_on"),
            release=table.values("note_off"),
            program=table.values("program"),
            prepares_strike=(table.values("velocity") >= 0) | (table.values("program") >= 0),
            wait=self.seconds(np.maximum(table.values("time_shift"), 0)),
        )

    def clock(self, score: Score) -> Clock:
        notes, _ = self.writable(score)
        first = float(self._steps(notes["start"].min())) if len(notes) else 0.0
        return Clock(score.beats, self.seconds(first))

    def _steps(self, seconds: Any) -> Any:
        """Round times to whole steps, half a step upwards."""
        return np.floor(seconds * (1000.0 / self.step_ms) + 0.5)

    def seconds(self, steps: Any) -> Any:
        return steps * self.step_ms / 1000

    def stream(self, score: Score) -> tuple[NoteStream, Counter[str]]:
        notes, left_out = self.writable(self.folded(score))
        if not len(notes):
            return NoteStream(), left_out
        grid = self.as_stream_notes(notes)
        start = self._steps(notes["start"]).astype(np.int64)
        end = np.maximum(self._steps(notes["end"]).astype(np.int64), start + 1)
        grid["start"] = start - start.min()
        grid["length"] = np.where(notes["drum"], 0, end - start)
        grid = sorted_by(grid, grid["start"] * 256 + grid["part"])
        # First in, first out: the k-th strike of a program and pitch has the k-th end.
        key, end = grid["part"] * 128 + grid["pitch"], grid["start"] + grid["length"]
        end[sort_order(key)] = end[sort_order(key, end)]
        grid["length"] = end - grid["start"]
        return NoteStream(notes=grid, stop=int(end.max())), left_out

    def write(self, stream: NoteStream, after: NoteStream | None = None) -> np.ndarray:
        """(n,) uint16 ids of a stream, up to its ``stop``. If the stream comes ``after`` another
        one, the last program and velocity of that one are not written again."""
        past = None if after is None else ev.events_of(after)
        return ev.write(ev.events_of(stream), self.vocabulary, stream.stop, past)

    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        """Decode any ids of the vocabulary to a Score with a track for each program; drums are on
        the last track.

        Special ids are skipped, and releases of notes that do not sound. Notes without a release
        end with the piece, but last at least one step. Before the first velocity token notes have
        velocity 64, before the first program token program 0.
        """
        return self.score(self.read(ids, DEFAULT_PROGRAM))

    def read(self, ids: np.ndarray | Sequence[int], program: int = UNKNOWN) -> NoteStream:
        """The notes of any ids of the vocabulary. ``program`` is the program of the events before
        the first program token. A release of a note that does not sound is among the ``ends``."""
        events, stop = ev.read(self.vocabulary.as_ids(ids), self.vocabulary)
        events["program"][events["program"] == UNKNOWN] = program
        struck, pitched = events[ev.struck(events)], events[events["action"] != ev.DRUM]
        drum = struck["action"] == ev.DRUM
        notes = np.zeros(len(struck), STREAM_NOTE)
        notes["start"] = struck["step"]
        notes["part"] = np.where(drum, DRUMS, struck["program"])
        notes["pitch"], notes["velocity_bin"] = struck["pitch"], struck["velocity_bin"]
        key = pitched["program"].astype(np.int64) * 128 + pitched["pitch"]
        begins, release = match_note_offs(key, pitched["action"] == ev.ON)
        lengths = pitched["step"][release] - pitched["step"][begins]
        notes["length"][~drum] = np.where(release >= 0, lengths, OPEN)
        is_older = pitched["action"] == ev.OFF
        is_older[release[release >= 0]] = False
        older = pitched[is_older]
        ends = np.empty(len(older), END)
        ends["stop"], ends["part"], ends["pitch"] = older["step"], older["program"], older["pitch"]
        return NoteStream(notes=notes, ends=ends, stop=stop)

    def score(self, stream: NoteStream) -> Score:
        notes = stream.notes.copy()
        lengths = np.maximum(stream.note_ends - notes["start"], 1)
        notes["length"] = np.where(notes["part"] == DRUMS, self._drum_steps, lengths)
        unknown = notes["velocity_bin"] == UNKNOWN
        notes["velocity_bin"][unknown] = self.velocities.bin(DEFAULT_VELOCITY)
        return Score(notes=self.score_notes(notes))

    def state(self) -> PerformanceState:
        return PerformanceState(self.vocabulary, self.step_seconds)

    def augment(
        self, ids: np.ndarray, *, semitones: int = 0, stretch: float = 1.0
    ) -> np.ndarray | None:
        """Transpose and stretch a window of a piece; ``None`` if a pitch leaves the range.

        Steps from the start of the window are multiplied by ``stretch`` and rounded, half a step
        upwards, so that a whole piece has the ids of its stretched score; a note lasts at least one
        step. Drums are not transposed. Special ids at either end stay. A stretch drops a velocity
        or program token at the end of a window that no note follows.
        """
        if semitones == 0 and stretch == 1.0:
            return ids
        array = self.vocabulary.as_ids(ids)
        if semitones:
            moved = self.transposed(array, semitones)
            if moved is None:
                return None
            array = moved
        content = np.flatnonzero(array >= len(SPECIALS))
        if stretch != 1.0 and len(content):
            first, stop = content[0], content[-1] + 1
            body = self.write(self._stretched(self.read(array[first:stop]), stretch))
            array = np.concatenate([array[:first], body, array[stop:]])
        return array.astype(np.uint16)

    def _stretched(self, window: NoteStream, stretch: float) -> NoteStream:
        notes, ends = window.notes.copy(), window.ends.copy()
        before = notes["start"], window.note_ends, ends["stop"]
        start, stop, older = (np.floor(steps * stretch + 0.5).astype(np.int64) for steps in before)
        stop = np.maximum(stop, start + 1)
        no_part, is_open = notes["part"] == UNKNOWN, notes["length"] == OPEN
        strikes = no_part | (notes["velocity_bin"] == UNKNOWN)
        unknown = strikes, no_part & ~is_open, ends["part"] == UNKNOWN
        if self.tracks == "programs" and any(map(np.any, unknown)):
            # For example a drum stroke of unknown velocity at step 10 and "velocity 5, note 60" at
            # step 11: if both moved to one step, the note would be written first, and the stroke
            # would get its velocity. So later events stay at least one step later.
            after = start, stop, older
            last = max(steps[which].max(initial=0) for steps, which in zip(before, unknown))
            least = 1 + max(steps[which].max(initial=0) for steps, which in zip(after, unknown))
            start, stop, older = (
                np.where(old > last, np.maximum(new, least), new) for old, new in zip(before, after)
            )
            stop = np.maximum(stop, start + 1)
        has_length = ~is_open & (notes["part"] != DRUMS)
        notes["length"][has_length] = (stop - start)[has_length]
        notes["start"], ends["stop"] = start, older
        return NoteStream(notes=notes, ends=ends, stop=int(np.floor(window.stop * stretch + 0.5)))
