"""Where notes begin and end in notation, which is not quite where they are played."""

from __future__ import annotations

import numpy as np

from musictx.beats import Beats

#: Ticks of a quarter note: the grid holds thirty-second notes and triplets of sixteenths.
DIVISIONS = 24
#: Ticks by which a moment may miss a line and still be on it: those of other grids are rounded.
_ON = 0.15
#: Share of the ends of a track from which on all of them count as played.
MOSTLY = 0.25


def ticks(clock: Beats, seconds: np.ndarray) -> np.ndarray:
    """The nearest lines of the grid."""
    return np.floor(clock.quarters(seconds) * DIVISIONS + 0.5).astype(np.int64)


def written(clock: Beats, notes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where notes begin and end as notation has it, in ticks.

    What is on a line stays there. What begins off the lines goes to that of a sixteenth or triplet
    which is near. An end that is off the lines, or on one that neither thirty-seconds nor triplets
    of sixteenths reach, was played: it goes to where the next note of its track begins if that is
    near (less than a sixteenth or an eighth of its length later, or a triplet of a sixteenth
    earlier), else to the beat if that is as near, else to the nearest sixteenth. Where more than a
    quarter of a track's ends were played, the others, on a line by chance, follow the first two.
    """
    begun, over = (clock.quarters(notes[name]) * DIVISIONS for name in ("start", "end"))
    start, end = (np.floor(one + 0.5).astype(np.int64) for one in (begun, over))
    for step in (8, 6):
        line = np.round(begun / step).astype(np.int64) * step
        start = np.where((np.abs(begun - start) > _ON) & (np.abs(begun - line) < 1.5), line, start)
    lengths = end - start
    reached = np.logical_or.reduce([n % step == 0 for n in (end, lengths) for step in (3, 4)])
    played = (np.abs(over - end) > _ON) | ~reached | (lengths < 1)
    for track in np.unique(notes["track"][played]):
        here = notes["track"] == track
        chosen = here if played[here].mean() > MOSTLY else here & played
        begin, stop, eighth = start[chosen], over[chosen], (over - start)[chosen] / 8
        lines = np.append(np.unique(start[here]), np.iinfo(np.int64).max // 2)
        following = lines[np.searchsorted(lines, np.maximum(stop - 4, begin + 1))]
        beat, nearest = (np.round(stop / n).astype(np.int64) * n for n in (DIVISIONS, 6))
        ends = np.where(played[chosen], np.maximum(nearest, begin + 3), end[chosen])
        ends = np.where((np.abs(beat - stop) <= eighth) & (beat > begin), beat, ends)
        end[chosen] = np.where(following - stop < np.maximum(6, eighth), following, ends)
    return start, np.maximum(end, start + 1)
