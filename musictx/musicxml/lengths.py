"""Quantise the beginnings and ends of played notes to the note values of notation."""

from __future__ import annotations

import numpy as np

from musictx.beats import Beats

#: Ticks of a quarter note: the grid holds thirty-second notes and triplets of sixteenths.
DIVISIONS = 24
#: A time is on the grid if it is at most this many ticks from a grid line: files with another
#: resolution have rounded times.
_TOLERANCE = 0.15
#: If more than this share of a track's ends was played freely, all of its ends are quantised.
MAX_OFF_GRID = 0.25


def ticks(clock: Beats, seconds: np.ndarray) -> np.ndarray:
    """Convert seconds to the nearest ticks."""
    return np.floor(clock.quarters(seconds) * DIVISIONS + 0.5).astype(np.int64)


def quantise(clock: Beats, notes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the written start and end of each of ``notes``, two (n,) int64 in ticks.

    A start on the grid stays. Any other start moves to a sixteenth or a triplet eighth if one is
    within 1.5 ticks, else to the nearest tick.

    An end on the grid stays if the end or the length of the note is a multiple of a thirty-second
    or of a triplet sixteenth. Any other end was played freely and moves to the first of these that
    is near enough:

    1. the start of the next note of its track: at most a triplet sixteenth earlier, or later by
       less than a sixteenth or an eighth of the note's length;
    2. the beat: within an eighth of the note's length;
    3. the nearest sixteenth.

    If more than a quarter of a track's ends were played freely, the others are on the grid by
    chance, so rules 1 and 2 apply to them, too.
    """
    exact_start, exact_end = (clock.quarters(notes[name]) * DIVISIONS for name in ("start", "end"))
    start, end = (np.floor(exact + 0.5).astype(np.int64) for exact in (exact_start, exact_end))
    for step in (8, 6):
        grid_line = np.round(exact_start / step).astype(np.int64) * step
        off_grid = np.abs(exact_start - start) > _TOLERANCE
        start = np.where(off_grid & (np.abs(exact_start - grid_line) < 1.5), grid_line, start)
    lengths = end - start
    can_notate = np.logical_or.reduce([n % step == 0 for n in (end, lengths) for step in (3, 4)])
    is_free = (np.abs(exact_end - end) > _TOLERANCE) | ~can_notate | (lengths < 1)
    for track in np.unique(notes["track"][is_free]):
        in_track = notes["track"] == track
        rows = in_track if is_free[in_track].mean() > MAX_OFF_GRID else in_track & is_free
        begin, stop, eighth = start[rows], exact_end[rows], (exact_end - start)[rows] / 8
        starts = np.append(np.unique(start[in_track]), np.iinfo(np.int64).max // 2)
        next_start = starts[np.searchsorted(starts, np.maximum(stop - 4, begin + 1))]
        beat, sixteenth = (np.round(stop / n).astype(np.int64) * n for n in (DIVISIONS, 6))
        ends = np.where(is_free[rows], np.maximum(sixteenth, begin + 3), end[rows])
        ends = np.where((np.abs(beat - stop) <= eighth) & (beat > begin), beat, ends)
        end[rows] = np.where(next_start - stop < np.maximum(6, eighth), next_start, ends)
    return start, np.maximum(end, start + 1)
