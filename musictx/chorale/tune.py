"""The given notes of a chorale (a melody, or everything but a gap), with its bars and key."""

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

#: A note whose start is further than this from the grid, in sixteenths, does not fit.
OFF_SIXTEENTHS = 0.12


@dataclass(frozen=True)
class Tune:
    """The given notes of a file, on the grid.

    score   the file
    given   its notes on the grid, each in its voice
    voices  the given voices, 0 = soprano; usually only the melody
    fixed   (T, 4) bool: where ``given`` stays; everything else is composed
    key     of the whole melody
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

        voices  the default (0,) is the highest line of ``score``, as the soprano. Another single
                voice is its track in a file of four tracks, otherwise the highest line (the lowest
                for the bass). Several voices are tracks
        ends    bars in which phrases end

        Raises ``UserError`` for music without notes or with more than four voices, and for a file
        that lacks the ``voices`` or the bars in ``ends``.
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
        """(bar of the file in which a step of the grid lies, 0 for a pick-up; quarter notes from
        the beginning of the bar to the step)."""
        number, since = self.clock.bar((self.first + step) / PER_QUARTER)
        return number - self.clock.pickup, since

    @property
    def bar(self) -> int:
        """Sixteenths in a bar of the meter that lasts longest; the first may be of a pick-up."""
        lengths = np.diff(self.clock.meter_at, append=(self.first + len(self.given)) / PER_QUARTER)
        return max(1, round(float(self.clock.bar_quarters[lengths.argmax()]) * PER_QUARTER))

    @cached_property
    def bar_numbers(self) -> np.ndarray:
        """(T,) int64: the bar of the file in which each step lies (:meth:`bar_at`)."""
        return np.array([self.bar_at(step)[0] for step in range(len(self.given))])

    @property
    def bars(self) -> int:
        """The number of bars of the file that the grid covers, in whole or in part."""
        return int(self.bar_numbers[-1] - self.bar_numbers[0]) + 1

    @cached_property
    def line(self) -> np.ndarray:
        """(n, 2) int64: first and last step (exclusive) of each note of the first given voice."""
        spans = self.given.spans
        return spans[spans[:, 2] == self.voices[0], :2]

    def phrase_ends(self) -> list[tuple[int, int]]:
        """First and last step (exclusive) of the last note of each phrase except the last phrase.

        With ``ends``, it is the longest note that sounds in each of these bars (the last one of
        equal notes). Else with fermatas, it is the notes under them. Else it is the longest note of
        a bar, counted without a pick-up: of bars 4, 8, ..., if it is at least as long as the mean
        of the earlier notes of its phrase; of bars 2, 6, ..., if it is at least twice as long.
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
        number = bars - first_bar + (not offset and not is_short)
        chosen, phrase_start = set[int](), 0  # indices of notes
        for bar in range(2, int(number.max()), 2):
            note = self._longest(number == bar)
            if note <= phrase_start:  # no note before it in this phrase
                continue
            lengths = np.diff(self.line[phrase_start : note + 1]).ravel()
            if lengths[-1] >= lengths[:-1].mean() * (1 if bar % 4 == 0 else 2):
                chosen.add(note)
                phrase_start = note + 1
        return chosen

    def position_name(self, step: int) -> str:
        """The bar and beat of the file at a step of the grid, such as ``bar 2 beat 1.5``."""
        bar, offset = self.bar_at(step)
        quarters = (self.first + step) / PER_QUARTER
        meter = np.searchsorted(self.clock.meter_at, quarters + 1e-6, side="right") - 1
        beat = 1 + offset * self.clock.meters["denominator"][meter] / 4
        return f"bar {bar} beat {beat:g}"

    def remarks(self) -> list[str]:
        """Remarks on the melody, for the user."""
        lines = []
        if self.shift:
            octaves, direction = abs(self.shift) // 12, "up" if self.shift > 0 else "down"
            distance = "an octave" if octaves == 1 else f"{octaves} octaves"
            voice = VOICES[self.voices[0]]
            lines.append(
                f"the tune was moved {direction} by {distance}, into the range of a {voice}"
            )
        start = self.clock.quarters(self.score.notes["start"]) * PER_QUARTER
        if off := int((np.abs(start - np.round(start)) > OFF_SIXTEENTHS).sum()):
            lines.append(
                f"{off} of its {len(self.score)} notes do not begin on a sixteenth "
                "(triplets?); the other voices have sixteenths only"
            )
        return lines

    def composed_notes(self, grid: Grid) -> Grid:
        """The notes of ``grid`` that are not given; one tied to a given note begins after it."""
        free = ~self.fixed
        tied = grid.tied & free
        tied[1:] &= free[:-1]
        return Grid(np.where(free, grid.pitches, SILENCE), tied)

    def to_score(self, grid: Grid) -> Score:
        """The file with all voices of ``grid`` and no drums. Tempos, meters and the silence before
        the first note stay, and so do the exact notes of a melody without chords."""
        notes = self.score.notes[~self.score.notes["drum"]]
        new = grids.to_notes(grid, self.clock, self.first)
        is_single_line = len(self.voices) == 1 and bool(
            np.all(notes["start"][1:] >= notes["end"][:-1] - 0.02)
        )
        new["velocity"] = int(np.median(notes["velocity"]))
        new["program"] = notes["program"][0]
        if is_single_line:
            melody = notes.copy()
            melody["pitch"] += np.uint8(self.shift % 256)  # wraps around: may subtract
            melody["track"] = self.voices[0]
            new = np.concatenate([melody, new[new["track"] != self.voices[0]]])
        return dataclasses.replace(
            self.score, notes=new, pedals=self.score.pedals[:0], names=grids.TRACK_NAMES
        )


class Gap(Tune):
    """A file of four tracks in which the notes that begin in one time span are composed again."""

    @classmethod
    def between(cls, score: Score, begin: float, end: float, tracks: Sequence[int]) -> Gap:
        """The gap on ``tracks`` from ``begin`` to ``end`` seconds. Raises ``UserError`` for a file
        without exactly four tracks, and if the gap contains no notes or all notes.
        """
        voice_tracks = grids.tracks_from_high_to_low(score.notes)
        if len(voice_tracks) != len(VOICES):
            raise UserError(
                f"file: {len(voice_tracks)} tracks, expected four, one for each voice, for a model "
                "of chorales"
            )
        given = grids.read(score)[0]
        start, stop = grids.to_steps(score, np.array([begin, end])) - grids.first_step(score)
        onset = grids.fill_ties(np.indices(given.tied.shape)[0], given.tied)
        is_composed = np.isin(voice_tracks, tracks)
        free = (onset >= start) & (onset < stop) & is_composed
        if not free.any() or free.all():
            problem = "nothing begins there" if not free.any() else "nothing would stay"
            raise UserError(f"from, to: {problem}; expected some bars of the file, not all")
        voices = tuple(np.flatnonzero(~is_composed).tolist()) or (0,)
        return cls(score, given, voices, ~free, _key(given.pitches[:, 0]))

    def to_score(self, grid: Grid) -> Score:
        """The file, with the notes of the gap replaced by those of ``grid``."""
        notes = self.score.notes
        new = grids.to_notes(self.composed_notes(grid), self.clock, self.first)
        steps = grids.to_steps(self.score, notes["start"]) - self.first
        steps = np.clip(steps, 0, len(grid) - 1)
        keep = np.ones(len(notes), bool)
        tracks = grids.tracks_from_high_to_low(notes)
        for voice, track in enumerate(tracks):
            on_track, in_voice = (notes["track"] == track) & ~notes["drum"], new["track"] == voice
            keep &= ~on_track | self.fixed[steps, voice]
            new["velocity"][in_voice] = int(np.median(notes["velocity"][on_track]))
            new["program"][in_voice] = notes["program"][on_track][0]
        new["track"] = np.array(tracks, new["track"].dtype)[new["track"]]
        return self.score.with_notes(np.concatenate([notes[keep], new]))


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
    pitches = np.full_like(grid.pitches, SILENCE)
    tied = np.zeros_like(grid.tied)
    top = grid.pitches.argmax(axis=1)
    if voice == len(VOICES) - 1:
        top = np.where(grid.pitches >= 0, grid.pitches, 128).argmin(axis=1)
    steps = np.arange(len(grid))
    pitches[:, voice] = grid.pitches[steps, top]
    line = pitches[:, voice]
    is_same = np.zeros(len(grid), bool)
    is_same[1:] = (line[1:] == line[:-1]) & (top[1:] == top[:-1])
    tied[:, voice] = grid.tied[steps, top] & is_same
    rests = np.flatnonzero((line[1:-1] < 0) & (line[:-2] >= 0) & (line[2:] >= 0)) + 1
    line[rests], tied[rests, voice] = line[rests - 1], True
    sounding = line[line >= 0]
    low, high = RANGES[voice]

    def steps_outside(shift: int) -> tuple[int, int]:
        return int(((sounding + shift < low) | (sounding + shift > high)).sum()), abs(shift)

    shift = min(range(-48, 49, 12), key=steps_outside)
    pitches[:, voice] = np.where(line >= 0, line + shift, SILENCE)
    return Grid(pitches, tied), shift
