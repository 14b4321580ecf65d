"""Seconds <-> quarter notes <-> bars, by the tempo and meter marks of a piece."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: From ``time`` (seconds) on, ``bpm`` quarter notes a minute.
TEMPO = np.dtype([("time", "f8"), ("bpm", "f8")])
#: From ``time`` (seconds) on, a meter of ``numerator`` / ``denominator``.
METER = np.dtype([("time", "f8"), ("numerator", "u1"), ("denominator", "u2")])

#: Quarter notes a minute where a piece has no mark, as MIDI has it.
BPM = 120.0
#: Music keeps to a grid if this share of its notes begins so near to a line of it, in seconds.
ON_GRID, NEAR = 0.9, 0.012


class Pulse(NamedTuple):
    """Beats that are not those of the file: marks that count from ``late`` seconds on, which may be
    before 0, and where in each quarter note its second eighth stands."""

    tempos: np.ndarray
    meters: np.ndarray
    late: float
    swing: float = 0.5


class Beats:
    """The clock of a piece.

    score  a :class:`musictx.notes.Score`: its pulse counts, or else its marks; the first tempo
           holds from the beginning, the first meter too
    bpm    the tempo where there is no mark; bars are of 4/4 where there is no meter
    """

    def __init__(self, score: Any, *, bpm: float = BPM) -> None:
        pulse: Pulse = score.pulse or Pulse(score.tempos, score.meters, 0.0)
        tempos, meters, late, self.swing = pulse
        self.late = 0.0  # of the marks themselves
        self.tempos = from_zero(tempos, np.array([(0.0, bpm)], TEMPO))
        length = np.diff(self.tempos["time"]) * self.tempos["bpm"][:-1] / 60.0
        self._at = np.concatenate([[0.0], np.cumsum(length)])  # quarters before each tempo
        self.meters = from_zero(meters, np.array([(0.0, 4, 4)], METER))
        #: (M,) quarter notes at which each meter begins, and how many its bars have.
        self.meter_at = self.quarters(self.meters["time"])
        self.bar_quarters = self.meters["numerator"] * 4.0 / self.meters["denominator"]
        #: (M,) the number of the bar that begins with each meter.
        bars = np.ceil(np.diff(self.meter_at) / self.bar_quarters[:-1] - 1e-6)
        self._first_bar = np.concatenate([[1.0], 1.0 + np.cumsum(bars)])
        self.late = late

    def quarters(self, seconds: Any) -> Any:
        """Quarter notes from the start of the piece to a time in seconds; of arrays, each."""
        seconds = np.asarray(seconds) - self.late
        mark = np.maximum(np.searchsorted(self.tempos["time"], seconds, side="right") - 1, 0)
        since = seconds - self.tempos["time"][mark]
        return straight(self._at[mark] + since * self.tempos["bpm"][mark] / 60.0, self.swing)

    def seconds(self, quarters: Any) -> Any:
        """The inverse of :meth:`quarters`."""
        quarters = swung(quarters, self.swing)
        mark = np.maximum(np.searchsorted(self._at, quarters, side="right") - 1, 0)
        since = quarters - self._at[mark]
        return self.late + self.tempos["time"][mark] + since * 60.0 / self.tempos["bpm"][mark]

    def keep_to(self, times: np.ndarray, lines: int) -> bool:
        """Whether ``times`` in seconds stand on a grid of so many lines in a quarter note. Where
        these are close together, near is only what lies within a quarter of the way between two:
        half of any times do."""
        at = self.quarters(times) * lines
        off = np.abs(self.seconds(np.round(at) / lines) - times)
        near = (off < NEAR) & (np.abs(np.round(at) - at) < 0.25)
        return bool(np.mean(near) >= ON_GRID)

    def bar(self, quarters: float) -> tuple[int, float]:
        """(number of the bar, 1 at the start, 0 and below before it; quarter notes since its
        line)."""
        meter = max(int(np.searchsorted(self.meter_at - 1e-6, quarters, side="right")) - 1, 0)
        since, length = quarters - self.meter_at[meter], self.bar_quarters[meter]
        passed = np.floor(since / length + 1e-6)
        since = float(since - passed * length)
        # Marks stand in seconds, so that a line may be off by a little.
        return int(self._first_bar[meter] + passed), since if since > 1e-6 else 0.0

    @property
    def pickup(self) -> bool:
        """Whether the piece begins with a bar that is shorter than those of its second meter mark:
        one of its own meter or less."""
        if len(self.meter_at) < 2:
            return False
        first, (opening, later) = float(self.meter_at[1]), self.bar_quarters[:2].tolist()
        return bool(first < later - 1e-6 and first < opening + 1e-6)

    def bar_line(self, quarters: float, bars: int = 0) -> float:
        """The first bar line at or after ``quarters``, or ``bars`` bars after that: quarters."""
        number, since = self.bar(quarters)
        return float(self._line(number + bars + (since > 1e-3)))

    def bar_lines(self, until: float) -> np.ndarray:
        """(B,) quarter notes: all bar lines before ``until``."""
        lines = self._line(np.arange(1.0, self.bar(until)[0] + 1))
        return lines[lines < until - 1e-6]

    def _line(self, number: Any) -> Any:
        """The quarter note at which the bar of this number begins; of arrays, each."""
        meter = np.maximum(np.searchsorted(self._first_bar, number, side="right") - 1, 0)
        return self.meter_at[meter] + (number - self._first_bar[meter]) * self.bar_quarters[meter]


def straight(quarters: Any, swing: float) -> Any:
    """Places in quarter notes that swing, as they are written: what stands at ``swing`` of a
    quarter note at its half, what lies between in proportion."""
    return _bent(quarters, swing, 0.5)


def swung(quarters: Any, swing: float) -> Any:
    """The inverse of :func:`straight`."""
    return _bent(quarters, 0.5, swing)


def _bent(quarters: Any, second: float, to: float) -> Any:
    quarters = np.asarray(quarters)
    if second == to:
        return quarters
    whole = np.floor(quarters)
    return whole + np.interp(quarters - whole, (0.0, second, 1.0), (0.0, to, 1.0))


def from_zero(marks: np.ndarray, default: np.ndarray) -> np.ndarray:
    """``marks`` with one at time 0: the first of them, or the default; of marks at one time the
    last counts."""
    if not len(marks):
        return default
    marks = marks[np.append(np.diff(marks["time"]) > 0, True)]
    if marks["time"][0] > 0:
        opening = marks[:1].copy()
        opening["time"] = 0.0
        marks = np.concatenate([opening, marks])
    return marks
