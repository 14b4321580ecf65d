"""Plays the repeats of written music: each section as often as it is played, at its times."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import TypeVar

from musictx.musicxml.signs import Sections

Value = TypeVar("Value")
#: A mark: its tick and its value.
Mark = tuple[int, Value]


class Played:
    """The sections of ``page``, the music as it is written, in the order in which they are played:
    ``numbers`` of sections.

    lines  ticks of the music as it is played at which measures begin, and its end
    """

    def __init__(self, page: Sections, numbers: Sequence[int]) -> None:
        self._spans: list[tuple[int, float, int]] = []  # begin and end on the page; how much later
        self.lines: list[int] = []
        bounds, clock, begin = page.bounds, 0, 0
        for before, number in pairwise([-2, *numbers]):
            if number != before + 1:
                if before >= 0:
                    self._spans.append((begin, bounds[before + 1], clock - bounds[before + 1]))
                begin = bounds[number]
            if number != before + 1 or page.measures[number] != page.measures[before]:
                self.lines.append(clock)
            clock += bounds[number + 1] - bounds[number]
        last = bounds[numbers[-1] + 1] if len(numbers) else 0
        # What stands at the end of the page, such as a fermata, is played with its last section.
        self._spans.append((begin, inf if last == bounds[-1] else last, clock - last))
        self.lines.append(clock)

    def count(self, ticks: Iterable[int]) -> int:
        """The number of notes or marks that are played, of those at ``ticks`` of the page: each
        counts as often as it is played."""
        at = sorted(ticks)
        return sum(bisect_left(at, end) - bisect_left(at, begin) for begin, end, _ in self._spans)

    def events(self, marks: Iterable[Mark[Value]]) -> Iterator[tuple[int, Value, int]]:
        """Yields for each time that a mark is played its tick, its value, and how often the mark
        was played before."""
        ordered = sorted(marks, key=lambda mark: mark[0])
        ticks = [tick for tick, _ in ordered]
        times: Counter[int] = Counter()
        for begin, end, later in self._spans:
            for at in range(bisect_left(ticks, begin), bisect_left(ticks, end)):
                tick, value = ordered[at]
                yield tick + later, value, times[at]
                times[at] += 1

    def in_force(self, marks: dict[int, Value], default: Value | None = None) -> dict[int, Value]:
        """Marks that are valid until the next one, such as tempi, at the ticks at which they are
        played. Where the music jumps, the mark that is valid there is added, if it differs from the
        one that was valid before the jump."""
        ticks = sorted(marks)
        played: dict[int, Value] = {}
        force = default
        for number, (begin, end, later) in enumerate(self._spans):
            first, stop = bisect_left(ticks, begin), bisect_left(ticks, end)
            there = marks[ticks[first - 1]] if first else default
            if number and there is not None and there != force:
                played[begin + later] = there
            if there is not None:
                force = there
            for tick in ticks[first:stop]:
                played[tick + later] = force = marks[tick]
        return played
