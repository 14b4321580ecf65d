"""Ticks of a MIDI file <-> seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from musictx.beats import BPM, from_zero
from musictx.errors import MidiError
from musictx.midi import scan
from musictx.notes import TEMPO, Score

#: Microseconds a quarter note where no mark says otherwise: 120 bpm.
DEFAULT_TEMPO = 500_000
#: Where a score has no grid: 500 ticks a quarter note of half a second, so a tick is a millisecond.
TICKS_PER_QUARTER = 500
#: The most ticks of a quarter note, and between two events, that a file can state.
MOST_TICKS, LAST_TICK = 2**15 - 1, 2**28 - 1
#: Tempos that a file can state, quarter notes a minute.
SLOWEST, FASTEST = 3.6, 1e6


@dataclass(frozen=True)
class TickClock:
    """Turns ticks into seconds: ``(base + (tick - start) * rate) / unit`` of the tick's stretch."""

    starts: np.ndarray
    bases: np.ndarray
    rates: np.ndarray
    unit: int

    @classmethod
    def of(cls, division: int, tempos: list[tuple[int, int]], name: str) -> TickClock:
        """From the header's division and all tempo marks; of marks at one tick the last counts."""
        if division & 0x8000:  # SMPTE: frames a second (negated), ticks a frame; tempo is silent
            frames, ticks = 256 - (division >> 8), division & 0xFF
            if frames not in (24, 25, 29, 30) or not ticks:
                raise MidiError(
                    f"{name}: {frames} frames a second of {ticks} ticks is no SMPTE time",
                    "unknown time base",
                )
            # "29" is the 30000/1001 frames a second of American television.
            rate, unit = (1001, 30000 * ticks) if frames == 29 else (1, frames * ticks)
            return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([rate]), unit)
        if not division:
            raise MidiError(f"{name}: no ticks in a quarter note", "unknown time base")
        marks = {0: DEFAULT_TEMPO, **dict(sorted(tempos, key=lambda mark: mark[0]))}
        starts = np.array(list(marks), np.int64)
        rates = np.array(list(marks.values()), np.int64)
        bases = np.concatenate([[0], np.cumsum(np.diff(starts) * rates[:-1])])
        return cls(starts, bases, rates, division * 1_000_000)

    def ticks(self, seconds: np.ndarray) -> np.ndarray:
        """The nearest ticks, int64."""
        units = seconds * self.unit
        at = np.maximum(np.searchsorted(self.bases, units, side="right") - 1, 0)
        return self.starts[at] + np.rint((units - self.bases[at]) / self.rates[at]).astype(np.int64)

    def seconds(self, ticks: np.ndarray | int) -> np.ndarray:
        """Seconds from the beginning, float64."""
        if len(self.starts) == 1:
            return (self.bases[0] + (ticks - self.starts[0]) * self.rates[0]) / self.unit
        at = np.searchsorted(self.starts, ticks, side="right") - 1
        return (self.bases[at] + (ticks - self.starts[at]) * self.rates[at]) / self.unit


def clock_of(file: scan.File, name: str) -> tuple[list[tuple[int, int]], TickClock]:
    """The tempos of a file, (tick, microseconds a quarter note), and its clock."""
    tempos = sorted((mark[1:] for mark in file.tempos), key=lambda mark: mark[0])
    if not file.division & 0x8000 and (not tempos or tempos[0][0] > 0):
        tempos.insert(0, (0, DEFAULT_TEMPO))
    return tempos, TickClock.of(file.division, tempos, name)


class TickGrid(NamedTuple):
    """Seconds -> ticks along the tempos of a score."""

    quarter: int
    """Ticks of a quarter note."""
    seconds: np.ndarray
    """Where each tempo begins, (n,) float64, the first at 0."""
    ticks: np.ndarray
    """The same in ticks, (n,) int64."""
    bpm: np.ndarray

    @classmethod
    def of(cls, score: Score, last: float) -> TickGrid:
        """The score's grid, or milliseconds where it has none that a file could hold.

        ``last`` is the last moment that will be asked for, seconds.
        """
        plain = cls(TICKS_PER_QUARTER, np.zeros(1), np.zeros(1, np.int64), np.array([120.0]))
        tempos = score.tempos
        slowest, fastest = tempos["bpm"].min(initial=120.0), tempos["bpm"].max(initial=120.0)
        if not score.ticks_per_quarter or slowest < SLOWEST or fastest > FASTEST:
            return plain
        grid = cls.along(tempos, score.ticks_per_quarter)
        times = np.concatenate([score.notes["start"], score.notes["end"]])
        places = grid._places(times)
        if len(places) and np.abs(places - np.round(places)).max() > 1e-3:
            finer = int(np.ceil(60_000 / (slowest * grid.quarter)))
            finer = max(1, min(finer, MOST_TICKS // grid.quarter))
            grid = cls.along(tempos, grid.quarter * finer)
        return grid if grid._places(np.array([last]))[0] < LAST_TICK else plain

    @classmethod
    def along(cls, tempos: np.ndarray, quarter: int) -> TickGrid:
        """``quarter`` ticks a quarter note along tempos of dtype ``notes.TEMPO``."""
        tempos = from_zero(tempos, np.array([(0.0, BPM)], TEMPO))
        seconds, bpm = tempos["time"], tempos["bpm"]
        steps = np.round(np.diff(seconds) * bpm[:-1] / 60.0 * quarter).astype(np.int64)
        return cls(quarter, seconds, np.append(0, np.cumsum(steps)), bpm)

    def _places(self, seconds: np.ndarray) -> np.ndarray:
        """Ticks with their fractions."""
        at = np.searchsorted(self.seconds, seconds, side="right") - 1
        since = (seconds - self.seconds[at]) * self.bpm[at] / 60.0 * self.quarter
        return self.ticks[at] + since

    def of_seconds(self, seconds: np.ndarray) -> np.ndarray:
        """The nearest ticks, int64."""
        return np.floor(self._places(seconds) + 0.5).astype(np.int64)
