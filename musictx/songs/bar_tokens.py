"""Bar tokens: a note is five ids, for music on a grid and networks that read a note in one step.

A piece is a sequence of groups of five ids. The first two determine the kind of the group::

    place  program  pitch  length   velocity    a note of a pitched instrument
    place  drums    drum   none     velocity    a drum stroke
    place  harmony  root   quality  none        the chord from here on
    bar    numerator  denominator  section  place    a bar line, and the bar after it

- ``place`` is the number of steps since the bar line, 24 to a quarter note (``songs/bars.py``), so
  equal bars have equal ids. ``length`` is in steps, too.
- Every bar, even an empty one, has a ``bar`` group with its meter; ``denominator`` is the exponent
  of a power of two. The ``place`` of this group is the step at which the bar ends early, or 0.
  ``section`` names the earlier bar that this bar repeats (``songs/bar_codec.py``); 0: none.
- Groups are in the order of bar, place, part and pitch; chords precede programs, drums come last.
- A piece begins with the bar of its first note and ends with the bar in which the last note ends.
- A note longer than ``LONGEST_NOTE`` steps is divided into tied notes; all but the first have
  ``tie`` in place of a velocity. Meters without ids are read as 4/4.
- With ``controls=True`` windows can have controls and given notes (``songs/bar_codec.py``).
- Tempo has no ids. Ids are converted to seconds at 120 quarter notes a minute; a ``Clock`` of
  ``tokens/tokenizer.py`` converts these to seconds of a file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from musictx import chords as harmony
from musictx.beats import BPM
from musictx.config import TokenizerConfig
from musictx.notes import DRUMS, METER, TEMPO, Score, sort_order
from musictx.songs import bar_codec
from musictx.songs.bar_codec import DRUM_STEPS, FIELDS_PER_NOTE, LONGEST_NOTE, SECTIONS
from musictx.songs.bar_grammar import BarState
from musictx.songs.bars import LONGEST_BAR, MAX_EXPONENT, MAX_NUMERATOR, STEPS_PER_SECOND, Bars
from musictx.songs.chord_estimation import recognise_chords
from musictx.tokens.spelling import StreamTokenizer
from musictx.tokens.stream import CHORD, STREAM_NOTE, NoteStream
from musictx.tokens.tokenizer import Clock


class BarredScore(NamedTuple):
    """A score on its grid.

    stream    the notes and chords, and the bars in which they lie
    left_out  {reason: number of notes left out}
    bars      all bars of the file
    first     the index in ``bars`` of the first bar of the stream
    """

    stream: NoteStream
    left_out: Counter[str]
    bars: Bars
    first: int

    @property
    def clock(self) -> Clock:
        return Clock(self.bars.beats, self.bars.begin_seconds(self.first), BPM)

    def steps(self, *moments: float) -> list[int]:
        """Convert times in seconds to the nearest steps on the grid, from its first bar."""
        steps = self.bars.grid_steps(np.array(moments, float))
        return (steps - self.bars.lines[self.first]).tolist()


class BarTokenizer(StreamTokenizer):
    """Converts a Score to bar tokens and back. The arguments are those of
    :class:`musictx.config.TokenizerConfig`, and may raise :class:`musictx.errors.ConfigError`."""

    name = "notes"
    options = ("tracks", "low", "high", "velocity_bins", "sustain", "chords")
    beats = True
    group = FIELDS_PER_NOTE
    idiom = "musictx.songs.idiom:BarIdiom"

    def __init__(
        self,
        *,
        tracks: str = "programs",
        low: int = 0,
        high: int = 127,
        velocity_bins: int = 8,
        sustain: bool = True,
        controls: bool = False,
        chords: bool = True,
    ) -> None:
        TokenizerConfig("notes", tracks, low, high, velocity_bins=velocity_bins)
        super().__init__(tracks, low, high, velocity_bins, sustain, controls)
        self.chords = chords
        fields = [
            ("place", 0, LONGEST_BAR - 1),
            ("bar", 0, 0),
            ("program", 0, 127),
            ("drums", 0, 0),
            ("harmony", 0, 0),
            ("numerator", 1, MAX_NUMERATOR),
            ("pitch", low, high),
            ("drum", 0, 127),
            ("root", 0, harmony.NONE.root),
            ("denominator", 0, MAX_EXPONENT),
            ("length", 1, LONGEST_NOTE),
            ("quality", 0, len(harmony.NAMES) - 1),
            ("section", 0, SECTIONS - 1),
            ("velocity", 1, self.velocities.bins),
            ("tie", 0, 0),
            ("none", 0, 0),
        ]
        self.vocabulary = self._make_vocabulary(fields)

    def stream(self, score: Score) -> tuple[NoteStream, Counter[str]]:
        grid = self.grid(score)
        return grid.stream, grid.left_out

    def write(self, stream: NoteStream) -> np.ndarray:
        return bar_codec.write(stream, self.vocabulary)

    def clock(self, score: Score) -> Clock:
        notes, _, bars = self._notes_and_bars(score)
        if not len(notes):
            return Clock(score.beats, 0.0, BPM)
        first = bars.bar_number(bars.grid_steps(notes["start"]).min())
        return Clock(score.beats, bars.begin_seconds(first), BPM)

    def off_grid_count(self, score: Score) -> int:
        notes, _, bars = self._notes_and_bars(score)
        return bars.off_grid_count(notes["start"])

    def _notes_and_bars(
        self, score: Score, *moments: float
    ) -> tuple[np.ndarray, Counter[str], Bars]:
        """The notes of ``score`` that ids can encode, {reason: number of notes left out}, and the
        bars up to the end of these notes and the last of ``moments`` (seconds)."""
        notes, left_out = self.encodable_notes(score)
        return notes, left_out, Bars(score, max([0.0, *notes["end"].tolist(), *moments]))

    def window_start(self, ids: np.ndarray, start: int) -> int:
        """The index in ``ids`` of the last bar line at or before ``start``; 0 if there is none."""
        lines = np.flatnonzero(ids[: start + 1] == self.vocabulary.id("bar"))
        return int(lines[-1]) if len(lines) else 0

    def grid(self, score: Score, *moments: float) -> BarredScore:
        """The bars of ``score`` that cover its notes and the ``moments`` (seconds), with the notes
        and chords in these bars."""
        notes, left_out, bars = self._notes_and_bars(self.fold_pedal(score), *moments)
        if not len(notes) and not moments:
            return BarredScore(NoteStream(), left_out, bars, 0)
        start = bars.grid_steps(notes["start"])
        end = np.maximum(bars.grid_steps(notes["end"]), bars.next_grid_steps(start))
        stream = self.as_stream_notes(notes)
        stream["start"], stream["length"] = start, np.where(notes["drum"], 0, end - start)
        covered = bars.grid_steps(np.array(moments, float)).tolist()
        stop = max([*(start + stream["length"]).tolist(), *covered])
        tied_notes = [stream]
        while (is_long := tied_notes[-1]["length"] > LONGEST_NOTE).any():
            rest = tied_notes[-1][is_long]
            rest["start"] += LONGEST_NOTE
            rest["length"] -= LONGEST_NOTE
            rest["velocity_bin"] = 0
            tied_notes[-1]["length"][is_long] = LONGEST_NOTE
            tied_notes.append(rest)
        stream = np.concatenate(tied_notes)
        begins = [*stream["start"].tolist(), *covered[:1]]
        first, last = bars.bar_number([min(begins), max([*begins, stop - 1])]).tolist()
        if self.chords:
            stream = np.concatenate([self._chords(bars, first, last), stream])
        stream["start"] -= bars.lines[first]
        stream = stream[sort_order(*(stream[name] for name in ("start", "part", "pitch")))]
        rows = bars.rows[first : last + 1].copy()
        rows["early_end"][-1] = 0  # no bar follows that a shorter bar would shift
        return BarredScore(NoteStream(rows, stream), left_out, bars, first)

    def _chords(self, bars: Bars, first: int, last: int) -> np.ndarray:
        """The chords in force at the bar lines ``first`` to ``last``, and the changes of chord
        within these bars."""
        chords = harmony.chord_changes(bars.score) or recognise_chords(bars.score)
        steps = bars.grid_steps(np.array([time for time, _ in chords]))
        begins = {int(step): chord for step, (_, chord) in zip(steps, chords)}
        lines = set(bars.lines[first : last + 1].tolist())
        stop, rows, chord = bars.lines[last + 1], [], harmony.NONE
        for step in sorted(lines | set(begins)):
            previous, chord = chord, begins.get(step, chord)
            if bars.lines[first] <= step < stop and (step in lines or chord != previous):
                rows.append((step, CHORD, chord.root, chord.quality, 0))
        return np.array(rows, STREAM_NOTE)

    def read(self, ids: np.ndarray | Sequence[int]) -> NoteStream:
        return bar_codec.read(ids, self.vocabulary)

    def seconds(self, steps: Any) -> Any:
        return steps / STEPS_PER_SECOND

    def score(self, stream: NoteStream) -> Score:
        """The music of a stream, at 120 quarter notes a minute, with its meters and chords."""
        bars, notes = stream.bars, stream.notes
        if not len(bars):
            return Score()
        notes = notes.copy()
        is_chord, is_drum = notes["part"] == CHORD, notes["part"] == DRUMS
        notes["length"][is_drum] = DRUM_STEPS
        # A tie lengthens the note that it continues; a tie that continues no note is dropped.
        open_notes: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
        is_onset = ~is_chord
        for i in np.flatnonzero(~is_chord & ~is_drum).tolist():
            start, part, pitch, length, velocity_bin = notes[i].tolist()
            end = start + length
            if velocity_bin == 0:
                is_onset[i] = False
                if indices := open_notes[part, pitch, start]:
                    notes["length"][indices[0]] = end - notes["start"][indices[0]]
                    open_notes[part, pitch, end].append(indices.pop(0))
            elif length == LONGEST_NOTE:
                open_notes[part, pitch, end].append(i)
        lines = stream.lines[:-1]
        changes = (np.diff(bars["numerator"]) != 0) | (np.diff(bars["exponent"]) != 0)
        # After a bar that ends early a mark moves the next bar line.
        has_mark = np.append(True, changes | (bars["early_end"][:-1] > 0))
        meters = np.zeros(int(has_mark.sum()), METER)
        meters["time"] = self.seconds(lines[has_mark])
        meters["numerator"] = bars["numerator"][has_mark]
        meters["denominator"] = 2 ** bars["exponent"][has_mark]
        markers = tuple(
            (float(self.seconds(start)), str(harmony.Chord(root, quality)))
            for start, _, root, quality, _ in notes[is_chord].tolist()
        )
        return Score(
            notes=self.score_notes(notes[is_onset]),
            tempos=np.array([(0.0, BPM)], TEMPO),
            meters=meters,
            markers=markers,
        )

    def state(self) -> BarState:
        return BarState(self.vocabulary)

    def augment(
        self, ids: np.ndarray, *, semitones: int = 0, stretch: float = 1.0
    ) -> np.ndarray | None:
        """Transpose notes and chords; ``None`` if a pitch leaves the range. ``stretch`` has no
        effect, since times are counted in beats."""
        if semitones == 0:
            return ids
        transposed = self.transpose(ids.astype(np.int64), semitones)
        return None if transposed is None else transposed.astype(np.uint16)
