"""Tempos, meters and keys of a Score as events of a MIDI file, and its seconds as ticks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musictx.beats import BPM, from_zero
from musictx.midi import encode
from musictx.notes import TEMPO, Score

#: Where a score has no grid: 500 ticks a quarter note of half a second, so a tick is a millisecond.
TICKS_PER_QUARTER = 500
#: The longest time between two events that a file can state, ticks.
LAST_TICK = 2**28 - 1
#: Tempos that a file can state, quarter notes a minute.
SLOWEST, FASTEST = 3.6, 1e6
#: What a meta event begins with, and kinds of such events.
META, TEMPO_MARK, METER_MARK, KEY_MARK = 0xFF, 0x51, 0x58, 0x59


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
        """The score's own grid, or milliseconds where it has none that a file could hold.

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
            finer = max(1, min(finer, 32_767 // grid.quarter))
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


def tables(score: Score, grid: TickGrid) -> list[np.ndarray]:
    """The events of tempos, meters and keys, each of dtype ``encode.FILE_EVENT`` in track 0. Left
    out are meters and keys that MIDI cannot hold."""
    rates = np.clip(np.rint(6e7 / grid.bpm), 1, 2**24 - 1).astype(np.int64)
    rate = (rates >> shift & 0xFF for shift in (16, 8, 0))
    tempos = encode.events(0, grid.ticks, 0, np.arange(len(rates)), META, TEMPO_MARK, 3, *rate)
    power = np.log2(np.maximum(score.meters["denominator"], 1))
    told = (score.meters["numerator"] > 0) & (score.meters["denominator"] > 0)
    told &= power == np.floor(power)
    ticks, upper = grid.of_seconds(score.meters["time"]), score.meters["numerator"]
    # 24 MIDI clocks between two clicks of a metronome, 8 thirty-seconds in a quarter note
    meter = upper, power, 24, 8
    meters = encode.events(0, ticks, 1, np.arange(len(ticks)), META, METER_MARK, 4, *meter)[told]
    ticks, sharps = grid.of_seconds(score.keys["time"]), score.keys["sharps"]
    key = sharps.view(np.uint8), score.keys["minor"]
    keys = encode.events(0, ticks, 2, np.arange(len(ticks)), META, KEY_MARK, 2, *key)
    return [tempos, meters, keys[np.abs(sharps.astype(int)) <= 7]]
