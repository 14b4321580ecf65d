"""Four voices on a grid of sixteenths: Score <-> Grid.

The form in which chorales are studied (Allan & Williams 2005, Boulanger-Lewandowski et al. 2012):
for every sixteenth note and every voice - soprano, alto, tenor, bass - the pitch that sounds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from musictx.beats import Beats
from musictx.chorale.config import VOICES as VOICES
from musictx.errors import UserError
from musictx.notes import NOTE, TEMPO, Score

#: Track -> name, in files.
NAMES = dict(enumerate(name.capitalize() for name in VOICES))
SILENCE = -1
#: Steps in a quarter note; quarter notes a minute by default: steps of 150 ms.
PER_QUARTER = 4
BPM = 100.0
STEP_SECONDS = 60.0 / BPM / PER_QUARTER
VELOCITY = 80
#: Lowest and highest note of each voice: C4-A5, F3-D5, C3-G4, D2-D4. Textbooks give C4-G5, G3-D5,
#: C3-G4, E2-C4, some a tone more or less; of the notes of the chorales 0.1 % lie outside.
RANGES = ((60, 81), (53, 74), (48, 67), (38, 62))
#: The assumed pitch of each voice before its first note: the middle of its range.
_MIDDLE = np.array([71, 65, 59, 50])


@dataclass(frozen=True)
class Grid:
    """pitches (T, 4) int64, S A T B for each sixteenth, -1 = silence; tied (T, 4) bool: the note of
    the step before is held. Nothing is tied in the first step, and only equal pitches are."""

    pitches: np.ndarray
    tied: np.ndarray

    @classmethod
    def joined(cls, pitches: np.ndarray) -> Grid:
        """A grid without repeated notes: equal pitches in a row are one held note."""
        pitches = np.asarray(pitches, np.int64).reshape(-1, len(VOICES))
        tied = np.zeros(pitches.shape, bool)
        tied[1:] = (pitches[1:] == pitches[:-1]) & (pitches[1:] >= 0)
        return cls(pitches, tied)

    def __len__(self) -> int:
        return len(self.pitches)


def read(
    score: Score, voices: tuple[int, ...] = tuple(range(len(VOICES)))
) -> tuple[Grid, Counter[str]]:
    """The four voices of ``score``, and what could not be kept: reason -> number of notes.

    Times are counted in quarter notes by the score's tempos and rounded to sixteenths; a note
    lasts a step at least. Silence before the first note is dropped in whole beats. If there are
    as many pitched tracks as ``voices``, each track is one voice, from high to low by mean pitch,
    and a note ends at the latest where the next note of its track begins. Otherwise all tracks are
    taken together, and the notes of each step, from high to low, go to the voices that have to move
    least. Raises ``UserError`` where more
    than four sound at once, and for a score without pitched notes.
    """
    lost: Counter[str] = Counter()
    notes = score.notes
    if notes["drum"].any():
        lost["drum notes left out"] = int(notes["drum"].sum())
        notes = notes[~notes["drum"]]
    if not len(notes):
        raise UserError("there are no pitched notes in it")
    start, end = steps(score, notes["start"]), steps(score, notes["end"])
    first = first_step(score)
    start, end = start - first, np.maximum(end, start + 1) - first
    if len(np.unique(notes["track"])) == len(voices):
        return _by_track(notes, start, end, voices, lost), lost
    return _by_height(notes, start, end), lost


def beats(score: Score) -> Beats:
    """The clock of ``score``, in the tempo of chorales where it has no mark."""
    return Beats(score, bpm=BPM)


def steps(score: Score, seconds: np.ndarray) -> np.ndarray:
    """Times in seconds as whole sixteenths from the start of ``score``, by its tempos: int64."""
    return np.floor(beats(score).quarters(seconds) * PER_QUARTER + 0.5).astype(np.int64)


def first_step(score: Score) -> int:
    """The sixteenth of ``score`` with which its grid begins: the beat of the first note."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return 0
    return int(steps(score, notes["start"]).min()) // PER_QUARTER * PER_QUARTER


def tracks(notes: np.ndarray) -> list[int]:
    """The tracks of ``notes`` that have pitched ones, from high to low by their mean pitch."""
    notes = notes[~notes["drum"]]
    means = {
        t: notes["pitch"][notes["track"] == t].mean() for t in np.unique(notes["track"]).tolist()
    }
    return sorted(means, key=lambda track: (-means[track], track))


def write(grid: Grid, *, bpm: float = BPM) -> Score:
    """A Score of four tracks, soprano first; tied steps are one note."""
    marks = Score(tempos=np.array([(0.0, bpm)], TEMPO), names=NAMES, ticks_per_quarter=480)
    return marks.with_notes(notes(grid, marks.beats))


def notes(grid: Grid, clock: Beats, first: int = 0) -> np.ndarray:
    """The notes of ``grid``, its first step being the sixteenth ``first`` of ``clock``; track 0 is
    the soprano. Notes of one moment stand from soprano to bass."""
    at, voice = np.nonzero((grid.pitches >= 0) & ~grid.tied)
    # A note lasts until its voice's next step that is not tied to it.
    over = np.vstack([~grid.tied, np.ones((1, len(VOICES)), bool)])
    stop = np.where(over, np.arange(len(over))[:, None], len(grid))
    stop = np.minimum.accumulate(stop[::-1])[::-1]
    table = np.zeros(len(at), NOTE)
    table["start"] = clock.seconds((first + at) / PER_QUARTER)
    table["end"] = clock.seconds((first + stop[at + 1, voice]) / PER_QUARTER)
    table["pitch"], table["velocity"], table["track"] = grid.pitches[at, voice], VELOCITY, voice
    return table


def _by_track(
    notes: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    voices: tuple[int, ...],
    lost: Counter[str],
) -> Grid:
    pitches = np.full((end.max(), len(VOICES)), SILENCE, np.int64)
    tied = np.zeros(pitches.shape, bool)
    for voice, track in zip(sorted(voices), tracks(notes)):
        of_track = np.flatnonzero(notes["track"] == track)
        of_track = of_track[np.lexsort((notes["pitch"][of_track], start[of_track]))]
        starts = start[of_track]
        # Of notes that begin together the highest stays.
        stays = np.append(starts[1:] > starts[:-1], True)
        if not stays.all():
            lost["notes struck together in one voice"] += int((~stays).sum())
        of_track, starts = of_track[stays], starts[stays]
        ends = np.minimum(end[of_track], np.append(starts[1:], end.max()))
        for a, b, pitch in zip(starts, ends, notes["pitch"][of_track]):
            pitches[a:b, voice] = pitch
            tied[a + 1 : b, voice] = True
    return Grid(pitches, tied)


def _by_height(notes: np.ndarray, start: np.ndarray, end: np.ndarray) -> Grid:
    pitches = np.full((end.max(), len(VOICES)), SILENCE, np.int64)
    tied = np.zeros(pitches.shape, bool)
    last = _MIDDLE.copy()
    held: dict[int, int] = {}  # note -> voice
    for t in range(len(pitches)):
        sounding = np.flatnonzero((start <= t) & (t < end))
        if len(sounding) > len(VOICES):
            raise UserError(
                f"{len(sounding)} notes sound at once at quarter note {t / PER_QUARTER + 1:g}; "
                "expected four voices at most"
            )
        order = sounding[np.argsort(-notes["pitch"][sounding].astype(int), kind="stable")]
        heights = notes["pitch"][order].astype(int)
        places = min(
            combinations(range(len(VOICES)), len(order)),
            key=lambda c: (
                sum(held.get(int(n), v) != v for n, v in zip(order, c)),
                int(np.abs(heights - last[list(c)]).sum()),
                c,
            ),
        )
        before, held = held, {}
        for note, voice, pitch in zip(order.tolist(), places, heights):
            pitches[t, voice], last[voice], held[note] = pitch, pitch, voice
            tied[t, voice] = before.get(note) == voice
    return Grid(pitches, tied)
