"""What is to be harmonised: its notes on the grid, its bars, its key, and the file it came in."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musictx.beats import Beats
from musictx.chorale import grid as four
from musictx.chorale import voice_leading
from musictx.chorale.grid import PER_QUARTER, RANGES, SILENCE, VOICES, Grid
from musictx.errors import UserError
from musictx.evaluate import keys
from musictx.notes import Score

#: Notes further than this from a sixteenth, in sixteenths, do not fit the grid.
OFF_SIXTEENTHS = 0.12


@dataclass(frozen=True)
class Tune:
    """given   the notes of the file on the grid, in the voices that they belong to
    voices  which voices are given, 0 = soprano: usually one, the melody
    fixed   (T, 4) bool: which notes of ``given`` stay
    shift   semitones, whole octaves, by which a single voice was moved into its range
    first   the sixteenth of the file at which the grid begins
    clock   the beats and bars of the file;  key  of the whole melody
    off     notes of the file that do not stand on sixteenths
    score   the file
    ends    bars in which phrases end; none: as the fermatas of the file say, or its long notes
    """

    given: Grid
    voices: tuple[int, ...]
    fixed: np.ndarray
    shift: int
    first: int
    clock: Beats
    key: keys.Key | None
    off: int
    score: Score
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
        clock, first = four.beats(score), four.first_step(score)
        bars = {clock.bar((first + step) / PER_QUARTER)[0] for step in range(len(given))}
        if missing := sorted(set(ends) - bars):
            raise UserError(f"phrase_ends={missing[0]}: expected bars of 1-{max(bars)}")
        fixed = np.zeros(given.pitches.shape, bool)
        fixed[:, voices] = True
        given = Grid(np.where(fixed, given.pitches, SILENCE), given.tied & fixed)
        start = clock.quarters(score.notes["start"]) * PER_QUARTER
        off = int((np.abs(start - np.round(start)) > OFF_SIXTEENTHS).sum())
        key = keys.of_melody(given.pitches[:, voices[0]])
        return cls(given, voices, fixed, shift, first, clock, key, off, score, tuple(ends))

    @property
    def bar(self) -> int:
        """Sixteenths in a bar, by the meter that holds longest: the first may be of a pick-up."""
        held = np.diff(self.clock.meter_at, append=(self.first + len(self.given)) / PER_QUARTER)
        return max(1, round(float(self.clock.bar_quarters[held.argmax()]) * PER_QUARTER))

    @property
    def bars(self) -> int:
        """How many bars of the file it touches."""
        first, _ = self.clock.bar(self.first / PER_QUARTER)
        last, _ = self.clock.bar((self.first + len(self.given) - 1) / PER_QUARTER)
        return last - first + 1

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
        places = [self.clock.bar((self.first + s) / PER_QUARTER) for s in range(len(line))]
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
                under = [self._step(time) for time in self.score.fermatas]
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

    def _step(self, seconds: float) -> int:
        """The step of the grid that begins at a time in the file."""
        return round(float(self.clock.quarters(seconds)) * PER_QUARTER) - self.first

    def where(self, step: int) -> str:
        """A step of the grid as musicians count it in the file: ``bar 2 beat 1.5``."""
        quarters = (self.first + step) / PER_QUARTER
        bar, since = self.clock.bar(quarters)
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
        if self.off:
            lines.append(
                f"{self.off} of its {len(self.score)} notes do not begin on a sixteenth "
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
    goes_on = np.zeros(len(grid), bool)
    goes_on[1:] = (line[1:] == line[:-1]) & (top[1:] == top[:-1])
    tied[:, voice] = grid.tied[steps, top] & goes_on
    breath = np.flatnonzero((line[1:-1] < 0) & (line[:-2] >= 0) & (line[2:] >= 0)) + 1
    line[breath], tied[breath, voice] = line[breath - 1], True
    sung = line[line >= 0]
    low, high = RANGES[voice]

    def outside(shift: int) -> tuple[int, int]:
        return int(((sung + shift < low) | (sung + shift > high)).sum()), abs(shift)

    shift = min(range(-48, 49, 12), key=outside)
    pitches[:, voice] = np.where(line >= 0, line + shift, SILENCE)
    return Grid(pitches, tied), shift


class Form:
    """Soft constraints of a filter, in faults, that follow from a whole melody:

    - the first chord is of the scale, its bass the tonic or the dominant;
    - the last bass is the tonic, where the melody's last note lets it be: a piece that ends away
      from home counts as much as several faults;
    - phrases end as pieces do (:func:`musictx.chorale.voice_leading.closes`), on the tonic or not;
    - no voice stands still for two bars while others move, and each further bar counts again.
    """

    #: Bars after which a voice that stands still counts.
    STILL = 2
    #: Faults that an end away from the tonic counts for.
    AWAY = 3

    def __init__(self, tune: Tune) -> None:
        self.key, self.bar, self.voices = tune.key, tune.bar, tune.voices
        self.phrases = tune.phrases()
        line = tune.given.pitches[:, tune.voices[0]]
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
        if self.key is not None and step == self.opening and voice not in self.voices:
            costs += self._opens(choices, voice)
        home = self.ends_home and voice == len(VOICES) - 1 and voice not in self.voices
        if home and step >= self.last:
            costs += self._astray(choices)
            if step > self.last:  # a step ago it was not yet the end
                costs -= self._astray(table[:, step - 1, voice])[:, None]
        if voice not in self.voices and step:
            costs += self._still(table[:, :step], voice)[:, None] * (
                choices == table[:, step - 1, voice, None]
            )
        return costs

    def faults(self, pitches: np.ndarray) -> float:
        """The same of a whole piece (T, 4)."""
        total = float(sum(not voice_leading.closes(pitches[:stop]) for _, stop in self.phrases))
        for step in range(len(pitches)):
            for voice in range(len(VOICES)):
                choice = pitches[None, step, voice, None]
                total += float(self.costs(pitches[None], choice, step, voice)[0, 0])
        return total

    def open_at(self, pitches: np.ndarray) -> list[int]:
        """The steps at which phrases, and the piece (T, 4), end without closing, or away from home:
        what could be written anew."""
        ends = [*self.phrases, (self.last, len(pitches))]
        places = [start for start, stop in ends if not voice_leading.closes(pitches[:stop])]
        if self.ends_home and self._astray(pitches[-1:, -1]).any():
            places.append(self.last)
        return places

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
        return self.AWAY * (pitches % 12 != self.key.tonic).astype(float)

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
