"""The given notes of a chorale, a melody or all but those of a gap, with their bars and key."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from musictx import keys
from musictx.beats import Beats
from musictx.chorale import grid as grids
from musictx.chorale.grid import PER_QUARTER, RANGES, SILENCE, VOICES, Grid
from musictx.errors import UserError
from musictx.notes import Score

#: A note is off the grid if it starts more than this many sixteenths before or after a step.
OFF_SIXTEENTHS = 0.12
#: Successive notes that overlap by at most this much are a single line.
OVERLAP_SECONDS = 0.02


@dataclass(frozen=True)
class Tune:
    """The given notes of a file, on the grid.

    score   the music of the file
    given   its given notes on the grid, each in its voice
    voices  the given voices, 0 = soprano; usually only the melody
    fixed   (T, 4) bool: where ``given`` stays; everything else is composed
    key     estimated from the first of ``voices``
    shift   semitones (whole octaves) by which a single voice was moved into its range
    ends    bars in which phrases end; if empty, the fermatas or long notes of the file decide
    """

    score: Score
    given: Grid
    voices: tuple[int, ...]
    fixed: np.ndarray
    key: keys.Key
    shift: int = 0
    ends: tuple[int, ...] = ()

    @classmethod
    def of(cls, score: Score, voices: tuple[int, ...] = (0,), *, ends: Sequence[int] = ()) -> Tune:
        """Read the given voices from ``score``.

        voices  (0,), the soprano, is the highest line of ``score``. Another single voice is its
                track if there are four tracks, otherwise the highest line (the lowest for the
                bass). Of several voices each is a track
        ends    bars in which phrases end

        Raises ``UserError`` for music without notes or with more than four voices, and if it lacks
        the ``voices`` or the bars in ``ends``.
        """
        tracks = len(grids.tracks_from_high_to_low(score.notes))
        if len(voices) > 1 and tracks not in (len(VOICES), len(voices)):
            raise UserError(f"{tracks} tracks, expected a file of one track for each voice")
        shift = 0
        if tracks == len(VOICES) and voices != (0,):
            given = grids.read(score)[0]
        elif len(voices) > 1:
            given = grids.read(score, voices)[0]
        else:
            try:
                given, shift = melody_of(grids.read(score)[0], voices[0])
            except UserError as error:
                raise UserError(
                    f"{error}; give a file with the melody alone, such as its track, exported from "
                    "your sequencer"
                ) from None
        fixed = np.zeros(given.pitches.shape, bool)
        fixed[:, voices] = True
        given = Grid(np.where(fixed, given.pitches, SILENCE), given.tied & fixed)
        key = _key(given.pitches[:, voices[0]])
        tune = cls(score, given, voices, fixed, key, shift, tuple(ends))
        if missing := sorted(set(ends) - set(tune.bar_numbers.tolist())):
            last = tune.bar_numbers[-1]
            raise UserError(f"phrase_ends={missing[0]}: expected bars of 1-{last}")
        return tune

    @cached_property
    def clock(self) -> Beats:
        """The beats and bars of the file."""
        return grids.beats(self.score)

    @cached_property
    def first(self) -> int:
        """The sixteenth of the file at which the grid begins."""
        return grids.first_step(self.score)

    def bar_at(self, step: int) -> tuple[int, float]:
        """(number of the bar in which a step of the grid lies, 0 for a pick-up; quarter notes from
        the beginning of the bar to the step)."""
        number, offset = self.clock.bar((self.first + step) / PER_QUARTER)
        return number - self.clock.pickup, offset

    @property
    def bar(self) -> int:
        """Sixteenths in a bar of the piece's main meter, the one that lasts longest. (The first
        meter may be that of a pick-up.)"""
        lengths = np.diff(self.clock.meter_at, append=(self.first + len(self.given)) / PER_QUARTER)
        return max(1, round(float(self.clock.bar_quarters[lengths.argmax()]) * PER_QUARTER))

    @cached_property
    def bar_numbers(self) -> np.ndarray:
        """(T,) int64: the number of the bar in which each step lies (:meth:`bar_at`)."""
        return np.array([self.bar_at(step)[0] for step in range(len(self.given))])

    @cached_property
    def line(self) -> np.ndarray:
        """(n, 2) int64: for each note of the first given voice, its first step and the step after
        its last one."""
        spans = self.given.spans
        return spans[spans[:, 2] == self.voices[0], :2]

    def phrase_ends(self) -> list[tuple[int, int]]:
        """The note that ends each phrase but the last, as (first step, step after its last one).

        With ``ends``, phrases end with the longest note that sounds in each of these bars (of equal
        notes, the last one). Otherwise, if the file has fermatas, they end with the notes under
        them. Otherwise they end with the longest note of a bar, counted without a pick-up: of bars
        4, 8, ..., if it is at least as long as the mean of the earlier notes of its phrase; of bars
        2, 6, ..., if it is at least twice as long.
        """
        if self.ends:
            numbers = {self._longest(self.bar_numbers == bar) for bar in self.ends} - {-1}
        elif self.score.fermatas:
            quarters = self.clock.quarters(np.array(self.score.fermatas))
            steps = np.round(quarters * PER_QUARTER) - self.first
            under = [((begin <= steps) & (steps < stop)).any() for begin, stop in self.line[:-1]]
            numbers = set(np.flatnonzero(under).tolist())
        else:
            numbers = self._long_notes()
        return [(begin, stop) for begin, stop in self.line[sorted(numbers)].tolist()]

    def _longest(self, in_bar: np.ndarray) -> int:
        """The index in :attr:`line` of the longest note that sounds in the bar with the steps
        ``in_bar`` (T,) bool; -1 if there is none or it is the last note."""
        sounding = [n for n, (begin, stop) in enumerate(self.line) if in_bar[begin:stop].any()]
        note = max(sounding, key=lambda n: (np.diff(self.line[n]), n), default=-1)
        return note if note < len(self.line) - 1 else -1

    def _long_notes(self) -> set[int]:
        """The indices in :attr:`line` of the notes that end phrases by their length."""
        bars, opening = self.bar_numbers, self.line[0, 0]
        first_bar, offset = self.bar_at(opening)
        is_short = (bars[opening:] == first_bar).sum() < (bars == first_bar + 1).sum()
        if not (offset or is_short):  # the melody begins with a whole bar, which is bar 1
            first_bar -= 1
        last_notes, phrase_start = set[int](), 0  # indices of notes
        for bar in range(2, int(bars.max()) - first_bar, 2):
            note = self._longest(bars == first_bar + bar)
            if note <= phrase_start:  # no note before it in this phrase
                continue
            lengths = np.diff(self.line[phrase_start : note + 1]).ravel()
            if lengths[-1] >= lengths[:-1].mean() * (1 if bar % 4 == 0 else 2):
                last_notes.add(note)
                phrase_start = note + 1
        return last_notes

    def position_name(self, step: int) -> str:
        """The bar and beat at a step of the grid, such as ``bar 2 beat 1.5``."""
        bar, offset = self.bar_at(step)
        quarters = (self.first + step) / PER_QUARTER
        meter = np.searchsorted(self.clock.meter_at, quarters + 1e-6, side="right") - 1
        beat = 1 + offset * self.clock.meters["denominator"][meter] / 4
        return f"bar {bar} beat {beat:g}"

    def remarks(self) -> list[str]:
        """Remarks on the melody, for the user."""
        lines = []
        if self.shift:
            direction = "up" if self.shift > 0 else "down"
            octaves = abs(self.shift) // 12
            distance = "an octave" if octaves == 1 else f"{octaves} octaves"
            lines.append(
                f"the tune was moved {direction} by {distance}, into the range of a "
                f"{VOICES[self.voices[0]]}"
            )
        start = self.clock.quarters(self.score.notes["start"]) * PER_QUARTER
        if off := int((np.abs(start - np.round(start)) > OFF_SIXTEENTHS).sum()):
            lines.append(
                f"{off} of its {len(self.score)} notes do not begin on a sixteenth "
                "(triplets?); the other voices have sixteenths only"
            )
        return lines

    def composed_notes(self, grid: Grid) -> Grid:
        """The notes of ``grid`` that are not given. A note tied to a given one begins after it."""
        free = ~self.fixed
        tied = grid.tied & free
        tied[1:] &= free[:-1]
        return Grid(np.where(free, grid.pitches, SILENCE), tied)

    def to_score(self, grid: Grid) -> Score:
        """The file with all voices of ``grid`` and no drums. Tempos, meters and the silence before
        the first note stay. The notes of a file that is a single line are not rounded to the grid.
        """
        notes = self.score.notes[~self.score.notes["drum"]]
        new = grids.to_notes(grid, self.clock, self.first)
        new["velocity"] = int(np.median(notes["velocity"]))
        new["program"] = notes["program"][0]
        is_single_line = (notes["start"][1:] >= notes["end"][:-1] - OVERLAP_SECONDS).all()
        if len(self.voices) == 1 and is_single_line:
            melody, voice = notes.copy(), self.voices[0]
            melody["pitch"] = melody["pitch"].astype(int) + self.shift
            melody["track"] = voice
            new = np.concatenate([melody, new[new["track"] != voice]])
        return dataclasses.replace(
            self.score, notes=new, pedals=self.score.pedals[:0], names=grids.TRACK_NAMES
        )


class Gap(Tune):
    """The given notes of a file of four tracks, some of whose notes are composed again: those that
    begin in a time span."""

    @classmethod
    def between(cls, score: Score, begin: float, end: float, tracks: Sequence[int]) -> Gap:
        """The gap on the ``tracks`` with these numbers from ``begin`` to ``end`` seconds. Raises
        ``UserError`` unless ``score`` has exactly four tracks, and if the gap has no or all notes.
        """
        voice_tracks = grids.tracks_from_high_to_low(score.notes)
        if len(voice_tracks) != len(VOICES):
            raise UserError(
                f"file: {len(voice_tracks)} tracks, expected four, one for each voice, for a model "
                "of chorales"
            )
        given = grids.read(score)[0]
        start, stop = grids.to_steps(score, np.array([begin, end])) - grids.first_step(score)
        # (T, 4): the step at which the note or rest of each entry begins.
        onset = grids.fill_ties(np.indices(given.tied.shape)[0], given.tied)
        is_composed = np.isin(voice_tracks, tracks)
        free = (onset >= start) & (onset < stop) & is_composed
        if not free.any() or free.all():
            problem = "nothing begins there" if not free.any() else "nothing would stay"
            raise UserError(f"from, to: {problem}; expected some bars of the file, not all")
        voices = tuple(np.flatnonzero(~is_composed).tolist()) or (0,)  # those given throughout
        return cls(score, given, voices, ~free, _key(given.pitches[:, 0]))

    def to_score(self, grid: Grid) -> Score:
        """The file, with the notes of the gap replaced by those of ``grid``."""
        notes = self.score.notes
        new = grids.to_notes(self.composed_notes(grid), self.clock, self.first)
        steps = grids.to_steps(self.score, notes["start"]) - self.first
        steps = np.clip(steps, 0, len(grid) - 1)
        is_given = np.ones(len(notes), bool)
        tracks = grids.tracks_from_high_to_low(notes)
        for voice, track in enumerate(tracks):
            on_track, in_voice = (notes["track"] == track) & ~notes["drum"], new["track"] == voice
            is_given &= ~on_track | self.fixed[steps, voice]
            new["velocity"][in_voice] = int(np.median(notes["velocity"][on_track]))
            new["program"][in_voice] = notes["program"][on_track][0]
        new["track"] = np.take(tracks, new["track"])
        return self.score.with_notes(np.concatenate([notes[is_given], new]))


def _key(pitches: np.ndarray) -> keys.Key:
    key = keys.of_melody(pitches)
    assert key is not None, "there are notes in each given voice"
    return key


def melody_of(grid: Grid, voice: int = 0) -> tuple[Grid, int]:
    """Extract the highest line of ``grid`` (the lowest for a bass) as the voice ``voice``.

    Return a grid with this voice alone, and the semitones (whole octaves) by which it was moved
    into the range of the voice. A rest of a sixteenth between two notes is filled by holding the
    note before it.
    """
    top = grid.pitches.argmax(axis=1)
    if voice == len(VOICES) - 1:
        top = np.where(grid.pitches >= 0, grid.pitches, 128).argmin(axis=1)
    steps = np.arange(len(grid))
    line, is_held = grid.pitches[steps, top], grid.tied[steps, top]
    is_held[1:] &= (line[1:] == line[:-1]) & (top[1:] == top[:-1])
    rests = np.flatnonzero((line[1:-1] < 0) & (line[:-2] >= 0) & (line[2:] >= 0)) + 1
    line[rests], is_held[rests] = line[rests - 1], True
    sounding = line[line >= 0]
    low, high = RANGES[voice]

    def steps_outside(shift: int) -> tuple[int, int]:
        return int(((sounding + shift < low) | (sounding + shift > high)).sum()), abs(shift)

    shift = min(range(-48, 49, 12), key=steps_outside)
    pitches, tied = np.full_like(grid.pitches, SILENCE), np.zeros_like(grid.tied)
    pitches[:, voice] = np.where(line >= 0, line + shift, SILENCE)
    tied[:, voice] = is_held
    return Grid(pitches, tied), shift
