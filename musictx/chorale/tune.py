"""A melody to be harmonised: its notes on the grid, its bars, its key, and the file it came in."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from musictx.chorale import grid as four
from musictx.chorale import keys
from musictx.chorale.grid import PER_QUARTER, SILENCE, SUNG, VOICES, Grid
from musictx.notes import Score
from musictx.tokens.beats import Beats

#: Notes further than this from a sixteenth, in sixteenths, do not fit the grid.
OFF = 0.12


@dataclass(frozen=True)
class Tune:
    """given   the melody as a soprano, the other voices silent
    shift   semitones, whole octaves, by which it was moved into the soprano's range
    first   the sixteenth of the file at which the grid begins
    clock   the beats and bars of the file;  key  of the whole melody
    off     notes of the file that do not stand on sixteenths
    score   the file
    """

    given: Grid
    shift: int
    first: int
    clock: Beats
    key: keys.Key | None
    off: int
    score: Score

    @classmethod
    def of(cls, score: Score) -> Tune:
        """The highest notes of ``score``. Raises ``UserError`` for music of more than four voices,
        and for none."""
        given, shift = melody_of(four.read(score)[0])
        clock = Beats(score, bpm=four.BPM)
        start = clock.quarters(score.notes["start"]) * PER_QUARTER
        off = int((np.abs(start - np.round(start)) > OFF).sum())
        key = keys.of_melody(given.pitches[:, 0])
        return cls(given, shift, four.first_step(score), clock, key, off, score)

    @property
    def bar(self) -> int:
        """Sixteenths in a bar, by the first meter."""
        return max(1, round(float(self.clock.bar_quarters[0]) * PER_QUARTER))

    @property
    def bars(self) -> int:
        """How many bars of the file it touches."""
        first, _ = self.clock.bar(self.first / PER_QUARTER)
        last, _ = self.clock.bar((self.first + len(self.given) - 1) / PER_QUARTER)
        return last - first + 1

    def where(self, step: int) -> str:
        """A step of the grid as musicians count it in the file: ``bar 2 beat 1.5``."""
        quarters = (self.first + step) / PER_QUARTER
        bar, since = self.clock.bar(quarters)
        meter = np.searchsorted(self.clock.meter_at, quarters + 1e-6, side="right") - 1
        beat = 1 + since * self.clock.meters["denominator"][meter] / 4
        return f"bar {bar} beat {beat:g}"

    def remarks(self) -> list[str]:
        """What whoever gave the melody should know."""
        told = []
        if self.shift:
            octaves, way = abs(self.shift) // 12, "up" if self.shift > 0 else "down"
            plural = "an octave" if octaves == 1 else f"{octaves} octaves"
            told.append(f"the tune was moved {way} by {plural}, into the range of a soprano")
        if self.off:
            told.append(
                f"{self.off} of its {len(self.score)} notes do not begin on a sixteenth "
                "(triplets?); the other voices know sixteenths only"
            )
        return told

    def harmonised(self, grid: Grid) -> Score:
        """The file with the voices of ``grid`` below its melody: tempos, meters and the rest before
        the first note as they were, the melody's notes too where it is a single line."""
        notes = self.score.notes
        fresh = four.notes(grid, self.clock, self.first)
        single = len(notes) == 1 or bool(np.all(notes["start"][1:] >= notes["end"][:-1] - 0.02))
        fresh["velocity"] = int(np.median(notes["velocity"]))
        fresh["program"] = notes["program"][0]
        if single:
            tune = notes.copy()
            tune["pitch"] += np.uint8(self.shift % 256)  # wraps round for a shift downwards
            tune["track"] = 0
            fresh = np.concatenate([tune, fresh[fresh["track"] > 0]])
        return dataclasses.replace(
            self.score, notes=fresh, pedals=self.score.pedals[:0], names=four.NAMES
        )


def melody_of(grid: Grid) -> tuple[Grid, int]:
    """The highest voice of ``grid`` as a soprano, the other voices silent; and the octaves, in
    semitones, by which it was moved into the soprano's range.

    A rest of a sixteenth between two notes is breath: the note before it is held.
    """
    pitches = np.full_like(grid.pitches, SILENCE)
    tied = np.zeros_like(grid.tied)
    sounding = np.where(grid.pitches >= 0, grid.pitches, -1)
    top = sounding.argmax(axis=1)
    steps = np.arange(len(grid))
    pitches[:, 0] = sounding[steps, top]
    goes_on = np.zeros(len(grid), bool)
    goes_on[1:] = (pitches[1:, 0] == pitches[:-1, 0]) & (top[1:] == top[:-1])
    tied[:, 0] = grid.tied[steps, top] & goes_on
    line = pitches[:, 0]
    breath = np.flatnonzero((line[1:-1] < 0) & (line[:-2] >= 0) & (line[2:] >= 0)) + 1
    line[breath], tied[breath, 0] = line[breath - 1], True
    heard = line[line >= 0]
    low, high = SUNG[0]

    def outside(shift: int) -> tuple[int, int]:
        return int(((heard + shift < low) | (heard + shift > high)).sum()), abs(shift)

    shift = min(range(-48, 49, 12), key=outside)
    pitches[:, 0] = np.where(line >= 0, line + shift, SILENCE)
    return Grid(pitches, tied), shift


class Form:
    """What a whole melody asks of the voices below it, in faults, as soft constraints of a filter:

    - the first chord is of the scale, its bass the tonic or the dominant;
    - the last bass is the tonic, where the melody's last note lets it be;
    - no voice stands still for two bars while others move, and each further bar counts again.
    """

    #: Bars after which a voice that stands still counts.
    STILL = 2

    def __init__(self, tune: Tune, voices: tuple[int, ...] = (0,)) -> None:
        self.key, self.bar, self.given = tune.key, tune.bar, voices
        line = tune.given.pitches[:, 0]
        sounding = np.flatnonzero(line >= 0)
        self.opening = int(sounding[0])
        self.ends_home = False
        if self.key is not None:
            above = (int(line[sounding[-1]]) - self.key.tonic) % 12
            self.ends_home = above in (0, 3, 4, 7)
        changes = np.flatnonzero(line[1:] != line[:-1]) + 1
        self.last = int(changes[-1]) if len(changes) else 0  # the step where the last note begins

    def costs(self, table: np.ndarray, choices: np.ndarray, step: int, voice: int) -> np.ndarray:
        """(B, V): faults that the pitches ``choices`` (B, V) of a voice complete at ``step``, after
        the steps ``table`` (B, >= step, 4)."""
        costs = np.zeros(choices.shape)
        if self.key is not None and step == self.opening and voice not in self.given:
            costs += self._opens(choices, voice)
        if self.ends_home and voice == len(VOICES) - 1 and step >= self.last:
            costs += self._astray(choices)
            if step > self.last:  # a step ago it was not yet the end
                costs -= self._astray(table[:, step - 1, voice])[:, None]
        if voice not in self.given and step:
            costs += self._still(table[:, :step], voice)[:, None] * (
                choices == table[:, step - 1, voice, None]
            )
        return costs

    def faults(self, pitches: np.ndarray) -> float:
        """The same of a whole piece (T, 4)."""
        total = 0.0
        for step in range(len(pitches)):
            for voice in range(len(VOICES)):
                choice = pitches[None, step, voice, None]
                total += float(self.costs(pitches[None], choice, step, voice)[0, 0])
        return total

    def _opens(self, choices: np.ndarray, voice: int) -> np.ndarray:
        assert self.key is not None
        above = (choices - self.key.tonic) % 12
        scale = (0, 2, 4, 5, 7, 9, 11) if self.key.mode == "major" else (0, 2, 3, 5, 7, 8, 11)
        wrong = ~np.isin(above, scale)
        if voice == len(VOICES) - 1:
            wrong |= ~np.isin(above, (0, 7))
        return np.where(choices >= 0, wrong, False).astype(float)

    def _astray(self, pitches: np.ndarray) -> np.ndarray:
        assert self.key is not None
        return (pitches % 12 != self.key.tonic).astype(float)

    def _still(self, table: np.ndarray, voice: int) -> np.ndarray:
        """(B,) whether a voice that stands on for one more step has then stood too long."""
        steps = table.shape[1]
        changed = np.zeros(table.shape, bool)
        changed[:, 1:] = table[:, 1:] != table[:, :-1]
        at = np.arange(steps)[:, None]
        since = np.where(changed, at, 0).max(axis=1)  # (B, 4): each voice's last change
        others = np.delete(since, voice, axis=1).max(axis=1)
        held = steps - since[:, voice]
        over = held - self.STILL * self.bar
        return ((over >= 0) & (over % self.bar == 0) & (others > since[:, voice])).astype(float)
