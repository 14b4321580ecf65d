"""Four voices on a grid of sixteenths: Score <-> Grid.

The usual form for machine learning (Allan & Williams 2005, Boulanger-Lewandowski et al. 2012): the
pitch that sounds in every sixteenth and every voice (soprano, alto, tenor, bass).
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

#: Track number -> track name.
TRACK_NAMES = dict(enumerate(name.capitalize() for name in VOICES))
SILENCE = -1
#: Steps per quarter note; default quarter notes per minute. A step is 150 ms, a multiple of 10 ms.
PER_QUARTER = 4
BPM = 100.0
STEP_SECONDS = 60.0 / BPM / PER_QUARTER
VELOCITY = 80
#: Lowest and highest note of each voice: C4-A5, F3-D5, C3-G4, D2-D4. Textbooks give C4-G5, G3-D5,
#: C3-G4, E2-C4, some a tone more or less. 0.1 % of the notes of the chorales lie outside.
RANGES = ((60, 81), (53, 74), (48, 67), (38, 62))
#: The assumed pitch of each voice before its first note: the middle of its range.
_MIDDLE = np.array([71, 65, 59, 50])


@dataclass(frozen=True)
class Grid:
    """A chorale as a table: a row for each sixteenth (step), a column for each voice, S A T B.

    pitches  (T, 4) int64; -1: silence
    tied     (T, 4) bool: the note of the previous step is held; false in the first step, in
             silence, and wherever the pitch differs from that of the previous step
    """

    pitches: np.ndarray
    tied: np.ndarray

    @classmethod
    def from_pitches(cls, pitches: np.ndarray) -> Grid:
        """A grid without repeated notes: successive equal pitches are one held note."""
        pitches = np.asarray(pitches, np.int64).reshape(-1, len(VOICES))
        tied = np.zeros(pitches.shape, bool)
        tied[1:] = (pitches[1:] == pitches[:-1]) & (pitches[1:] >= 0)
        return cls(pitches, tied)

    def __len__(self) -> int:
        return len(self.pitches)

    @property
    def onsets(self) -> np.ndarray:
        """(T, 4) bool: where notes begin."""
        return (self.pitches >= 0) & ~self.tied

    @property
    def spans(self) -> np.ndarray:
        """(n, 3) int64: the first step, the step after the last one, and the voice of each note,
        sorted by first step, then by voice."""
        step, voice = np.nonzero(self.onsets)
        # A note lasts until its voice's next step that is not tied to it.
        untied = np.vstack([~self.tied, np.ones((1, len(VOICES)), bool)])
        end = np.where(untied, np.arange(len(untied))[:, None], len(self))
        end = np.minimum.accumulate(end[::-1])[::-1]
        return np.stack([step, end[step + 1, voice], voice], axis=1)

    def starting_at(self, step: int) -> Grid:
        """The chorale from ``step`` on; a note that is held at ``step`` begins there."""
        tied = self.tied[step:].copy()
        tied[:1] = False
        return Grid(self.pitches[step:], tied)


def read(
    score: Score, voices: tuple[int, ...] = tuple(range(len(VOICES)))
) -> tuple[Grid, Counter[str]]:
    """Return the four voices of ``score``, and {reason: number of notes changed or left out}.

    Times are converted to quarter notes by the tempos of the score and rounded to sixteenths. A
    note lasts at least one step. Whole beats of silence before the first note are dropped.

    If there are as many pitched tracks as ``voices``, each track is one of them, from high to low
    by mean pitch; other voices are silent. A note ends at the latest where the next note of its
    track begins. Otherwise all tracks are merged, and the notes of each step are assigned from high
    to low to the four voices, such that held notes stay in their voices and the voices move least.
    Raises ``UserError`` if more than four notes sound at once then, and for a score without pitched
    notes.
    """
    report: Counter[str] = Counter()
    notes = score.notes
    if notes["drum"].any():
        report["drum notes left out"] = int(notes["drum"].sum())
        notes = notes[~notes["drum"]]
    if not len(notes):
        raise UserError("there are no pitched notes in it")
    start, end = to_steps(score, notes["start"]), to_steps(score, notes["end"])
    first = first_step(score)
    start, end = start - first, np.maximum(end, start + 1) - first
    tracks = tracks_from_high_to_low(notes)
    if len(tracks) == len(voices):
        distinct = np.unique(np.stack([notes["track"], start]), axis=1)
        if simultaneous := len(notes) - distinct.shape[1]:
            report["notes struck together in one voice"] = simultaneous
        return _by_track(notes, start, end, dict(zip(tracks, sorted(voices)))), report
    return _by_height(notes["pitch"].astype(int), start, end), report


def beats(score: Score) -> Beats:
    """The beats of ``score``; without a tempo mark its tempo is :data:`BPM`."""
    return Beats(score, bpm=BPM)


def to_steps(score: Score, seconds: np.ndarray) -> np.ndarray:
    """Convert seconds to sixteenths from the start of ``score``, by its tempos; rounded, int64."""
    return np.floor(beats(score).quarters(seconds) * PER_QUARTER + 0.5).astype(np.int64)


def first_step(score: Score) -> int:
    """The sixteenth of ``score`` at which its grid begins, at the beat of the first note."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return 0
    return int(to_steps(score, notes["start"]).min()) // PER_QUARTER * PER_QUARTER


def tracks_from_high_to_low(notes: np.ndarray) -> list[int]:
    """The numbers of the tracks with pitched notes, in descending order of their mean pitch."""
    notes = notes[~notes["drum"]]
    tracks: list[int] = np.unique(notes["track"]).tolist()
    return sorted(tracks, key=lambda t: -notes["pitch"][notes["track"] == t].mean())


def fill_ties(pitches: np.ndarray, tied: np.ndarray) -> np.ndarray:
    """``pitches`` (..., T, 4) with each ``tied`` entry replaced by the last untied pitch of its
    voice; the first step counts as untied."""
    steps = np.arange(pitches.shape[-2])[:, None]
    onsets = np.maximum.accumulate(np.where(tied, 0, steps), axis=-2)
    return np.take_along_axis(pitches, onsets, axis=-2)


def last_change(pitches: np.ndarray) -> int:
    """The last step of ``pitches`` (T, n) that differs from the step before; 0 without one."""
    changes = np.flatnonzero((pitches[1:] != pitches[:-1]).any(axis=1))
    return int(changes[-1]) + 1 if len(changes) else 0


def write(grid: Grid, *, bpm: float = BPM) -> Score:
    """Convert to a Score of four tracks, soprano first, at ``bpm`` quarter notes per minute."""
    score = Score(tempos=np.array([(0.0, bpm)], TEMPO), names=TRACK_NAMES, ticks_per_quarter=480)
    return score.with_notes(to_notes(grid, score.beats))


def to_notes(grid: Grid, clock: Beats, first: int = 0) -> np.ndarray:
    """Convert to an array of notes (:data:`musictx.notes.NOTE`), sorted by start, then by voice.
    Step 0 of ``grid`` is the sixteenth ``first`` of ``clock``. Track 0 is the soprano."""
    step, stop, voice = grid.spans.T
    table = np.zeros(len(step), NOTE)
    table["start"] = clock.seconds((first + step) / PER_QUARTER)
    table["end"] = clock.seconds((first + stop) / PER_QUARTER)
    table["pitch"], table["velocity"], table["track"] = grid.pitches[step, voice], VELOCITY, voice
    return table


def _by_track(notes: np.ndarray, start: np.ndarray, end: np.ndarray, voice_of: dict) -> Grid:
    """``voice_of`` is {track: voice}."""
    pitches = np.full((end.max(), len(VOICES)), SILENCE, np.int64)
    tied = np.zeros(pitches.shape, bool)
    order = np.lexsort((notes["pitch"], start))
    notes, start, end = notes[order], start[order], end[order]
    for track, voice in voice_of.items():
        on_track = notes["track"] == track
        starts = start[on_track]
        # Where notes begin together, only the highest has a positive length.
        ends = np.minimum(end[on_track], np.append(starts[1:], end.max()))
        for first, stop, pitch in zip(starts, ends, notes["pitch"][on_track]):
            pitches[first:stop, voice] = pitch
            tied[first + 1 : stop, voice] = True
    return Grid(pitches, tied)


def _by_height(pitch: np.ndarray, start: np.ndarray, end: np.ndarray) -> Grid:
    pitches = np.full((end.max(), len(VOICES)), SILENCE, np.int64)
    tied = np.zeros(pitches.shape, bool)
    last_pitches = _MIDDLE.copy()
    voice_of: dict[int, int] = {}  # sounding note -> its voice
    for step in range(len(pitches)):
        sounding = np.flatnonzero((start <= step) & (step < end))
        if len(sounding) > len(VOICES):
            raise UserError(
                f"{len(sounding)} notes sound at once at quarter note {step / PER_QUARTER + 1:g}; "
                "expected at most four voices"
            )
        order = sounding[np.argsort(-pitch[sounding], kind="stable")]
        assignment = min(  # of equally good ones, the first: the highest voices
            combinations(range(len(VOICES)), len(order)),
            key=lambda voices: (
                sum(voice_of.get(n, v) != v for n, v in zip(order.tolist(), voices)),
                np.abs(pitch[order] - last_pitches[list(voices)]).sum(),
            ),
        )
        previous, voice_of = voice_of, dict(zip(order.tolist(), assignment))
        for note, voice in voice_of.items():
            pitches[step, voice] = last_pitches[voice] = pitch[note]
            tied[step, voice] = previous.get(note) == voice
    return Grid(pitches, tied)
