"""Measures of one piece of any music: the formula, and the values at the edges.

All of them read pitched notes only (drums are left out), take notes to sound as long as they are
written (fold the pedal first: :func:`musictx.pedal.fold_sustain`), and suppose nothing about bars:
performances have none. ``seconds`` is the length of the piece that was asked for, which may be more
than its notes fill. Where a formula would divide 0 by 0 the value is nan, and sets leave it out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.notes import Score, pitched

#: A pattern is stuck only after so many turns: trills and accompaniments repeat a few times.
TURNS = 4
#: A run of so many melodic intervals returns if it comes again after more than so many seconds.
RUN_INTERVALS, RETURN_SECONDS = 8, 8.0
#: A tower is of so many notes of one part or more, struck within so many seconds.
TOWER_NOTES, TOWER_SECONDS = 6, 0.02


# -------------------------------------------------------------------------------------------- time


def density(score: Score, seconds: float) -> float:
    """Notes a second of ``seconds``. Empty: 0; one note: 1 / seconds."""
    return len(pitched(score)) / seconds


def polyphony(score: Score) -> float:
    """Sum of all lengths / seconds in which anything sounds: the mean number of notes that sound
    together where any does. Empty, or no note with a length: nan; one note: 1."""
    notes = pitched(score)
    begins, stops = sounding(score)
    union = float((stops - begins).sum())
    return float((notes["end"] - notes["start"]).sum()) / union if union > 0 else np.nan


def sounding(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Begins and ends of the stretches in which something sounds, in order and apart, seconds."""
    notes = pitched(score)
    if not len(notes):
        return np.empty(0), np.empty(0)
    reached = np.maximum.accumulate(notes["end"])
    apart = notes["start"][1:] > reached[:-1]
    return notes["start"][np.append(True, apart)], reached[np.append(apart, True)]


def longest_silence(score: Score, seconds: float) -> float:
    """The longest stretch of 0 to ``seconds`` in which nothing sounds, its beginning and end
    included, seconds; a note without a length breaks it. Empty: ``seconds``; one note: the longer
    part before or after it."""
    begins, stops = (np.minimum(moments, seconds) for moments in sounding(score))
    gaps = np.append(begins, seconds) - np.append(0.0, stops)
    return max(0.0, float(gaps.max()))


# -------------------------------------------------------------------------------------- repetition


def stuck_seconds(score: Score) -> float:
    """The longest time, from first to last onset, in which one pattern of pitches, of any length,
    is repeated at least :data:`TURNS` times in direct succession, seconds. None: 0."""
    notes = pitched(score)
    start, pitch = notes["start"], notes["pitch"]
    longest = 0.0
    for period in range(1, len(pitch) // TURNS + 1):
        equal = pitch[period:] == pitch[:-period]
        breaks = np.flatnonzero(np.concatenate([[True], ~equal, [True]]))
        runs = np.diff(breaks) - 1
        for i in np.flatnonzero(runs >= period * (TURNS - 1)).tolist():
            first, last = breaks[i], breaks[i] + runs[i] + period - 1
            longest = max(longest, float(start[last] - start[first]))
    return longest


def returning_runs(score: Score) -> float:
    """The share of notes of the top line that lie in a run of :data:`RUN_INTERVALS` intervals which
    comes again more than :data:`RETURN_SECONDS` later or earlier, at any pitch. Fewer notes than a
    run has: nan."""
    top = score.notes[top_line(score)]
    if len(top) <= RUN_INTERVALS:
        return np.nan
    runs: dict[tuple[int, ...], list[int]] = {}
    for i, run in enumerate(_runs(top["pitch"])):
        if any(run):  # a pitch repeated nine times returns to nothing
            runs.setdefault(run, []).append(i)
    returns = np.zeros(len(top), bool)
    for places in runs.values():
        times = top["start"][places]
        if times[-1] - times[0] > RETURN_SECONDS:
            for i, time in zip(places, times):
                if np.abs(times - time).max() > RETURN_SECONDS:
                    returns[i : i + RUN_INTERVALS + 1] = True
    return float(returns.mean())


def shared_runs(score: Score, others: Sequence[Score]) -> float:
    """The share of notes of the top line that lie in a run of :data:`RUN_INTERVALS` intervals which
    the top line of one of ``others`` has too, at any pitch. Fewer notes than a run has, or no such
    run in any of ``others``: nan."""
    top = score.notes[top_line(score)]
    there = {run for one in others for run in _runs(one.notes[top_line(one)]["pitch"]) if any(run)}
    if len(top) <= RUN_INTERVALS or not there:
        return np.nan
    shared = np.zeros(len(top), bool)
    for i, run in enumerate(_runs(top["pitch"])):
        if run in there:
            shared[i : i + RUN_INTERVALS + 1] = True
    return float(shared.mean())


def _runs(pitches: np.ndarray) -> list[tuple[int, ...]]:
    """Every run of intervals of a line, from each note on."""
    intervals = np.diff(pitches.astype(int)).tolist()
    return [
        tuple(intervals[i : i + RUN_INTERVALS]) for i in range(len(intervals) - RUN_INTERVALS + 1)
    ]


def towers(score: Score) -> int:
    """How often :data:`TOWER_NOTES` notes of one program or more are struck at once, drums left
    out: within :data:`TOWER_SECONDS` of the one before."""
    count = 0
    notes = pitched(score)
    for program in np.unique(notes["program"]):
        starts = notes["start"][notes["program"] == program]
        chords = np.split(starts, np.flatnonzero(np.diff(starts) > TOWER_SECONDS) + 1)
        count += sum(len(chord) >= TOWER_NOTES for chord in chords)
    return count


def top_line(score: Score) -> np.ndarray:
    """(n,) bool: which of the notes are the highest of their onset, drums left out. What is struck
    within 20 ms of the note before belongs to the same onset."""
    melodic = np.flatnonzero(~score.notes["drum"])
    start, pitch = score.notes["start"][melodic], score.notes["pitch"][melodic].astype(int)
    order = np.lexsort((-pitch, start))
    first = np.diff(start[order], prepend=-np.inf) > 0.02
    top = np.zeros(len(score), bool)
    top[melodic[order[first]]] = True
    return top
