"""Converts between ticks of a MIDI file and seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from musictx.beats import BPM, from_zero
from musictx.errors import MidiError
from musictx.midi.scan import ScannedFile
from musictx.notes import TEMPO, Score

#: Default tempo, 120 bpm, in microseconds a quarter note.
DEFAULT_TEMPO = 500_000
#: Resolution of new files for a score without one. At 120 bpm a tick is a millisecond.
TICKS_PER_QUARTER = 500
#: The largest resolution of a file in ticks a quarter note, and the largest delta time in ticks.
MAX_TICKS_PER_QUARTER, MAX_DELTA = 2**15 - 1, 2**28 - 1
#: The range of tempos that a file can have, in quarter notes a minute.
MIN_BPM, MAX_BPM = 3.6, 1e6


@dataclass(frozen=True)
class TickClock:
    """Converts ticks to seconds, ``(base + (tick - start) * rate) / unit``, and back.

    starts  (n,) the tick at which each tempo begins
    bases   (n,) the time at these ticks, in seconds * ``unit``
    rates   (n,) the length of a tick from there on, in seconds * ``unit``
    unit    a million times the ticks a quarter note, so that rates are microseconds a quarter note;
            for SMPTE time, an integer for which the rate is an integer
    """

    starts: np.ndarray
    bases: np.ndarray
    rates: np.ndarray
    unit: int

    @classmethod
    def from_file(cls, file: ScannedFile) -> TickClock:
        """Return the clock of a file, in integers. Of several tempos at one tick the last counts;
        SMPTE time ignores tempos. Raises :class:`MidiError` if ``file.division`` is invalid."""
        division = file.division
        if division & 0x8000:  # SMPTE: negated frames a second, then ticks a frame
            frames, ticks = 256 - (division >> 8), division & 0xFF
            if frames not in (24, 25, 29, 30) or not ticks:
                why = f"invalid SMPTE time: {frames} frames a second, {ticks} ticks a frame"
                raise MidiError(why, "unknown time base")
            # 29 means the 30000/1001 frames a second of NTSC.
            rate, unit = (1001, 30000 * ticks) if frames == 29 else (1, frames * ticks)
            return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([rate]), unit)
        if not division:
            raise MidiError("the header says 0 ticks per quarter note", "unknown time base")
        marks = sorted((mark[1:] for mark in file.marks["tempos"]), key=lambda mark: mark[0])
        tempos = {0: DEFAULT_TEMPO, **dict(marks)}
        starts = np.array(list(tempos), np.int64)
        rates = np.array(list(tempos.values()), np.int64)
        bases = np.append(0, np.cumsum(np.diff(starts) * rates[:-1]))
        return cls(starts, bases, rates, division * 1_000_000)

    @classmethod
    def from_tempos(cls, tempos: np.ndarray, quarter: int) -> TickClock:
        """Return a clock with ``quarter`` ticks a quarter note and the ``tempos`` of a Score, which
        are moved to the nearest ticks."""
        tempos = from_zero(tempos, np.array([(0.0, BPM)], TEMPO))
        unit, rates = quarter * 1_000_000, 6e7 / tempos["bpm"]
        bases = tempos["time"] * quarter * 1e6
        steps = np.rint(np.diff(bases) / rates[:-1]).astype(np.int64)
        return cls(np.append(0, np.cumsum(steps)), bases, rates, unit)

    @property
    def quarter(self) -> int:
        """Ticks a quarter note."""
        return self.unit // 1_000_000

    def exact_ticks(self, seconds: np.ndarray | float) -> np.ndarray:
        """Convert seconds to fractional ticks, float64."""
        units = seconds * self.unit
        tempo = np.maximum(np.searchsorted(self.bases, units, side="right") - 1, 0)
        return self.starts[tempo] + (units - self.bases[tempo]) / self.rates[tempo]

    def ticks(self, seconds: np.ndarray | float) -> np.ndarray:
        """Convert seconds to the nearest ticks, int64."""
        return np.rint(self.exact_ticks(seconds)).astype(np.int64)

    def seconds(self, ticks: np.ndarray | int) -> np.ndarray:
        """Convert ticks to seconds from the beginning, float64."""
        tempo = np.maximum(np.searchsorted(self.starts, ticks, side="right") - 1, 0)
        elapsed = (ticks - self.starts[tempo]) * self.rates[tempo]
        return (self.bases[tempo] + elapsed) / self.unit


def clock_for(score: Score, last: float) -> TickClock:
    """Return the clock of a new file for ``score``, whose last event is at ``last`` seconds.

    It has the resolution and tempos of the score. If notes are between ticks, ticks longer than a
    millisecond are divided. If the score has no resolution, or MIDI cannot represent its tempos or
    so many ticks, ticks are milliseconds at 120 bpm.
    """
    milliseconds = TickClock.from_tempos(score.tempos[:0], TICKS_PER_QUARTER)
    quarter, bpm = score.ticks_per_quarter, [BPM, *score.tempos["bpm"].tolist()]
    if not quarter or min(bpm) < MIN_BPM or max(bpm) > MAX_BPM:
        return milliseconds
    clock = TickClock.from_tempos(score.tempos, quarter)
    ticks = clock.exact_ticks(np.concatenate([score.notes["start"], score.notes["end"]]))
    if np.abs(ticks - np.rint(ticks)).max(initial=0.0) > 1e-3:
        divisor = min(int(np.ceil(60_000 / (min(bpm) * quarter))), MAX_TICKS_PER_QUARTER // quarter)
        clock = TickClock.from_tempos(score.tempos, quarter * max(divisor, 1))
    return clock if clock.exact_ticks(last) < MAX_DELTA else milliseconds
