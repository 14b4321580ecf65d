"""The vocabulary of the Music Transformer: note-on, note-off, time-shift and velocity events.

Sources: Oore et al. 2018 ("This Time with Feeling", section 3), Huang et al. 2018 (section 4.2);
the rules are those of note-seq. First the sustain pedal is folded into the ends of notes. Starts
and ends of notes are rounded to the nearest step as absolute times (half a step upwards), so that
errors do not add up; a note lasts at least one step. Within one step note-offs come first, then
note-ons in the order of the score. A velocity or program token stands only where the value changes.

The papers leave these choices open; :meth:`~.StreamTokenizer.round_trip` shows their effect:

- Silence before the first note is dropped: a piece begins with its first note.
- Of overlapping notes of the same program and pitch, the one that began first ends first.
- ``tracks="piano"`` merges all pitched instruments and leaves drums out. A pitch played by two
  instruments at once is two notes.
- ``tracks="programs"`` has ``program`` tokens (General MIDI 0 to 127), and sorts the notes of a
  step by program, so that few such tokens are needed. A drum stroke is one ``drum`` token, without
  note-off and program, so that every window shows which notes are drums. It is decoded as a note of
  0.1 s. ``low`` and ``high`` do not limit drums.
- Velocities are encoded in bins (:class:`~musictx.tokens.stream.Velocities`).
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
    """Converts scores to event ids and back.

    Options are those of :class:`musictx.config.TokenizerConfig`; ``step_ms`` is the length of a
    step, ``max_shift_ms`` the longest single time shift, both in milliseconds. Raises
    :class:`musictx.errors.ConfigError` for an invalid option.
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
        self.vocabulary = self._make_vocabulary(fields)
        self._drum_steps = max(1, round(DRUM_SECONDS * 1000 / step_ms))

    @property
    def step_seconds(self) -> float:
        """The length of a step in seconds."""
        return self.step_ms / 1000

    @cached_property
    def note_events(self) -> NoteEvents:
        values = self.vocabulary.values
        return NoteEvents(
            note_on=values("note_on"),
            note_off=values("note_off"),
            program=values("program"),
            describes_note=(values("velocity") >= 0) | (values("program") >= 0),
            shift_seconds=self.seconds(np.maximum(values("time_shift"), 0)),
        )

    def clock(self, score: Score) -> Clock:
        notes, _ = self.encodable_notes(score)
        first = float(self._steps(notes["start"].min())) if len(notes) else 0.0
        return Clock(score.beats, self.seconds(first))

    def _steps(self, seconds: Any) -> Any:
        """Round times to whole steps, half a step upwards."""
        return np.floor(seconds * (1000.0 / self.step_ms) + 0.5)

    def seconds(self, steps: Any) -> Any:
        return steps * self.step_ms / 1000

    def stream(self, score: Score) -> tuple[NoteStream, Counter[str]]:
        notes, left_out = self.encodable_notes(self.fold_pedal(score))
        if not len(notes):
            return NoteStream(), left_out
        stream_notes = self.as_stream_notes(notes)
        start = self._steps(notes["start"]).astype(np.int64)
        end = np.maximum(self._steps(notes["end"]).astype(np.int64), start + 1)
        stream_notes["start"] = start - start.min()
        stream_notes["length"] = np.where(notes["drum"], 0, end - start)
        stream_notes = sorted_by(stream_notes, stream_notes["start"] * 256 + stream_notes["part"])
        # First in, first out: the k-th onset of a program and pitch has the k-th end.
        key = stream_notes["part"] * 128 + stream_notes["pitch"]
        end = stream_notes["start"] + stream_notes["length"]
        end[sort_order(key)] = end[sort_order(key, end)]
        stream_notes["length"] = end - stream_notes["start"]
        return NoteStream(notes=stream_notes, stop=int(end.max())), left_out

    def write(self, stream: NoteStream, previous: NoteStream | None = None) -> np.ndarray:
        """The ids of a stream up to its ``stop``, (n,) uint16. The last program and velocity of the
        ``previous`` stream, if any, are not written again."""
        past = None if previous is None else ev.stream_events(previous)
        return ev.to_ids(ev.stream_events(stream), self.vocabulary, stream.stop, past)

    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        """Decode any ids of the vocabulary to a Score with a track for each program; drums are on
        the last track.

        Special ids and note-offs without a sounding note are skipped. Notes without a note-off last
        to the end of the piece, at least one step. Before the first velocity token notes have
        velocity 64, before the first program token program 0.
        """
        return self.score(self.read(ids, DEFAULT_PROGRAM))

    def read(self, ids: np.ndarray | Sequence[int], program: int = UNKNOWN) -> NoteStream:
        """The notes of any ids of the vocabulary. ``program`` is the program of the events before
        the first program token. Note-offs without a sounding note become ``ends``."""
        events, stop = ev.from_ids(self.vocabulary.as_ids(ids), self.vocabulary)
        events["program"][events["program"] == UNKNOWN] = program
        onsets, pitched = events[ev.is_onset(events)], events[events["action"] != ev.DRUM]
        drum = onsets["action"] == ev.DRUM
        notes = np.zeros(len(onsets), STREAM_NOTE)
        notes["start"] = onsets["step"]
        notes["part"] = np.where(drum, DRUMS, onsets["program"])
        notes["pitch"], notes["velocity_bin"] = onsets["pitch"], onsets["velocity_bin"]
        key = pitched["program"].astype(np.int64) * 128 + pitched["pitch"]
        note_ons, note_offs = match_note_offs(key, pitched["action"] == ev.ON)
        lengths = pitched["step"][note_offs] - pitched["step"][note_ons]
        notes["length"][~drum] = np.where(note_offs >= 0, lengths, OPEN)
        is_older = pitched["action"] == ev.OFF
        is_older[note_offs[note_offs >= 0]] = False
        ends = pitched[is_older][["step", "program", "pitch"]].astype(END)
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

        Steps from the beginning of the window are multiplied by ``stretch`` and rounded, half a
        step upwards, so that a whole piece gets the ids of its stretched score; a note lasts at
        least one step. Drums are not transposed. Special ids at both ends stay. Stretching drops
        a velocity or program token that no event follows.
        """
        if semitones == 0 and stretch == 1.0:
            return ids
        array = self.transpose(self.vocabulary.as_ids(ids), semitones)
        if array is None:
            return None
        content = np.flatnonzero(array >= len(SPECIALS))
        if stretch != 1.0 and len(content):
            first, stop = content[0], content[-1] + 1
            body = self.write(self._stretched(self.read(array[first:stop]), stretch))
            array = np.concatenate([array[:first], body, array[stop:]])
        return array.astype(np.uint16)

    def _stretched(self, window: NoteStream, stretch: float) -> NoteStream:
        notes, ends = window.notes.copy(), window.ends.copy()
        old_steps = notes["start"], window.note_ends, ends["stop"]
        start, stop, end = (np.floor(old * stretch + 0.5).astype(np.int64) for old in old_steps)
        stop = np.maximum(stop, start + 1)  # ``stop`` of these notes, ``end`` of earlier ones
        no_part, is_open = notes["part"] == UNKNOWN, notes["length"] == OPEN
        no_part_or_velocity = no_part | (notes["velocity_bin"] == UNKNOWN)
        unknown = no_part_or_velocity, no_part & ~is_open, ends["part"] == UNKNOWN
        if self.tracks == "programs" and any(map(np.any, unknown)):
            # For example a drum stroke of unknown velocity at step 10 and "velocity 5, note 60" at
            # step 11: if both moved to one step, the note would be written first, and the stroke
            # would get its velocity. So later events stay at least one step later.
            new_steps = start, stop, end
            last = max(old[mask].max(initial=0) for old, mask in zip(old_steps, unknown))
            lowest = 1 + max(new[mask].max(initial=0) for new, mask in zip(new_steps, unknown))
            start, stop, end = (
                np.where(old > last, np.maximum(new, lowest), new)
                for old, new in zip(old_steps, new_steps)
            )
            stop = np.maximum(stop, start + 1)
        has_length = ~is_open & (notes["part"] != DRUMS)
        notes["length"][has_length] = (stop - start)[has_length]
        notes["start"], ends["stop"] = start, end
        return NoteStream(notes=notes, ends=ends, stop=int(np.floor(window.stop * stretch + 0.5)))
