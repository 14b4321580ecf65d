"""Converts between seconds, quarter notes and bars, by the tempos and meters of a piece."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: A tempo that begins at ``time`` (seconds): ``bpm`` quarter notes a minute.
TEMPO = np.dtype([("time", "f8"), ("bpm", "f8")])
#: A meter that begins at ``time`` (seconds): ``numerator`` / ``denominator``.
METER = np.dtype([("time", "f8"), ("numerator", "u1"), ("denominator", "u2")])

#: Default tempo of MIDI, quarter notes a minute.
BPM = 120.0
#: Music is on a grid if this share of its notes starts within so many seconds of a grid line.
ON_GRID, NEAR = 0.9, 0.012


class Pulse(NamedTuple):
    """The beats of a performance, where they differ from those of its file.

    offset  seconds that are added to the times of ``tempos`` and ``meters``; may be negative
    swing   where in each quarter note its second eighth starts: 0.5, or later
    """

    tempos: np.ndarray
    meters: np.ndarray
    offset: float
    swing: float = 0.5


class Beats:
    """The beats and bars of a :class:`musictx.notes.Score`.

    They come from ``score.pulse`` if there is one, else from its tempos and meters. The first tempo
    and the first meter hold from the beginning. Without tempos, ``bpm`` is the tempo; without
    meters, bars are 4/4.
    """

    def __init__(self, score: Any, *, bpm: float = BPM) -> None:
        pulse: Pulse = score.pulse or Pulse(score.tempos, score.meters, 0.0)
        tempos, meters, offset, self.swing = pulse
        self.offset = 0.0  # until the positions of the meters, which have no offset, are computed
        self.tempos = from_zero(tempos, np.array([(0.0, bpm)], TEMPO))
        length = np.diff(self.tempos["time"]) * self.tempos["bpm"][:-1] / 60.0
        self._tempo_starts = np.concatenate([[0.0], np.cumsum(length)])  # quarter notes
        self.meters = from_zero(meters, np.array([(0.0, 4, 4)], METER))
        #: (M,) the quarter note at which each meter begins, and the length of its bars.
        self.meter_starts = self.quarters(self.meters["time"])
        self.bar_quarters = self.meters["numerator"] * 4.0 / self.meters["denominator"]
        bars = np.ceil(np.diff(self.meter_starts) / self.bar_quarters[:-1] - 1e-6)
        #: (M,) the number of the first bar of each meter.
        self._first_bar = np.concatenate([[1.0], 1.0 + np.cumsum(bars)])
        self.offset = offset

    def quarters(self, seconds: Any) -> Any:
        """Convert seconds (a number or an array) to quarter notes from the start of the piece."""
        seconds = np.asarray(seconds) - self.offset
        mark = np.maximum(np.searchsorted(self.tempos["time"], seconds, side="right") - 1, 0)
        since = seconds - self.tempos["time"][mark]
        return straight(
            self._tempo_starts[mark] + since * self.tempos["bpm"][mark] / 60.0, self.swing
        )

    def seconds(self, quarters: Any) -> Any:
        """The inverse of :meth:`quarters`."""
        quarters = swung(quarters, self.swing)
        mark = np.maximum(np.searchsorted(self._tempo_starts, quarters, side="right") - 1, 0)
        since = quarters - self._tempo_starts[mark]
        return self.offset + self.tempos["time"][mark] + since * 60.0 / self.tempos["bpm"][mark]

    def are_on_grid(self, times: np.ndarray, lines: int) -> bool:
        """Whether ``times`` (seconds) are on a grid of ``lines`` lines a quarter note.

        A time is on a line if it is less than :data:`NEAR` seconds and less than a quarter of the
        distance between two lines away. The second condition is for fast tempos, where lines are
        so dense that any time is near to one.
        """
        steps = self.quarters(times) * lines
        distance = np.abs(self.seconds(np.round(steps) / lines) - times)
        near = (distance < NEAR) & (np.abs(np.round(steps) - steps) < 0.25)
        return bool(np.mean(near) >= ON_GRID)

    def bar(self, quarters: float) -> tuple[int, float]:
        """Return the number of the bar at ``quarters``, and the quarter notes since its bar line.

        Bars are counted from 1; numbers below 1 are before the start of the piece.
        """
        meter = max(int(np.searchsorted(self.meter_starts - 1e-6, quarters, side="right")) - 1, 0)
        since, length = quarters - self.meter_starts[meter], self.bar_quarters[meter]
        passed = np.floor(since / length + 1e-6)
        since = float(since - passed * length)
        # Meters begin at seconds, so a bar line may be off by a rounding error.
        return int(self._first_bar[meter] + passed), since if since > 1e-6 else 0.0

    @property
    def pickup(self) -> bool:
        """Whether the piece begins with an upbeat: a first meter that lasts one bar or less, and
        is shorter than a bar of the second meter."""
        if len(self.meter_starts) < 2:
            return False
        length, (first_bar, second_bar) = self.meter_starts[1], self.bar_quarters[:2]
        return bool(length < second_bar - 1e-6 and length < first_bar + 1e-6)

    def bar_line(self, quarters: float, bars: int = 0) -> float:
        """Return the quarter note of the first bar line at or after ``quarters``, or of the bar
        line ``bars`` bars later."""
        number, since = self.bar(quarters)
        return float(self._line(number + bars + (since > 1e-3)))

    def bar_lines(self, until: float) -> np.ndarray:
        """Return (B,) the quarter notes of all bar lines before ``until`` (quarter notes)."""
        lines = self._line(np.arange(1.0, self.bar(until)[0] + 1))
        return lines[lines < until - 1e-6]

    def _line(self, number: Any) -> Any:
        """Return the quarter note at which the bar ``number`` (or an array of them) begins."""
        meter = np.maximum(np.searchsorted(self._first_bar, number, side="right") - 1, 0)
        return (
            self.meter_starts[meter] + (number - self._first_bar[meter]) * self.bar_quarters[meter]
        )


def straight(quarters: Any, swing: float) -> Any:
    """Remove the swing from positions in quarter notes: ``straight(3.6, 0.6)`` is 3.5.

    Other positions are interpolated between the beats and the second eighths.
    """
    return _warped(quarters, swing, 0.5)


def swung(quarters: Any, swing: float) -> Any:
    """The inverse of :func:`straight`."""
    return _warped(quarters, 0.5, swing)


def _warped(quarters: Any, source: float, target: float) -> Any:
    """Move the position ``source`` within each quarter note to ``target``."""
    quarters = np.asarray(quarters)
    if source == target:
        return quarters
    whole = np.floor(quarters)
    return whole + np.interp(quarters - whole, (0.0, source, 1.0), (0.0, target, 1.0))


def from_zero(marks: np.ndarray, default: np.ndarray) -> np.ndarray:
    """Return ``marks`` (tempos or meters) such that the first one is at time 0.

    If the first mark is later, a copy of it at 0 is added. Of several marks at one time only the
    last one is kept. Without marks, return ``default``.
    """
    if not len(marks):
        return default
    marks = marks[np.append(np.diff(marks["time"]) > 0, True)]
    if marks["time"][0] > 0:
        first = marks[:1].copy()
        first["time"] = 0.0
        marks = np.concatenate([first, marks])
    return marks
