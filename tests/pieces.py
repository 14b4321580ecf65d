"""Scores from short rows, and notes in a form that tests can compare."""

from collections import Counter

import numpy as np

from musictx.notes import Score


def of(*rows, **marks) -> Score:
    """Return a score of rows (start, end, pitch, velocity, program, drum, track). Fields that a row
    lacks at its end are those of a piano note of velocity 64. ``marks``: tempos, meters, etc."""
    defaults = (0.0, 0.0, 60, 64, 0, False, 0)
    return Score([(*row, *defaults[len(row) :]) for row in rows], **marks)


def score(rows, *, bpm: float = 120.0, meter: tuple[int, int] = (4, 4), **more) -> Score:
    """Return a score of sorted rows with a tempo, a meter and ticks, as a sequencer's file has."""
    marks = {"tempos": [(0.0, bpm)], "meters": [(0.0, *meter)], "ticks_per_quarter": 480}
    return of(*sorted(rows), **marks | more)


def line(*pitches: int, every=0.5, length=None, velocity=80, program=0, track=0, **marks) -> Score:
    """Return notes one after the other on a track; a note begins every ``every`` seconds."""
    length = every if length is None else length
    starts = (n * every for n in range(len(pitches)))
    rows = [(start, start + length, pitch) for start, pitch in zip(starts, pitches)]
    return of(*((*row, velocity, program, False, track) for row in rows), **marks)


def waltz(bars: int = 6) -> Score:
    """Return bars of 3/4 at 96 bpm: a tune, chords and drums, each on a track."""
    beat = 60 / 96
    rows = [(beat * i, beat * (i + 0.75), 72 + i % 5, 90, 0, False, 0) for i in range(3 * bars)]
    for i in range(bars):
        rows += [(beat * 3 * i, beat * (3 * i + 2), 48 + 4 * k, 55, 0, False, 1) for k in range(3)]
        rows += [(beat * 3 * i, beat * (3 * i + 0.25), 36, 80, 0, True, 2)]
    names = {0: "Melody", 1: "Piano"}
    return score(rows, bpm=96.0, meter=(3, 4), keys=[(0.0, 0, False)], names=names)


def together(*scores: Score, **marks) -> Score:
    """Return the notes of several scores as one :func:`score`."""
    return score([note for part in scores for note in part.notes.tolist()], **marks)


def listed(notes: np.ndarray) -> Counter:
    """Count equal notes."""
    return Counter(tuple(note) for note in notes.tolist())


def outside(score: Score, begin: float, end: float, tracks: tuple[int, ...]) -> Counter:
    """Count the notes, without those that begin from ``begin`` to ``end`` s on ``tracks``."""
    notes = score.notes
    inside = (notes["start"] > begin - 1e-6) & (notes["start"] < end - 1e-6)
    return listed(notes[~(inside & np.isin(notes["track"], tracks))])


def of_track(score: Score, name: str) -> np.ndarray:
    """Return the notes of the tracks with this name."""
    tracks = [track for track, its_name in score.names.items() if its_name == name]
    return score.notes[np.isin(score.notes["track"], tracks)]
