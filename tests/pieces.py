"""Scores for tests, from short rows."""

from collections import Counter

import numpy as np

from musictx.notes import Score


def of(*rows, **marks) -> Score:
    """A score of rows (start, end, pitch, velocity, program, drum, track), where the end of a row
    may be left out for a piano note of velocity 64. No marks but ``marks``."""
    usual = (0.0, 0.0, 60, 64, 0, False, 0)
    return Score([(*row, *usual[len(row) :]) for row in rows], **marks)


def score(rows, *, bpm: float = 120.0, meter: tuple[int, int] = (4, 4), **more) -> Score:
    """:func:`of` these rows, sorted, with the marks of a sequencer's file."""
    marks = {"tempos": [(0.0, bpm)], "meters": [(0.0, *meter)], "ticks_per_quarter": 480}
    return of(*sorted(rows), **marks | more)


def line(*pitches: int, every=0.5, length=None, velocity=80, program=0, track=0, **marks) -> Score:
    """Notes one after the other on a track: one begins ``every`` so many seconds."""
    length = every if length is None else length
    starts = (n * every for n in range(len(pitches)))
    rows = [(start, start + length, pitch) for start, pitch in zip(starts, pitches)]
    return of(*((*row, velocity, program, False, track) for row in rows), **marks)


def together(*scores: Score, **marks) -> Score:
    """The notes of several scores as one, with the marks of :func:`score`."""
    return score([note for one in scores for note in one.notes.tolist()], **marks)


def listed(notes: np.ndarray) -> Counter:
    """How often each note is there, by all that it has."""
    return Counter(tuple(note) for note in notes.tolist())


def outside(score: Score, begin: float, end: float, tracks: tuple[int, ...]) -> Counter:
    """The notes but those that begin in a stretch of some tracks."""
    notes = score.notes
    inside = (notes["start"] > begin - 1e-6) & (notes["start"] < end - 1e-6)
    return listed(notes[~(inside & np.isin(notes["track"], tracks))])


def of_track(score: Score, name: str) -> np.ndarray:
    """The notes of the tracks of this name."""
    tracks = [track for track, named in score.names.items() if named == name]
    return score.notes[np.isin(score.notes["track"], tracks)]
