"""Convert between seconds, quarter notes and bars, by the tempo and meter marks of a piece."""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np

#: A tempo from ``time`` (seconds) on: ``bpm`` quarter notes a minute.
TEMPO = np.dtype([("time", "f8"), ("bpm", "f8")])
#: A meter from ``time`` (seconds) on.
METER = np.dtype([("time", "f8"), ("numerator", "u1"), ("denominator", "u2")])

#: The tempo where there is no tempo mark, in quarter notes a minute, as in MIDI.
BPM = 120.0
#: Music is on a grid if this share of its notes begin less than this many seconds from a line.
ON_GRID, NEAR = 0.9, 0.012


class Pulse(NamedTuple):
    """Beats that differ from those of the file.

    tempos, meters  marks, at times before ``late`` is added
    late            seconds by which the beats are late; may be negative
    swing           where the second eighth of a quarter note begins: 0.5 if straight
    """

    tempos: np.ndarray
    meters: np.ndarray
    late: float
    swing: float = 0.5


class Beats:
    """Converts between the seconds, quarter notes and bars of a piece.

    score  a :class:`musictx.notes.Score`; its pulse or, if it has none, its tempo and meter marks
           are used. The first tempo and the first meter are in force from the beginning
    bpm    the tempo of a piece without tempo marks. The meter of a piece without meter marks is 4/4
    """

    def __init__(self, score: Any, *, bpm: float = BPM) -> None:
        pulse: Pulse = score.pulse or Pulse(score.tempos, score.meters, 0.0)
        tempos, meters, late, self.swing = pulse
        self.late = 0.0  # until the meter marks, whose times do not include it, are converted
        self.tempos = from_zero(tempos, np.array([(0.0, bpm)], TEMPO))
        length = np.diff(self.tempos["time"]) * self.tempos["bpm"][:-1] / 60.0
        self._tempo_at = np.concatenate([[0.0], np.cumsum(length)])  # quarters before each tempo
        self.meters = from_zero(meters, np.array([(0.0, 4, 4)], METER))
        #: (M,) where each meter begins, and how long its bars are, in quarter notes.
        self.meter_at = self.quarters(self.meters["time"])
        self.bar_quarters = self.meters["numerator"] * 4.0 / self.meters["denominator"]
        #: (M,) the number of the bar that begins with each meter.
        bars = np.ceil(np.diff(self.meter_at) / self.bar_quarters[:-1] - 1e-6)
        self._first_bar = np.concatenate([[1.0], 1.0 + np.cumsum(bars)])
        self.late = late

    @overload
    def quarters(self, seconds: float) -> float: ...
    @overload
    def quarters(self, seconds: np.ndarray) -> np.ndarray: ...
    def quarters(self, seconds: Any) -> Any:
        """Convert seconds (a number or an array) to quarter notes from the start of the piece."""
        seconds = np.asarray(seconds) - self.late
        mark = np.maximum(np.searchsorted(self.tempos["time"], seconds, side="right") - 1, 0)
        since = seconds - self.tempos["time"][mark]
        quarters = self._tempo_at[mark] + since * self.tempos["bpm"][mark] / 60.0
        quarters = straight(quarters, self.swing)
        return quarters if np.ndim(quarters) else float(quarters)

    @overload
    def seconds(self, quarters: float) -> float: ...
    @overload
    def seconds(self, quarters: np.ndarray) -> np.ndarray: ...
    def seconds(self, quarters: Any) -> Any:
        """Convert quarter notes from the start (a number or an array) to seconds."""
        quarters = swung(quarters, self.swing)
        mark = np.maximum(np.searchsorted(self._tempo_at, quarters, side="right") - 1, 0)
        since = quarters - self._tempo_at[mark]
        seconds = self.late + self.tempos["time"][mark] + since * 60.0 / self.tempos["bpm"][mark]
        return seconds if np.ndim(seconds) else float(seconds)

    def on_grid(self, times: np.ndarray, lines: int) -> bool:
        """Return whether ``times`` (seconds) are on a grid of ``lines`` to a quarter note: a share
        of :data:`ON_GRID` is less than :data:`NEAR` seconds from a line, and less than a quarter of
        the distance between lines (which holds for half of random times)."""
        position = self.quarters(times) * lines
        distance = np.abs(self.seconds(np.round(position) / lines) - times)
        near = (distance < NEAR) & (np.abs(np.round(position) - position) < 0.25)
        return bool(np.mean(near) >= ON_GRID)

    def bar(self, quarters: float) -> tuple[int, float]:
        """Return (number of the bar, quarter notes since its beginning). The first bar is bar 1;
        bars before the start have numbers from 0 down."""
        meter = max(int(np.searchsorted(self.meter_at - 1e-6, quarters, side="right")) - 1, 0)
        since, length = quarters - self.meter_at[meter], self.bar_quarters[meter]
        bars = np.floor(since / length + 1e-6)
        since = float(since - bars * length)
        # The times of marks are in seconds, so bar lines have rounding errors.
        return int(self._first_bar[meter] + bars), since if since > 1e-6 else 0.0

    def bar_at(self, seconds: float, *, ends: bool = False) -> int:
        """Return the number of the bar in which music begins (or with ``ends``: ends) at this time.
        A time within a thousandth of a quarter note of a bar line is on it."""
        return self.bar(self.quarters(seconds) + (-1e-3 if ends else 1e-3))[0]

    @property
    def pickup(self) -> bool:
        """Whether the first bar is cut short by the second meter mark, and is shorter than the bars
        of that meter."""
        if len(self.meter_at) < 2:
            return False
        first, (opening, later) = float(self.meter_at[1]), self.bar_quarters[:2].tolist()
        return bool(first < later - 1e-6 and first < opening + 1e-6)

    def bar_line(self, quarters: float, bars: int = 0) -> float:
        """Return the quarter note of the bar line that is ``bars`` bars after the first bar line at
        or after ``quarters``."""
        number, since = self.bar(quarters)
        number += 1 if since > 1e-3 else 0
        return float(self._line(number + bars))

    def bar_lines(self, until: float) -> np.ndarray:
        """Return (B,) all bar lines before ``until``, in quarter notes."""
        lines = self._line(np.arange(1.0, self.bar(until)[0] + 1))
        return lines[lines < until - 1e-6]

    def _line(self, number: Any) -> Any:
        """Return the quarter note at which bar ``number`` begins; ``number`` may be an array."""
        meter = np.maximum(np.searchsorted(self._first_bar, number, side="right") - 1, 0)
        return self.meter_at[meter] + (number - self._first_bar[meter]) * self.bar_quarters[meter]


def straight(quarters: Any, swing: float) -> Any:
    """Remove swing from times in quarter notes: the point ``swing`` of each quarter note moves to
    its middle, and times between are interpolated linearly."""
    return _move_second_eighth(quarters, swing, 0.5)


def swung(quarters: Any, swing: float) -> Any:
    """Add swing to times in quarter notes: the inverse of :func:`straight`."""
    return _move_second_eighth(quarters, 0.5, swing)


def _move_second_eighth(quarters: Any, old: float, new: float) -> Any:
    """Move the point ``old`` of each quarter note to ``new``."""
    quarters = np.asarray(quarters)
    if old == new:
        return quarters
    whole = np.floor(quarters)
    return whole + np.interp(quarters - whole, (0.0, old, 1.0), (0.0, new, 1.0))


def from_zero(marks: np.ndarray, default: np.ndarray) -> np.ndarray:
    """Return ``marks`` such that one is in force at time 0: the first mark is repeated there.
    ``default`` if there are none. Of marks at the same time only the last is kept."""
    if not len(marks):
        return default
    marks = marks[np.append(np.diff(marks["time"]) > 0, True)]
    if marks["time"][0] > 0:
        opening = marks[:1].copy()
        opening["time"] = 0.0
        marks = np.concatenate([opening, marks])
    return marks
