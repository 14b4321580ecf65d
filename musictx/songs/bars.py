"""Bars in steps: where the lines of a piece are, and where between them notes may stand.

A quarter note has 24 steps, so that sixteenths (6), triplet eighths (8), thirty-seconds
(3) and triplet sixteenths (4) are whole numbers. Notes stand on the lines of these four grids,
counted from the bar line. A note between them moves to the nearest one, and from the middle to the
later one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musictx.beats import BPM
from musictx.notes import Score
from musictx.tokens.stream import STEPS

#: Steps in a second as ids count it: tempo is not written.
PER_SECOND = STEPS * BPM / 60.0
STEP_SECONDS = 1 / PER_SECOND
#: The steps of a quarter note that lie on one of the four grids, and the next quarter.
PLACES = np.array([0, 3, 4, 6, 8, 9, 12, 15, 16, 18, 20, 21, 24])
#: (STEPS,) bool: the same as a table.
ON_GRID = np.isin(np.arange(STEPS), PLACES)
#: A note counts as moved if its beginning was more than this part of a step away from its place:
#: two thirds of a tick where a quarter has 480, so that rounded triplets do not count.
MOVED = 1 / 30
#: Meters that can be written: numerators from 1 to this, denominators 2 ** 0 to 2 ** this.
NUMERATORS, EXPONENTS = 32, 5
#: Written in place of other meters: 4/4, as numerator and exponent.
COMMON = (4, 2)


class Meter(NamedTuple):
    """``numerator`` / 2 ** ``exponent``."""

    numerator: int
    exponent: int

    @property
    def steps(self) -> int:
        """The steps of a bar."""
        return self.numerator * 4 * STEPS // 2**self.exponent

    @classmethod
    def of(cls, mark: np.void) -> Meter:
        """The meter of a mark of a Score (:data:`musictx.notes.METER`), reduced where it could not
        be written otherwise; 4/4 if that does not help."""
        numerator, denominator = int(mark["numerator"]), int(mark["denominator"])
        while numerator % 2 == 0 and denominator % 2 == 0 and numerator > 0:
            if numerator <= NUMERATORS and denominator <= 2**EXPONENTS:
                break
            numerator, denominator = numerator // 2, denominator // 2
        exponent = max(denominator, 1).bit_length() - 1
        fits = 1 <= numerator <= NUMERATORS and exponent <= EXPONENTS
        return cls(numerator, exponent) if fits and denominator == 2**exponent else cls(*COMMON)


def nearest(steps: np.ndarray) -> np.ndarray:
    """(n,) places after a bar line, in steps with a fraction -> the nearest on a grid, int64."""
    steps = np.round(steps, 6)  # seconds of a file are not exact: the middle shall be the middle
    quarter = np.floor(steps / STEPS)
    between = (PLACES[1:] + PLACES[:-1]) / 2
    within = PLACES[np.searchsorted(between, steps - quarter * STEPS, side="right")]
    return quarter.astype(np.int64) * STEPS + within


class Bars:
    """The bars of a piece on the clock of its file.

    score  has the tempo and meter marks
    until  seconds up to which there are bars

    If the first beat is later than second 0, whole bars of the first meter are added before the
    first bar, back to second 0: notes there are a pick-up.
    """

    def __init__(self, score: Score, until: float) -> None:
        self.clock = score.beats
        last = float(np.round(self.clock.quarters(until) * STEPS, 6))
        marks = np.round(self.clock.meter_at * STEPS, 6)
        lines, begin = [], 0
        #: (step, meter): from that step on bars have that meter.
        self.meters: list[tuple[int, Meter]] = []
        for number, mark in enumerate(self.clock.meters):
            meter = Meter.of(mark)
            stop = None
            if number + 1 < len(marks) and marks[number + 1] <= last:
                whole = int(max(marks[number + 1] - begin, 0) / meter.steps) * meter.steps
                stop = begin + whole + int(nearest(marks[number + 1] - begin - whole))
            if stop is None:
                stop = begin + (int((max(last, begin) - begin) / meter.steps) + 2) * meter.steps
            if stop > begin:
                self.meters.append((begin, meter))
                lines.append(np.arange(begin, stop, meter.steps))
            begin = stop
            if number + 1 < len(marks) and marks[number + 1] > last:
                break
        opening, meter = self.meters[0]
        earliest = float(np.round(self.clock.quarters(0.0) * STEPS, 6))
        #: The number of bars that are added before the first one.
        self.before = max(int(np.ceil((opening - earliest) / meter.steps)), 0)
        self.meters[0] = (opening - self.before * meter.steps, meter)
        lines.insert(0, opening + np.arange(-self.before, 0) * meter.steps)
        #: (B + 1,) int64 steps from the first bar on: the bar lines.
        self.lines = np.append(np.concatenate(lines), begin)

    def place(self, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times in seconds -> the nearest steps on the grid, counted from the first bar, and the
        number of steps, with a fraction, by which each was moved."""
        steps = np.round(self.clock.quarters(seconds) * STEPS, 6)
        line = self._line(steps)
        places = np.minimum(line + nearest(steps - line), self.after(steps))
        return places, np.abs(places - steps)

    def next(self, steps: np.ndarray) -> np.ndarray:
        """For each of ``steps``, the next later step on a grid."""
        line = self._line(steps)
        quarter, within = np.divmod(steps - line, STEPS)
        after = PLACES[np.searchsorted(PLACES, within, side="right")]
        return np.minimum(line + quarter * STEPS + after, self.after(steps))

    def number(self, step: int) -> int:
        """The number of the bar in which a step lies."""
        return int(self._bar(np.array([step]))[0])

    def seconds(self, step: int) -> float:
        return float(self.clock.seconds(step / STEPS))

    def _line(self, steps: np.ndarray) -> np.ndarray:
        lines: np.ndarray = self.lines[self._bar(steps)]
        return lines

    def after(self, steps: np.ndarray) -> np.ndarray:
        """The first lines after ``steps``."""
        lines: np.ndarray = self.lines[self._bar(steps) + 1]
        return lines

    def _bar(self, steps: np.ndarray) -> np.ndarray:
        bar = np.searchsorted(self.lines, steps, side="right") - 1
        return np.clip(bar, 0, len(self.lines) - 2)
