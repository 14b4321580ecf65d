"""The bars of a piece, and the grid on which its notes begin.

A quarter note has 24 steps, so that sixteenths (6), triplet eighths (8), thirty-seconds (3) and
triplet sixteenths (4) are whole numbers of steps. Notes begin on one of these four grids, counted
from the bar line. Other notes move to the nearest step on a grid, or to the later of two equally
near ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from musictx.beats import BPM
from musictx.config.checks import require
from musictx.config.generate import meter_of
from musictx.notes import METER, TEMPO, Score
from musictx.tokens.stream import BAR, STEPS_PER_QUARTER, NoteStream, bar_steps

#: Ids do not encode the tempo. Their steps and seconds are converted at 120 quarter notes a minute.
STEPS_PER_SECOND = STEPS_PER_QUARTER * BPM / 60.0
STEP_SECONDS = 1 / STEPS_PER_SECOND
#: The steps from one quarter note to the next, both included, that are on one of the four grids.
GRID_STEPS = np.array([0, 3, 4, 6, 8, 9, 12, 15, 16, 18, 20, 21, 24])
#: A note counts as moved if it began more than this fraction of a step off its place. This is two
#: thirds of a tick at 480 ticks a quarter note, so that rounded triplets do not count.
MOVE_TOLERANCE = 1 / 30
#: The length in steps of the longest bar that ids can encode.
LONGEST_BAR = 8 * STEPS_PER_QUARTER
#: (LONGEST_BAR,) bool: whether each step of such a bar is on a grid.
ON_GRID = np.isin(np.arange(LONGEST_BAR) % STEPS_PER_QUARTER, GRID_STEPS)
#: Ids can encode meters with numerators from 1 and denominators 2 ** 0 to 2 ** MAX_EXPONENT.
MAX_NUMERATOR, MAX_EXPONENT = 32, 5
#: Ticks per quarter note of new files.
TICKS_PER_QUARTER = 480


def blank_piece(tempo: float | None = None, meter: str | None = None) -> Score:
    """A new piece without notes, by the options ``tempo`` (default: :data:`BPM`) and ``meter``,
    with :data:`TICKS_PER_QUARTER`. Raises ``UserError`` for a meter that ids cannot encode."""
    meters = []
    if meter is not None:
        meters = [(0.0, *meter_of(meter))]
        most = f"at most {MAX_NUMERATOR} beats, and two whole notes, in a bar"
        require(can_encode_meter(*meter_of(meter)), "meter", meter, most)
    return Score(
        tempos=np.array([(0.0, BPM if tempo is None else tempo)], TEMPO),
        meters=np.array(meters, METER),
        ticks_per_quarter=TICKS_PER_QUARTER,
    )


def round_to_grid(steps: np.ndarray) -> np.ndarray:
    """(n,) int64: the step on a grid that is nearest to each of ``steps`` (n,), which may be
    fractional. Both are counted from the bar line."""
    steps = np.round(steps, 6)  # rounding errors of seconds must not decide between equal distances
    quarter = np.floor(steps / STEPS_PER_QUARTER)
    middles = (GRID_STEPS[1:] + GRID_STEPS[:-1]) / 2
    place = np.searchsorted(middles, steps - quarter * STEPS_PER_QUARTER, side="right")
    return quarter.astype(np.int64) * STEPS_PER_QUARTER + GRID_STEPS[place]


def can_encode_meter(numerator: int, denominator: int) -> bool:
    """Whether ids can encode bars of a meter."""
    is_power = denominator in (2**exponent for exponent in range(MAX_EXPONENT + 1))
    in_range = is_power and 1 <= numerator <= MAX_NUMERATOR
    return in_range and numerator * 4 * STEPS_PER_QUARTER <= LONGEST_BAR * denominator


class Bars:
    """The bars of a piece, by the tempo and meter marks of its file.

    score  the piece; meters that ids cannot encode count as 4/4
    end    the time in seconds up to which there are bars

    The first bar begins on the first beat of the piece. If that is later than second 0, bars of the
    first meter are added before it, back to second 0, for a pick-up. Steps are counted from the
    first bar, so they are negative in added bars.

    beats       the beats of ``score``
    added_bars  the number of bars before the first one
    lines       (bars + 1,) int64: the steps of the bar lines
    rows        (bars,) the bars (:data:`musictx.tokens.stream.BAR`)
    """

    def __init__(self, score: Score, end: float) -> None:
        self.score, self.beats = score, score.beats
        last = float(self.steps(end))
        marks = np.round(self.beats.meter_at * STEPS_PER_QUARTER, 6)  # the steps of meter marks
        lines, rows, begin = [], [], 0
        for meter, next_mark in zip(self.beats.meters, [*marks[1:], np.inf]):
            numerator, denominator = int(meter["numerator"]), int(meter["denominator"])
            if not can_encode_meter(numerator, denominator):
                numerator, denominator = 4, 4
            exponent = denominator.bit_length() - 1
            steps = bar_steps(numerator, exponent)
            if next_mark <= last:
                whole_bars = int(max(next_mark - begin, 0) / steps) * steps
                stop = begin + whole_bars + int(round_to_grid(next_mark - begin - whole_bars))
            else:
                stop = begin + (int((max(last, begin) - begin) / steps) + 2) * steps
            if stop > begin:
                lines.append(np.arange(begin, stop, steps))
                rows.append(np.array([(numerator, exponent, 0)] * len(lines[-1]), BAR))
                rows[-1]["early_end"][-1] = (stop - begin) % steps
            begin = stop
            if next_mark > last:
                break
        opening, first = int(lines[0][0]), rows[0][:1]
        steps = int(NoteStream(first).lines[1])
        self.added_bars = max(int(np.ceil((opening - self.steps(0.0)) / steps)), 0)
        added_lines = opening + np.arange(-self.added_bars, 0) * steps
        self.lines = np.concatenate([added_lines, *lines, [begin]])
        self.rows = np.concatenate([np.repeat(first, self.added_bars), *rows])

    def steps(self, seconds: Any) -> Any:
        """Convert times in seconds to steps, which may be fractional."""
        return np.round(self.beats.quarters(seconds) * STEPS_PER_QUARTER, 6)

    def grid_steps(self, seconds: np.ndarray) -> np.ndarray:
        """Convert times in seconds to the nearest steps on a grid."""
        steps = self.steps(seconds)
        begin, end = self._lines_around(steps)
        return np.minimum(begin + round_to_grid(steps - begin), end)

    def off_grid_count(self, seconds: np.ndarray) -> int:
        """How many of the times in seconds :meth:`grid_steps` moves."""
        moves = self.grid_steps(seconds) - self.steps(seconds)
        return int((np.abs(moves) > MOVE_TOLERANCE).sum())

    def next_grid_steps(self, steps: np.ndarray) -> np.ndarray:
        """The first step on a grid after each of ``steps``."""
        begin, end = self._lines_around(steps)
        quarter, within = np.divmod(steps - begin, STEPS_PER_QUARTER)
        following = GRID_STEPS[np.searchsorted(GRID_STEPS, within, side="right")]
        return np.minimum(begin + quarter * STEPS_PER_QUARTER + following, end)

    def bar_number(self, steps: Any) -> Any:
        """The index in :attr:`rows` of the bar in which each of ``steps`` lies, or of the nearest
        bar for a step outside all bars."""
        bar = np.searchsorted(self.lines, steps, side="right") - 1
        return np.clip(bar, 0, len(self.lines) - 2)

    def begin_seconds(self, bar: int) -> float:
        """The time in seconds at which a bar begins."""
        return float(self.beats.seconds(self.lines[bar] / STEPS_PER_QUARTER))

    def _lines_around(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bar lines before and after each of ``steps``."""
        bar = self.bar_number(steps)
        return self.lines[bar], self.lines[bar + 1]
