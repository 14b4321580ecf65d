"""Scores for tests, from short rows."""

from collections import Counter

import numpy as np

from musictx.notes import Score


def score(rows, *, bpm: float = 120.0, meter: tuple[int, int] = (4, 4), **more) -> Score:
    """Of rows (start, end, pitch, velocity, program, drum, track), with the marks of a sequencer's
    file."""
    marks = {"tempos": [(0.0, bpm)], "meters": [(0.0, *meter)], "ticks_per_quarter": 480}
    return Score(sorted(rows), **marks | more)


def of(*rows, **marks) -> Score:
    """Of rows (start, end, pitch), or longer ones: what they leave out is as usual. No marks."""
    usual = (0.0, 0.0, 60, 64, 0, False, 0)
    return Score([(*row, *usual[len(row) :]) for row in rows], **marks)


def line(*pitches: int, every: float = 0.5, length: float | None = None, track: int = 0) -> Score:
    """Notes one after the other on a track, without marks."""
    length = every if length is None else length
    return Score(
        [(n * every, n * every + length, pitch, 80, 0, False, track)
         for n, pitch in enumerate(pitches)]
    )  # fmt: skip


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
