"""Ticks of a MIDI file <-> seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from musictx.beats import BPM, from_zero
from musictx.errors import MidiError
from musictx.midi.scan import File
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
    """Turns ticks into seconds and back: ``(base + (tick - start) * rate) / unit`` from the tick
    ``start`` of each tempo on. Where ticks divide quarter notes, the rates are microseconds a
    quarter note, and ``unit`` is a million times the ticks of one."""

    starts: np.ndarray
    bases: np.ndarray
    rates: np.ndarray
    unit: int

    @classmethod
    def of(cls, file: File, name: str) -> TickClock:
        """That of a file, in whole numbers; of tempo marks at one tick the last counts."""
        division = file.division
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
        marks = sorted((mark[1:] for mark in file.tempos), key=lambda mark: mark[0])
        tempos = {0: DEFAULT_TEMPO, **dict(marks)}
        starts = np.array(list(tempos), np.int64)
        rates = np.array(list(tempos.values()), np.int64)
        bases = np.append(0, np.cumsum(np.diff(starts) * rates[:-1]))
        return cls(starts, bases, rates, division * 1_000_000)

    @classmethod
    def along(cls, tempos: np.ndarray, quarter: int) -> TickClock:
        """``quarter`` ticks a quarter note along tempos of dtype ``notes.TEMPO``, each of which
        begins on a tick."""
        tempos = from_zero(tempos, np.array([(0.0, BPM)], TEMPO))
        unit, bases, rates = (
            quarter * 1_000_000,
            tempos["time"] * quarter * 1e6,
            6e7 / tempos["bpm"],
        )
        steps = np.rint(np.diff(bases) / rates[:-1]).astype(np.int64)
        return cls(np.append(0, np.cumsum(steps)), bases, rates, unit)

    @property
    def quarter(self) -> int:
        """Ticks of a quarter note."""
        return self.unit // 1_000_000

    def places(self, seconds: np.ndarray | float) -> np.ndarray:
        """Ticks with their fractions, float64."""
        units = seconds * self.unit
        at = np.maximum(np.searchsorted(self.bases, units, side="right") - 1, 0)
        places: np.ndarray = self.starts[at] + (units - self.bases[at]) / self.rates[at]
        return places

    def ticks(self, seconds: np.ndarray | float) -> np.ndarray:
        """The nearest ticks, int64."""
        return np.rint(self.places(seconds)).astype(np.int64)

    def seconds(self, ticks: np.ndarray | int) -> np.ndarray:
        """Seconds from the beginning, float64."""
        at = np.maximum(np.searchsorted(self.starts, ticks, side="right") - 1, 0)
        return (self.bases[at] + (ticks - self.starts[at]) * self.rates[at]) / self.unit


def clock_for(score: Score, last: float) -> TickClock:
    """The ticks of a new file of ``score``: its grid, or milliseconds where it has none that a file
    could hold. Where notes lie between ticks that are longer than a millisecond these are divided.
    ``last`` is the last moment of the score, seconds."""
    milliseconds = TickClock.along(score.tempos[:0], TICKS_PER_QUARTER)
    quarter, bpm = score.ticks_per_quarter, np.append(BPM, score.tempos["bpm"])
    slowest, fastest = float(bpm.min()), float(bpm.max())
    if not quarter or slowest < SLOWEST or fastest > FASTEST:
        return milliseconds
    clock = TickClock.along(score.tempos, quarter)
    places = clock.places(np.concatenate([score.notes["start"], score.notes["end"]]))
    if np.abs(places - np.rint(places)).max(initial=0.0) > 1e-3:
        finer = min(int(np.ceil(60_000 / (slowest * quarter))), MOST_TICKS // quarter)
        clock = TickClock.along(score.tempos, quarter * max(finer, 1))
    return clock if clock.places(last) < LAST_TICK else milliseconds
