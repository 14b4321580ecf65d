"""The given notes of a chorale (a melody to be harmonised, or all but a gap), its bars and key."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from musictx import keys
from musictx.beats import Beats
from musictx.chorale import grid as four
from musictx.chorale.grid import PER_QUARTER, RANGES, SILENCE, VOICES, Grid
from musictx.errors import UserError
from musictx.notes import Score

#: Notes further than this from a sixteenth, in sixteenths, do not fit the grid.
OFF_SIXTEENTHS = 0.12


@dataclass(frozen=True)
class Tune:
    """Notes of a file on the grid, of which some stay and the others are to be written.

    score   the file;  given  its notes on the grid, in the voices that they belong to
    voices  which voices are given, 0 = soprano: usually one, the melody
    fixed   (T, 4) bool: which notes of ``given`` stay
    key     of the whole melody
    shift   semitones, whole octaves, by which a single voice was moved into its range
    ends    bars in which phrases end; none: as the fermatas of the file say, or its long notes
    """

    score: Score
    given: Grid
    voices: tuple[int, ...]
    fixed: np.ndarray
    key: keys.Key | None
    shift: int = 0
    ends: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        score: Score,
        voices: tuple[int, ...] = (0,),
        *,
        ends: Sequence[int] = (),
    ) -> Tune:
        """What ``score`` gives of a chorale.

        voices  the soprano: the highest notes of ``score``; another one: its track in a file of
                four, else the highest notes (of a bass the lowest); several: their tracks
        ends    bars in which phrases end

        Raises ``UserError`` for music of more than four voices, for none, and for a file that does
        not have the voices or bars asked for.
        """
        tracks = len(np.unique(score.notes["track"][~score.notes["drum"]]))
        if len(voices) > 1 and tracks not in (len(VOICES), len(voices)):
            raise UserError(f"{tracks} tracks, expected a file of one track for each voice")
        shift = 0
        if tracks == len(VOICES) and voices != (0,):
            given = four.read(score)[0]
        elif len(voices) > 1:
            given = four.read(score, voices)[0]
        else:
            try:
                given, shift = melody_of(four.read(score)[0], voices[0])
            except UserError as error:
                raise UserError(
                    f"{error}; give a file with the melody alone, such as its track, exported from "
                    "your sequencer"
                ) from None
        fixed = np.zeros(given.pitches.shape, bool)
        fixed[:, voices] = True
        given = Grid(np.where(fixed, given.pitches, SILENCE), given.tied & fixed)
        key = keys.of_melody(given.pitches[:, voices[0]])
        tune = cls(score, given, voices, fixed, key, shift, tuple(ends))
        bars = {tune.at(step)[0] for step in range(len(given))}
        if missing := sorted(set(ends) - bars):
            raise UserError(f"phrase_ends={missing[0]}: expected bars of 1-{max(bars)}")
        return tune

    @cached_property
    def clock(self) -> Beats:
        """The beats and bars of the file."""
        return four.beats(self.score)

    @cached_property
    def first(self) -> int:
        """The sixteenth of the file at which the grid begins."""
        return four.first_step(self.score)

    def at(self, step: int) -> tuple[int, float]:
        """The bar of the file in which a step of the grid lies, and the quarters since its line."""
        return self.clock.bar((self.first + step) / PER_QUARTER)

    @property
    def bar(self) -> int:
        """Sixteenths in a bar, by the meter that holds longest: the first may be of a pick-up."""
        held = np.diff(self.clock.meter_at, append=(self.first + len(self.given)) / PER_QUARTER)
        return max(1, round(float(self.clock.bar_quarters[held.argmax()]) * PER_QUARTER))

    @property
    def bars(self) -> int:
        """How many bars of the file the grid covers, in whole or in part."""
        return self.at(len(self.given) - 1)[0] - self.at(0)[0] + 1

    def phrases(self) -> list[tuple[int, int]]:
        """First and last step (exclusive) of the notes with which phrases end, the last one apart.

        Those under a fermata; in each of the bars ``ends``, if there are any, the longest note that
        sounds in it (of equal ones the last). Without either, by the bars of the file, a
        pick-up not counted: in every fourth its longest note, if it is no shorter than the notes
        since the phrase before; in every second one if it is twice as long as they are on average.
        """
        line, tied = self.given.pitches[:, self.voices[0]], self.given.tied[:, self.voices[0]]
        begins = np.flatnonzero((line >= 0) & ~tied)
        ends = np.append(begins[1:], len(line))
        silent = np.append(np.flatnonzero(line < 0), len(line))
        ends = np.minimum(ends, silent[np.searchsorted(silent, begins)])
        places = [self.at(step) for step in range(len(line))]
        bars = np.array([bar for bar, _ in places])

        def longest(inside: np.ndarray) -> int:
            """The longest note that sounds in a bar, -1 if there is none or it is the last."""
            at = np.flatnonzero(inside)
            sounds = np.flatnonzero((begins <= at[-1]) & (ends > at[0])) if len(at) else at
            which = max(sounds, key=lambda n: (ends[n] - begins[n], n), default=-1)
            return int(which) if which < len(begins) - 1 else -1

        if self.ends or self.score.fermatas:
            numbers = {longest(bars == bar) for bar in self.ends}
            if not self.ends:
                quarters = self.clock.quarters(np.array(self.score.fermatas))
                under = (np.round(quarters * PER_QUARTER) - self.first).tolist()
                last = len(begins) - 1
                numbers = {n for n in range(last) if any(begins[n] <= s < ends[n] for s in under)}
            return [(int(begins[n]), int(ends[n])) for n in sorted(numbers) if n >= 0]
        opening, since = places[begins[0]]
        short = (bars[begins[0] :] == opening).sum() < (bars == opening + 1).sum()
        number = bars - opening + (not since and not short)
        phrases: list[tuple[int, int]] = []
        for bar in range(2, int(number.max()), 2):
            which = longest(number == bar)
            if which < 0:
                continue
            begin, end = int(begins[which]), int(ends[which])
            earlier = (begins >= (phrases[-1][1] if phrases else 0)) & (begins < begin)
            usual = float((ends - begins)[earlier].mean()) if earlier.any() else np.inf
            if end - begin >= usual * (1 if bar % 4 == 0 else 2):
                phrases.append((begin, end))
        return phrases

    def where(self, step: int) -> str:
        """A step of the grid as musicians count it in the file: ``bar 2 beat 1.5``."""
        bar, since = self.at(step)
        quarters = (self.first + step) / PER_QUARTER
        meter = np.searchsorted(self.clock.meter_at, quarters + 1e-6, side="right") - 1
        beat = 1 + since * self.clock.meters["denominator"][meter] / 4
        return f"bar {bar} beat {beat:g}"

    def remarks(self) -> list[str]:
        """Remarks on the melody, for the user."""
        lines = []
        if self.shift:
            octaves, way = abs(self.shift) // 12, "up" if self.shift > 0 else "down"
            plural = "an octave" if octaves == 1 else f"{octaves} octaves"
            voice = VOICES[self.voices[0]]
            lines.append(f"the tune was moved {way} by {plural}, into the range of a {voice}")
        start = self.clock.quarters(self.score.notes["start"]) * PER_QUARTER
        if off := int((np.abs(start - np.round(start)) > OFF_SIXTEENTHS).sum()):
            lines.append(
                f"{off} of its {len(self.score)} notes do not begin on a sixteenth "
                "(triplets?); the other voices know sixteenths only"
            )
        return lines

    def harmonised(self, grid: Grid) -> Score:
        """The file with all voices of ``grid``, without drums: tempos, meters and the rest before
        the first note as they were, the melody's notes too where it is a single line."""
        notes = self.score.notes[~self.score.notes["drum"]]
        fresh = four.notes(grid, self.clock, self.first)
        single = len(self.voices) == 1 and bool(
            np.all(notes["start"][1:] >= notes["end"][:-1] - 0.02)
        )
        fresh["velocity"] = int(np.median(notes["velocity"]))
        fresh["program"] = notes["program"][0]
        if single:
            tune = notes.copy()
            tune["pitch"] += np.uint8(self.shift % 256)  # wraps round for a shift downwards
            tune["track"] = self.voices[0]
            fresh = np.concatenate([tune, fresh[fresh["track"] != self.voices[0]]])
        return dataclasses.replace(
            self.score, notes=fresh, pedals=self.score.pedals[:0], names=four.NAMES
        )


class Gap(Tune):
    """What begins in a span of a file of four tracks is to be written anew; all else stays."""

    @classmethod
    def between(cls, score: Score, begin: float, end: float, tracks: Sequence[int]) -> Gap:
        """What begins from ``begin`` to ``end`` seconds on ``tracks``.

        Raises ``UserError`` for other than four tracks and where nothing is to be written, or all.
        """
        of_voices = four.tracks(score.notes)
        if len(of_voices) != len(VOICES):
            raise UserError(
                f"file: {len(of_voices)} tracks, expected four, one for each voice, for a model of "
                "chorales"
            )
        given = four.read(score)[0]
        edges = four.steps(score, np.array([begin, end])) - four.first_step(score)
        step = np.arange(len(given))[:, None]
        onset = np.maximum.accumulate(np.where(given.tied, 0, step))  # where each note begins
        new = np.isin(of_voices, tracks)
        free = (onset >= edges[0]) & (onset < edges[1]) & new
        if not free.any() or free.all():
            what = "nothing begins there" if not free.any() else "nothing would stay"
            raise UserError(f"from, to: {what}; expected some bars of the file, not all")
        stay = tuple(np.flatnonzero(~new).tolist()) or (0,)
        return cls(score, given, stay, ~free, keys.of_melody(given.pitches[:, 0]))

    def harmonised(self, grid: Grid) -> Score:
        """The file, with its free notes replaced by those of ``grid``."""
        free, notes = ~self.fixed, self.score.notes
        tied = grid.tied & free
        tied[1:] &= free[:-1]
        fresh = four.notes(
            Grid(np.where(free, grid.pitches, SILENCE), tied), self.clock, self.first
        )
        steps = four.steps(self.score, notes["start"]) - self.first
        at = np.clip(steps, 0, len(free) - 1)
        keep = np.ones(len(notes), bool)
        of_voices = four.tracks(notes)
        for voice, track in enumerate(of_voices):
            old, new = (notes["track"] == track) & ~notes["drum"], fresh["track"] == voice
            keep &= ~(old & free[at, voice])
            fresh["velocity"][new] = int(np.median(notes["velocity"][old]))
            fresh["program"][new] = notes["program"][old][0]
        fresh["track"] = np.array(of_voices, fresh["track"].dtype)[fresh["track"]]
        return self.score.with_notes(np.concatenate([notes[keep], fresh]))


def melody_of(grid: Grid, voice: int = 0) -> tuple[Grid, int]:
    """The highest line of ``grid`` (for a bass the lowest) as that voice, the others silent; and
    the octaves, in semitones, by which it was moved into the range of that voice.

    A rest of a sixteenth between two notes is breath: the note before it is held.
    """
    pitches = np.full_like(grid.pitches, SILENCE)
    tied = np.zeros_like(grid.tied)
    sounding = np.where(grid.pitches >= 0, grid.pitches, SILENCE)
    top = sounding.argmax(axis=1)
    if voice == len(VOICES) - 1:
        top = np.where(sounding >= 0, sounding, 128).argmin(axis=1)
    steps = np.arange(len(grid))
    pitches[:, voice] = sounding[steps, top]
    line = pitches[:, voice]
    held = np.zeros(len(grid), bool)
    held[1:] = (line[1:] == line[:-1]) & (top[1:] == top[:-1])
    tied[:, voice] = grid.tied[steps, top] & held
    breath = np.flatnonzero((line[1:-1] < 0) & (line[:-2] >= 0) & (line[2:] >= 0)) + 1
    line[breath], tied[breath, voice] = line[breath - 1], True
    sung = line[line >= 0]
    low, high = RANGES[voice]

    def outside(shift: int) -> tuple[int, int]:
        return int(((sung + shift < low) | (sung + shift > high)).sum()), abs(shift)

    shift = min(range(-48, 49, 12), key=outside)
    pitches[:, voice] = np.where(line >= 0, line + shift, SILENCE)
    return Grid(pitches, tied), shift
