"""Seconds of a score <-> the seconds that its ids count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from musictx.beats import NEAR, Beats


@dataclass(frozen=True)
class Clock:
    """Where the time of ids lies in the score that they are laid into. Ids count from their own
    beginning, in seconds, or in beats as if all music had one tempo; a file has a rest before its
    first note and a tempo map.

    beats   of the score;  begins  the second of the score at which its ids begin
    tempo   quarter notes a minute by which ids count that count beats; ``None``: they count the
            seconds of the score
    """

    beats: Beats
    begins: float = 0.0
    tempo: float | None = None

    @cached_property
    def _first(self) -> float:
        return float(self.beats.quarters(self.begins))

    def seconds(self, time: Any) -> Any:
        """A time of the ids, in seconds of the score."""
        if self.tempo is None:
            return time + self.begins
        return self.beats.seconds(self._first + np.asarray(time) * self.tempo / 60.0)

    def time(self, seconds: float) -> float:
        """The inverse of :meth:`seconds`."""
        if self.tempo is None:
            return seconds - self.begins
        return float(self.beats.quarters(seconds) - self._first) * 60.0 / self.tempo

    def pace(self, begin: float, end: float) -> float:
        """How many seconds of the score, from ``begin`` to ``end``, one second of the ids takes."""
        if self.tempo is None:
            return 1.0
        first, last = (float(self.beats.quarters(at)) for at in (begin, end))
        return (end - begin) / max((last - first) * 60.0 / self.tempo, 1e-6)

    def after_bars(self, seconds: float, bars: int) -> float:
        """The end, in seconds of the score, of ``bars`` whole bars from the first bar line at or
        after ``seconds``, or the one a moment before."""
        line = self.beats.bar_line(float(self.beats.quarters(max(seconds - NEAR, 0.0))), bars)
        return float(self.beats.seconds(line))
