"""Bars in steps: the bar lines of a piece, and the places of notes between them.

A quarter note has 24 steps, so that sixteenths (6), triplet eighths (8), thirty-seconds (3) and
triplet sixteenths (4) are whole numbers. Notes begin on one of these four grids, counted from the
bar line. Other notes move to the nearest step on a grid, or to the later of two equally near ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from musictx.beats import BPM
from musictx.notes import TEMPO, Score
from musictx.tokens.stream import BAR, STEPS_PER_QUARTER, NoteStream

#: Steps in a second at 120 quarter notes a minute, the tempo of ids, which do not encode it.
PER_SECOND = STEPS_PER_QUARTER * BPM / 60.0
STEP_SECONDS = 1 / PER_SECOND
#: The steps of a quarter note that are on one of the four grids, including the next quarter note.
PLACES = np.array([0, 3, 4, 6, 8, 9, 12, 15, 16, 18, 20, 21, 24])
#: (STEPS_PER_QUARTER,) bool: whether each step of a quarter note lies on a grid.
ON_GRID = np.isin(np.arange(STEPS_PER_QUARTER), PLACES)
#: A note counts as moved if it began more than this fraction of a step off its place. This is two
#: thirds of a tick at 480 ticks a quarter note, so that rounded triplets do not count.
LEAST_MOVE = 1 / 30
#: The length in steps of the longest bar that ids can encode.
LONGEST_BAR = 8 * STEPS_PER_QUARTER
#: Ids can encode meters with numerators 1 to NUMERATORS and denominators 2 ** 0 to 2 ** EXPONENTS.
NUMERATORS, EXPONENTS = 32, 5
#: Ticks per quarter note of new files.
TICKS_PER_QUARTER = 480


def blank_piece(bpm: float = BPM) -> Score:
    """A new piece without notes, in the tempo ``bpm``, with :data:`TICKS_PER_QUARTER`."""
    return Score(tempos=np.array([(0.0, bpm)], TEMPO), ticks_per_quarter=TICKS_PER_QUARTER)


def nearest(steps: np.ndarray) -> np.ndarray:
    """(n,) int64: the nearest steps on a grid to ``steps`` (n,), which may be fractional, both
    counted from the bar line."""
    steps = np.round(steps, 6)  # rounding errors of seconds must not decide between equal distances
    quarter = np.floor(steps / STEPS_PER_QUARTER)
    middles = (PLACES[1:] + PLACES[:-1]) / 2
    within = PLACES[np.searchsorted(middles, steps - quarter * STEPS_PER_QUARTER, side="right")]
    return quarter.astype(np.int64) * STEPS_PER_QUARTER + within


def is_writable(numerator: Any, denominator: Any) -> Any:
    """Whether ids can encode bars of a meter; for arrays, of each of several meters."""
    in_range = (numerator >= 1) & (numerator <= NUMERATORS)
    is_power = np.isin(denominator, 2 ** np.arange(EXPONENTS + 1))
    return in_range & is_power & (numerator * 4 * STEPS_PER_QUARTER <= LONGEST_BAR * denominator)


def with_writable_meters(score: Score) -> Score:
    """``score`` with 4/4 in place of meters that ids cannot encode."""
    pulse = score.pulse
    meters = (score.meters if pulse is None else pulse.meters).copy()
    fits = is_writable(*(meters[name].astype(int) for name in ("numerator", "denominator")))
    if fits.all():
        return score
    meters["numerator"][~fits], meters["denominator"][~fits] = 4, 4
    if pulse is None:
        return replace(score, meters=meters)
    return replace(score, pulse=pulse._replace(meters=meters))


class Bars:
    """The bars of a piece, by the tempo and meter marks of its file.

    score  the piece; the attribute is the piece :func:`with_writable_meters`
    until  the time in seconds up to which there are bars

    If the first beat is later than second 0, whole bars of the first meter are added before the
    first bar, back to second 0, for a pick-up.

    before  the number of bars that are added before the first one
    lines   (bars + 1,) int64: the steps of the bar lines, counted from the first bar
    rows    (bars,) the bars (:data:`musictx.tokens.stream.BAR`)
    """

    def __init__(self, score: Score, until: float) -> None:
        self.score = with_writable_meters(score)
        self.clock = self.score.beats
        last = float(self.steps(until))
        marks = np.round(self.clock.meter_at * STEPS_PER_QUARTER, 6)
        lines, rows, begin = [], [], 0
        for mark, following in zip(self.clock.meters, [*marks[1:], np.inf]):
            bar = np.array([(mark["numerator"], int(mark["denominator"]).bit_length() - 1, 0)], BAR)
            steps = int(NoteStream(bar).lines[1])
            if following <= last:
                full_bars = int(max(following - begin, 0) / steps) * steps
                stop = begin + full_bars + int(nearest(following - begin - full_bars))
            else:
                stop = begin + (int((max(last, begin) - begin) / steps) + 2) * steps
            if stop > begin:
                lines.append(np.arange(begin, stop, steps))
                rows.append(np.repeat(bar, len(lines[-1])))
                rows[-1]["early_end"][-1] = (stop - begin) % steps
            begin = stop
            if following > last:
                break
        opening, earliest = int(lines[0][0]), self.clock.quarters(0.0) * STEPS_PER_QUARTER
        steps = int(NoteStream(rows[0][:1]).lines[1])
        self.before = max(int(np.ceil((opening - float(np.round(earliest, 6))) / steps)), 0)
        lines.insert(0, opening + np.arange(-self.before, 0) * steps)
        rows.insert(0, np.repeat(rows[0][:1], self.before))
        self.lines = np.append(np.concatenate(lines), begin)
        self.rows = np.concatenate(rows)

    def steps(self, seconds: Any) -> Any:
        """Times in seconds as fractional steps, counted from the first bar."""
        return np.round(self.clock.quarters(seconds) * STEPS_PER_QUARTER, 6)

    def grid_steps(self, seconds: np.ndarray) -> np.ndarray:
        """Times in seconds as the nearest steps on a grid, counted from the first bar."""
        steps = self.steps(seconds)
        begin, end = self._lines_around(steps)
        return np.minimum(begin + nearest(steps - begin), end)

    def next_grid_steps(self, steps: np.ndarray) -> np.ndarray:
        """The first step on a grid after each of ``steps``."""
        begin, end = self._lines_around(steps)
        quarter, within = np.divmod(steps - begin, STEPS_PER_QUARTER)
        following = PLACES[np.searchsorted(PLACES, within, side="right")]
        return np.minimum(begin + quarter * STEPS_PER_QUARTER + following, end)

    def bar_number(self, steps: Any) -> Any:
        """The number of the bar in which each of ``steps`` lies."""
        bar = np.searchsorted(self.lines, steps, side="right") - 1
        return np.clip(bar, 0, len(self.lines) - 2)

    def seconds(self, bar: int) -> float:
        """The time at which a bar begins, in seconds."""
        return float(self.clock.seconds(self.lines[bar] / STEPS_PER_QUARTER))

    def _lines_around(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bar lines before and after each of ``steps``."""
        bar = self.bar_number(steps)
        return self.lines[bar], self.lines[bar + 1]
