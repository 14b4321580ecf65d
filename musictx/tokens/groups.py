"""Notes in bars, five ids each: for music on a grid, and networks that take a note as one step.

A piece is a sequence of *groups* of five ids. The first id says what a group is::

    place  program  pitch  length   velocity    a note of a pitched instrument
    place  drums    drum   none     velocity    a drum stroke
    place  harmony  root   quality  none        the chord from here on
    bar    numerator  denominator  section  place    a bar line, and the bar after it

- ``place`` counts steps from the bar line, 24 to a quarter note (``tokens/bars.py``), so equal bars
  are equal ids. ``length`` is in steps too.
- Each bar has its group, empty bars too, with its meter (``denominator``: its power of two). The
  ``place`` in it is 0, or where the bar ends early. ``section`` says which earlier bar it says
  again (``tokens/returns.py``), 0 where there is none.
- Groups stand in the order of bar, place, part and pitch; chords come before programs, drums last.
- A piece begins with the bar in which its first note lies, and its last bar is that in which the
  last note ends.
- A note longer than :data:`LONGEST` steps is divided; what continues a note has ``tie`` for its
  velocity. Bars longer than :data:`PLACES` are read as bars of four quarters.
- With ``controls=True`` windows can say what music is like, and what is known of it ahead
  (``tokens/ahead.py``).
- Tempo is not written: the seconds of these ids are those of 120 quarter notes a minute. Laid into
  a file, notes follow its tempo marks (``sampling/timeline.py``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from musictx import chords as harmony
from musictx.beats import BPM
from musictx.config import TokenizerConfig
from musictx.notes import METER, NOTE, TEMPO, Score, order
from musictx.tokens.bars import EXPONENTS, MOVED, NUMERATORS, PER_SECOND, STEPS, Bars
from musictx.tokens.clock import Clock
from musictx.tokens.group_grammar import GroupState
from musictx.tokens.group_ids import (
    BAR,
    CHORD,
    DRUM_PART,
    DRUM_STEPS,
    FIELDS_A_GROUP,
    LONGEST,
    PLACED,
    PLACES,
    SECTIONS,
    read,
    write,
)
from musictx.tokens.spelling import Spelling


class Grid(NamedTuple):
    """A score on its grid: bars (:data:`BAR`) and groups in them (:data:`PLACED`), what was left
    out, all bars of the file, and which of them is the first here."""

    bars: np.ndarray
    placed: np.ndarray
    left_out: Counter[str]
    clock: Bars
    first: int


class GroupTokenizer(Spelling):
    """Score <-> ids in groups; options as in :class:`musictx.config.TokenizerConfig`.

    Raises :class:`musictx.errors.ConfigError` for an option that cannot be.
    """

    name = "notes"
    options = ("tracks", "low", "high", "velocity_bins", "sustain", "chords")
    beats = True
    align = group = FIELDS_A_GROUP

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
            ("place", 0, PLACES - 1),
            ("bar", 0, 0),
            ("program", 0, 127),
            ("drums", 0, 0),
            ("harmony", 0, 0),
            ("numerator", 1, NUMERATORS),
            ("pitch", low, high),
            ("drum", 0, 127),
            ("root", 0, harmony.NONE.root),
            ("denominator", 0, EXPONENTS),
            ("length", 1, LONGEST),
            ("quality", 0, len(harmony.NAMES) - 1),
            ("section", 0, SECTIONS - 1),
            ("velocity", 1, self.velocities.bins),
            ("tie", 0, 0),
            ("none", 0, 0),
        ]
        self.vocabulary = self._table(fields)

    # ------------------------------------------------------------------------------------ encoding

    def encode_with_report(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """As ``encode``, and what was left out: reason -> number of notes."""
        grid = self.grid(score)
        return write(grid.bars, grid.placed, self.vocabulary), grid.left_out

    def quantise(self, score: Score) -> Score:
        """What survives writing and reading back: ``decode(encode(score)) == quantise(score)``."""
        grid = self.grid(score)
        return self.score(grid.bars, grid.placed)

    def clock(self, score: Score) -> Clock:
        notes, _ = self.writable(score)
        if not len(notes):
            return Clock(score.beats, 0.0, BPM)
        bars = Bars(self._in_bars(score), float(notes["end"].max()))
        begins = bars.seconds(bars.line_of(int(bars.place(notes["start"])[0].min())))
        return Clock(score.beats, begins, BPM)

    def moved(self, score: Score) -> int:
        """How many notes of ``score`` begin beside the grid, so that they are moved."""
        notes, _ = self.writable(score)
        if not len(notes):
            return 0
        bars = Bars(self._in_bars(score), float(notes["end"].max()))
        return int((bars.place(notes["start"])[1] > MOVED).sum())

    def opening(self, ids: np.ndarray, start: int) -> int:
        """The bar line at or before ``start``."""
        lines = np.flatnonzero(ids[: start + 1] == self.vocabulary.id("bar"))
        return int(lines[-1]) if len(lines) else 0

    def _in_bars(self, score: Score) -> Score:
        """``score`` with bars that can be written."""
        pulse = score.pulse
        meters = (score.meters if pulse is None else pulse.meters).copy()
        quarters = meters["numerator"] * 4.0 / np.maximum(meters["denominator"], 1)
        too_long = quarters * STEPS > PLACES
        if not too_long.any():
            return score
        meters["numerator"][too_long], meters["denominator"][too_long] = 4, 4
        if pulse is None:
            return replace(score, meters=meters)
        return replace(score, pulse=pulse._replace(meters=meters))

    def grid(self, score: Score, *moments: float) -> Grid:
        """The bars of ``score`` that hold its notes, and the ``moments`` in seconds, with the
        groups in them in the order of writing."""
        score = self._in_bars(self.folded(score))
        notes, left_out = self.writable(score)
        bars = Bars(score, max([0.0, *notes["end"].tolist(), *moments]))
        if not len(notes) and not moments:
            return Grid(np.empty(0, BAR), np.empty(0, PLACED), left_out, bars, 0)
        start, _ = bars.place(notes["start"])
        end = np.maximum(bars.place(notes["end"])[0], bars.next(start))
        part = np.where(notes["drum"], DRUM_PART, notes["program"].astype(np.int64))
        if self.tracks == "piano":
            part[:] = 0
        bins = self.velocities.bin(notes["velocity"].astype(np.int64))
        pitch = notes["pitch"].astype(np.int64)
        length = np.where(notes["drum"], 0, end - start)
        covered = bars.place(np.array(moments, float))[0].tolist()
        stop = max([*(start + length).tolist(), *covered])
        pieces = [(start, part, pitch, np.minimum(length, LONGEST), bins)]
        while (length > LONGEST).any():
            rest = length > LONGEST
            start, part, pitch = start[rest] + LONGEST, part[rest], pitch[rest]
            length = length[rest] - LONGEST
            pieces.append((start, part, pitch, np.minimum(length, LONGEST), length * 0))
        start, part, pitch, length, bins = (np.concatenate(column) for column in zip(*pieces))
        lines = bars.lines
        begins = [*start.tolist(), *covered[:1]]
        first = int(np.searchsorted(lines, min(begins), side="right")) - 1
        last = int(np.searchsorted(lines, max([*begins, stop - 1]), side="right")) - 1
        placed = np.zeros(len(start), PLACED)
        placed["line"] = np.searchsorted(lines, start, side="right") - 1
        placed["place"] = start - lines[placed["line"]]
        placed["part"], placed["tone"], placed["length"] = part, pitch, length
        placed["bin"] = bins
        if self.chords:
            placed = np.concatenate([self._chords(score, bars, first, last), placed])
        placed["line"] -= first
        order = placed[_sorted(placed)]
        return Grid(self._bars(bars, first, last), order, left_out, bars, first)

    def _bars(self, bars: Bars, first: int, last: int) -> np.ndarray:
        """The bars from the line number ``first`` to ``last``."""
        begins = np.array([begin for begin, _ in bars.meters])
        found = np.zeros(last + 1 - first, BAR)
        for bar, line, after in zip(found, bars.lines[first:], bars.lines[first + 1 :]):
            meter = bars.meters[int(np.searchsorted(begins, line, side="right")) - 1][1]
            bar["numerator"], bar["exponent"] = meter
            bar["cut"] = 0 if after - line >= meter.steps else after - line
        found["cut"][-1] = 0  # nothing comes after it
        return found

    def _chords(self, score: Score, bars: Bars, first: int, last: int) -> np.ndarray:
        """The chord at each line from ``first`` to ``last``, and those that begin between."""
        found = harmony.annotated(score) or harmony.recognised(score)
        steps = bars.place(np.array([time for time, _ in found]))[0]
        begins = {int(step): chord for step, (_, chord) in zip(steps, found)}
        lines = set(bars.lines[first : last + 1].tolist())
        stop, rows, chord = bars.lines[last + 1], [], harmony.NONE
        for step in sorted(lines | set(begins)):
            before, chord = chord, begins.get(step, chord)
            if bars.lines[first] <= step < stop and (step in lines or chord != before):
                line = int(np.searchsorted(bars.lines, step, side="right")) - 1
                place = step - int(bars.lines[line])
                rows.append((line, place, CHORD, chord.root, chord.quality, 0))
        return np.array(rows, PLACED)

    # ------------------------------------------------------------------------------------ decoding

    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        """Any ids of the vocabulary -> Score: groups that are none, and what stands before the
        first bar line, are passed over; a note that is cut off at the end too."""
        return self.score(*read(np.asarray(ids, np.int64).reshape(-1), self.vocabulary))

    def score(self, bars: np.ndarray, placed: np.ndarray) -> Score:
        """The music of bars and groups (``tokens/group_ids.py``)."""
        if not len(bars):
            return Score()
        full = bars["numerator"] * 4 * STEPS // 2 ** bars["exponent"]
        size = np.where(bars["cut"] > 0, np.minimum(bars["cut"], full), full)
        lines = np.concatenate([[0], np.cumsum(size)[:-1]])
        step = lines[placed["line"]] + placed["place"]
        placed = placed.copy()
        chord = placed["part"] == CHORD
        ends = step + np.where(placed["part"] == DRUM_PART, DRUM_STEPS, placed["length"])
        # What continues a note lengthens it; without one to continue it is nothing.
        open_notes: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
        alone = ~chord
        for i in np.flatnonzero(~chord & (placed["part"] != DRUM_PART)).tolist():
            key = (int(placed["part"][i]), int(placed["tone"][i]))
            if placed["bin"][i] == 0:
                alone[i] = False
                if begun := open_notes[(*key, int(step[i]))]:
                    ends[begun[0]] = ends[i]
                    open_notes[(*key, int(ends[i]))].append(begun.pop(0))
            elif placed["length"][i] == LONGEST:
                open_notes[(*key, int(ends[i]))].append(i)
        rows = placed[alone]
        notes = np.zeros(len(rows), NOTE)
        notes["start"], notes["end"] = step[alone] / PER_SECOND, ends[alone] / PER_SECOND
        notes["drum"] = rows["part"] == DRUM_PART
        notes["program"] = np.where(notes["drum"], 0, rows["part"])
        notes["pitch"], notes["velocity"] = rows["tone"], self.velocities.of_bin[rows["bin"]]
        notes["track"] = np.unique(rows["part"], return_inverse=True)[1].reshape(-1)
        changed = np.append(
            True, np.any([np.diff(bars[n]) != 0 for n in ("numerator", "exponent")], axis=0)
        )
        after_cut = np.append(False, bars["cut"][:-1] > 0)
        marked = changed | after_cut
        meters = np.zeros(int(marked.sum()), METER)
        meters["time"] = lines[marked] / PER_SECOND
        meters["numerator"] = bars["numerator"][marked]
        meters["denominator"] = 2 ** bars["exponent"][marked]
        said = placed[chord]
        markers = tuple(
            (float(time), str(harmony.Chord(int(root), int(quality))))
            for time, root, quality in zip(step[chord] / PER_SECOND, said["tone"], said["length"])
        )
        tempos = np.array([(0.0, BPM)], TEMPO)
        return Score(notes=notes, tempos=tempos, meters=meters, markers=markers)

    # -------------------------------------------------------------------------------------- others

    def grammar(self, prefix: np.ndarray | Sequence[int] = ()) -> GroupState:
        """The state after ``prefix``; see :class:`musictx.tokens.group_grammar.GroupState`."""
        state = GroupState(self.vocabulary)
        state.read(prefix)
        return state

    def augment(
        self, ids: np.ndarray, *, semitones: int = 0, stretch: float = 1.0
    ) -> np.ndarray | None:
        """Transposed, chords too; ``None`` if a pitch leaves the range. Beats are not stretched:
        ``stretch`` has no effect."""
        if semitones == 0:
            return ids
        array = np.asarray(ids, np.int64)
        table = self.vocabulary
        moved = array.copy()
        first, stop = table.range("pitch")
        pitched = (array >= first) & (array < stop)
        moved[pitched] += semitones
        if pitched.any() and not first <= moved[pitched].min() <= moved[pitched].max() < stop:
            return None
        root, _ = table.range("root")
        rooted = (array >= root) & (array < root + 12)
        moved[rooted] = root + (array[rooted] - root + semitones) % 12
        return moved.astype(np.uint16)


def _sorted(placed: np.ndarray) -> np.ndarray:
    return order(*(placed[name] for name in ("line", "place", "part", "tone")))
