"""The Music Transformer's own vocabulary: note-on, note-off, time-shift and velocity events.

Oore et al. 2018 ("This Time with Feeling", section 3) and Huang et al. 2018 (section 4.2), by
note-seq's rules. The sustain pedal is folded into note ends first. Onsets and ends are rounded to
the grid as absolute times, half a step upwards, so that nothing drifts; a note that rounds to
nothing lasts one step. Within one step releases come first, then strikes in the order of the
score. A velocity token stands only where the bin changes, and so does a program token.

Choices that the papers leave open, all of which ``quantise`` shows:

- Silence before the first note is dropped: a piece begins with its first note.
- Notes of one pitch that overlap (in one program) end first in, first out.
- ``tracks="piano"`` merges all pitched instruments and leaves drums out. A pitch struck by two
  instruments at once is two notes.
- ``tracks="programs"`` writes ``program`` tokens (General MIDI 0..127), and within one step sorts
  by program so that few are needed. A drum stroke is a token of its own, ``drum``: it has no
  release and needs no program, so a window cut anywhere knows what is a drum and what is a pitch.
  Decoded it lasts 0.1 s. ``low`` and ``high`` bound pitches, not drums.
- Velocities are told in bins (``tokens/velocities.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from musictx.config import TokenizerConfig
from musictx.notes import NOTE, Score, arranged, order
from musictx.tokens import events as ev
from musictx.tokens.clock import Clock
from musictx.tokens.grammar import PerformanceState
from musictx.tokens.spelling import Spelling, program_key
from musictx.tokens.vocab import SPECIALS, NoteEvents

DRUM_SECONDS = 0.1
DEFAULT_VELOCITY = 64
DEFAULT_PROGRAM = 0

#: A note on the grid: ``start`` and ``end`` in steps, velocity as a bin.
_GRID = np.dtype(
    [
        ("start", "i8"),
        ("end", "i8"),
        ("pitch", "i2"),
        ("program", "i2"),
        ("drum", "?"),
        ("bin", "i2"),
    ]
)


class PerformanceTokenizer(Spelling):
    """Score <-> event ids; options as in :class:`musictx.config.TokenizerConfig`.

    step_ms  time grid, milliseconds;  max_shift_ms  longest single shift

    Raises :class:`musictx.errors.ConfigError` for an option that cannot be.
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
        """How long a step of the grid is."""
        return self.step_ms / 1000

    @cached_property
    def note_events(self) -> NoteEvents:
        table = self.vocabulary
        return NoteEvents(
            strike=table.values("note_on"),
            release=table.values("note_off"),
            program=table.values("program"),
            lead=(table.values("velocity") >= 0) | (table.values("program") >= 0),
            wait=np.maximum(table.values("time_shift"), 0) / (self.max_shift_ms // self.step_ms),
            longest_wait=self.max_shift_ms // self.step_ms * self.step_ms / 1000,
        )

    def clock(self, score: Score) -> Clock:
        notes, _ = self.writable(score)
        first = float(self._steps(notes["start"].min())) if len(notes) else 0.0
        return Clock(score.beats, first * self.step_ms / 1000)

    def _steps(self, seconds: Any) -> Any:
        """Times as whole steps, half a step upwards."""
        return np.floor(seconds * (1000.0 / self.step_ms) + 0.5)

    def encode_with_report(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """As ``encode``, and what was left out: reason -> number of notes."""
        notes, left_out = self._grid(score)
        return ev.write(_to_events(notes), self.vocabulary), left_out

    def quantise(self, score: Score) -> Score:
        """What survives writing and reading back: ``decode(encode(score)) == quantise(score)``."""
        return self._to_score(self._grid(score)[0])

    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        """Any ids of the vocabulary -> Score.

        Special ids are skipped, releases of what does not sound ignored, notes left open end with
        the piece (but last a step at least). Before the first velocity token notes get the bin of
        velocity 64, before the first program token program 0.
        """
        events, last_step = ev.read(ev.as_ids(ids, self.vocabulary), self.vocabulary)
        events["bin"][events["bin"] == ev.UNKNOWN] = self.velocities.bin(DEFAULT_VELOCITY)
        events["program"][events["program"] == ev.UNKNOWN] = DEFAULT_PROGRAM
        partner, _ = ev.pair(events)
        strikes = np.flatnonzero(ev.struck(events))
        struck = events[strikes]
        notes = np.empty(len(struck), _GRID)
        notes["start"] = struck["step"]
        notes["drum"] = struck["what"] == ev.DRUM
        released = partner[strikes]
        notes["end"] = np.where(released >= 0, events["step"][released], last_step)
        notes["end"] = np.maximum(notes["end"], notes["start"] + 1)
        notes["end"][notes["drum"]] = notes["start"][notes["drum"]] + self._drum_steps
        for name in ("pitch", "program", "bin"):
            notes[name] = struck[name]
        return self._to_score(notes)

    def grammar(self, prefix: np.ndarray | Sequence[int] = ()) -> PerformanceState:
        """The state after ``prefix``; see :class:`musictx.tokens.grammar.PerformanceState`."""
        state = PerformanceState(self.vocabulary, self.step_seconds)
        state.read(prefix)
        return state

    def augment(
        self, ids: np.ndarray, *, semitones: int = 0, stretch: float = 1.0
    ) -> np.ndarray | None:
        """A window of a piece, transposed and stretched; ``None`` if a pitch leaves.

        Absolute steps from the start of the window are multiplied by ``stretch`` and rounded half
        upwards, then written anew, so whole pieces come out as their stretched scores would encode
        and nothing drifts; a note lasts a step at least. Drums are not transposed. Special ids at
        either end stay. A stretch drops a velocity or program token at the very end of a window
        that no note follows.
        """
        if semitones == 0 and stretch == 1.0:
            return ids
        array = ev.as_ids(ids, self.vocabulary)
        if semitones:
            moved = self._transposed(array, semitones)
            if moved is None:
                return None
            array = moved
        if stretch == 1.0:
            return array.astype(np.uint16)
        content = np.flatnonzero(array >= len(SPECIALS))
        if not len(content):
            return array.astype(np.uint16)
        head, tail = array[: content[0]], array[content[-1] + 1 :]
        body = self._rewritten(array[content[0] : content[-1] + 1], stretch)
        return np.concatenate([head.astype(np.uint16), body, tail.astype(np.uint16)])

    def _transposed(self, ids: np.ndarray, semitones: int) -> np.ndarray | None:
        kinds = self.vocabulary.kinds
        kind, value = self.vocabulary.kind_of[ids], self.vocabulary.value_of[ids]
        pitched = (kind == kinds.index("note_on")) | (kind == kinds.index("note_off"))
        pitch = value[pitched] + semitones
        if len(pitch) and (pitch.min() < self.low or pitch.max() > self.high):
            return None
        return ids + np.where(pitched, semitones, 0)

    def _rewritten(self, ids: np.ndarray, stretch: float) -> np.ndarray:
        events, last_step = ev.read(ids, self.vocabulary)
        partner, astray = ev.pair(events)
        strikes = np.flatnonzero(partner >= 0)
        releases = partner[strikes]
        before = events["step"].copy()
        step = np.floor(before * stretch + 0.5).astype(np.int64)
        step[releases] = np.maximum(step[releases], step[strikes] + 1)
        unsaid = ev.struck(events) & (events["bin"] == ev.UNKNOWN)
        unsaid |= events["program"] == ev.UNKNOWN
        if self.tracks == "programs" and unsaid.any():
            # Squeezed into one step with what follows, these could come after it (steps are
            # sorted by program) and be taken for its program or velocity: keep them apart.
            last = np.flatnonzero(unsaid)[-1]
            earliest = step[unsaid].max() + (before[last + 1 :] > before[last])
            step[last + 1 :] = np.maximum(step[last + 1 :], earliest)
            step[releases] = np.maximum(step[releases], step[strikes] + 1)
        events["step"] = step
        events["order"][releases] = events["order"][strikes]
        events["order"][astray] -= len(ids)  # of notes older than the window
        last_step = int(np.floor(last_step * stretch + 0.5))
        return ev.write(ev.ordered(events), self.vocabulary, last_step)

    def _grid(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """The notes that are kept, on the grid, in the order of writing; and what was left out."""
        notes, left_out = self.writable(self.folded(score))
        grid = np.zeros(len(notes), _GRID)
        if not len(notes):
            return grid, left_out
        grid["start"] = self._steps(notes["start"])
        grid["end"] = np.maximum(self._steps(notes["end"]), grid["start"] + 1)
        first = grid["start"].min()
        grid["start"] -= first
        grid["end"] -= first
        grid["pitch"], grid["drum"] = notes["pitch"], notes["drum"]
        grid["bin"] = self.velocities.bin(notes["velocity"].astype(np.int64))
        if self.tracks == "programs":
            grid["program"] = np.where(notes["drum"], 0, notes["program"])
        grid["end"][grid["drum"]] = grid["start"][grid["drum"]] + self._drum_steps
        grid = arranged(grid, grid["start"] * 256 + program_key(grid))
        # First in, first out: the k-th strike of a program and pitch has the k-th end.
        key = program_key(grid) * 128 + grid["pitch"]
        grid["end"][order(key)] = grid["end"][order(key, grid["end"])]
        return grid, left_out

    def _to_score(self, grid: np.ndarray) -> Score:
        """Notes on the grid -> Score; in "programs" each program is a track, drums the last."""
        notes = np.zeros(len(grid), NOTE)
        notes["start"] = grid["start"] * self.step_ms / 1000
        notes["end"] = grid["end"] * self.step_ms / 1000
        for name in ("pitch", "program", "drum"):
            notes[name] = grid[name]
        notes["velocity"] = self.velocities.of_bin[grid["bin"]]
        notes["track"] = np.unique(program_key(grid), return_inverse=True)[1].reshape(-1)
        return Score(notes=notes)


def _to_events(grid: np.ndarray) -> np.ndarray:
    """Strikes and releases, in the order of writing, of notes in the order of writing."""
    strikes = np.zeros(len(grid), ev.EVENT)
    strikes["step"] = grid["start"]
    strikes["what"] = np.where(grid["drum"], ev.DRUM, ev.ON)
    strikes["order"] = np.arange(len(grid))
    for name in ("program", "pitch", "bin"):
        strikes[name] = grid[name]
    pitched = ~grid["drum"]
    releases = strikes.copy() if pitched.all() else strikes[pitched]
    releases["what"] = ev.OFF
    releases["step"] = grid["end"][pitched]
    return ev.ordered(np.concatenate([strikes, releases]))
