"""Unfold repeats: convert ticks of the page to ticks of the music as it is played."""

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


class Unfolding:
    """The sections of ``page`` in the order in which they are played, ``numbers``.

    bar_lines  ticks, as played, at which measures begin, and the end of the last one
    """

    def __init__(self, page: Sections, numbers: Sequence[int]) -> None:
        #: (begin and end on the page, shift to the ticks as played) of successive sections.
        self._spans: list[tuple[int, float, int]] = []
        self.bar_lines: list[int] = []
        bounds, clock, begin = page.bounds, 0, 0
        for before, number in pairwise([-2, *numbers]):
            if number != before + 1:
                if before >= 0:
                    self._spans.append((begin, bounds[before + 1], clock - bounds[before + 1]))
                begin = bounds[number]
            if number != before + 1 or page.measures[number] != page.measures[before]:
                self.bar_lines.append(clock)
            clock += bounds[number + 1] - bounds[number]
        last = bounds[numbers[-1] + 1] if len(numbers) else 0
        # A mark at the end of the page, such as a fermata, belongs to the last section.
        self._spans.append((begin, inf if last == bounds[-1] else last, clock - last))
        self.bar_lines.append(clock)

    def count(self, ticks: Iterable[int]) -> int:
        """The number of notes or marks at ``ticks`` of the page, each as often as it is played."""
        ordered = sorted(ticks)
        return sum(
            bisect_left(ordered, end) - bisect_left(ordered, begin) for begin, end, _ in self._spans
        )

    def events(self, marks: Iterable[Mark[Value]]) -> Iterator[tuple[int, Value, int]]:
        """Yield a mark each time that it is played: its tick as played, its value, and how often it
        was played before."""
        ordered = sorted(marks, key=lambda mark: mark[0])
        ticks = [tick for tick, _ in ordered]
        times: Counter[int] = Counter()
        for begin, end, shift in self._spans:
            for index in range(bisect_left(ticks, begin), bisect_left(ticks, end)):
                tick, value = ordered[index]
                yield tick + shift, value, times[index]
                times[index] += 1

    def in_force(self, marks: dict[int, Value], default: Value | None = None) -> dict[int, Value]:
        """Marks that hold until the next one, such as tempi, at their ticks as played.

        After a jump the mark that holds there on the page is added, if it differs from the mark
        before the jump.
        """
        ticks = sorted(marks)
        played: dict[int, Value] = {}
        current = default
        for number, (begin, end, shift) in enumerate(self._spans):
            first, stop = bisect_left(ticks, begin), bisect_left(ticks, end)
            on_page = marks[ticks[first - 1]] if first else default
            if number and on_page is not None and on_page != current:
                played[begin + shift] = on_page
            if on_page is not None:
                current = on_page
            for tick in ticks[first:stop]:
                played[tick + shift] = current = marks[tick]
        return played
