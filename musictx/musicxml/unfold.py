"""Divide a page into sections, and convert its ticks to ticks of the music as it is played."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple, TypeVar

from musictx.musicxml.repeats import RepeatSigns
from musictx.musicxml.signs import BEGINNINGS, Sign

Value = TypeVar("Value")
#: A mark: its tick and its value.
Mark = tuple[int, Value]


class Sections(NamedTuple):
    """The measures of a page, some of them divided by repeat signs.

    bounds    ticks at which sections begin, and the end of the last one
    measures  ticks at which measures begin
    marks     for each section, its repeat signs
    """

    bounds: list[int]
    measures: frozenset[int]
    marks: list[RepeatSigns]


def sections(parts: Iterable[Sequence[Sign]], starts: Sequence[int]) -> Sections:
    """Divide a page into sections by the signs of all its ``parts``.

    ``starts`` are the ticks at which measures begin, and the end of the last one. If parts disagree
    on a repeat or a jump, the first one counts; endings are those of the first part that has any.
    """
    placed = [
        [(min(starts[sign.measure] + sign.position, starts[sign.measure + 1]), sign)
         for sign in signs]
        for signs in parts
    ]  # fmt: skip
    all_signs = _resolve_codas([pair for pairs in placed for pair in pairs])
    repeats = (int(tick) for tick, sign in all_signs if sign.kind in ("forward", "backward"))
    bounds = sorted({*starts, *repeats})
    marks = [RepeatSigns()] * (len(bounds) - 1)

    def with_sections(pairs: Iterable[tuple[float, Sign]]) -> Iterator[tuple[int, Sign]]:
        """The sections that begin or end with each sign."""
        for tick, sign in pairs:
            find = bisect_right if sign.kind in BEGINNINGS else bisect_left
            section = find(bounds, tick) - 1
            if 0 <= section < len(marks):
                yield section, sign

    for section, sign in with_sections(all_signs):
        if sign.kind in RepeatSigns._fields:
            old = getattr(marks[section], sign.kind)
            named = sign.kind in ("segno", "coda", "to_coda")
            new = old + sign.value if named else old or sign.value
            marks[section] = marks[section]._replace(**{sign.kind: new})
    bracketed = (p for p in placed if any(sign.kind == "bracket" for _, sign in p))
    _put_endings(marks, list(with_sections(next(bracketed, []))))
    return Sections(bounds, frozenset(starts), marks)


def _resolve_codas(signs: Sequence[tuple[float, Sign]]) -> list[tuple[float, Sign]]:
    """Decide for each coda symbol without words whether it means *Coda* or *To Coda*: *Coda* if the
    words *To Coda* are elsewhere, *To Coda* if the word *Coda* is elsewhere. If there are only
    symbols, the last one is *Coda*."""
    kinds = {sign.kind for _, sign in signs}
    last = max((sign.measure for _, sign in signs if sign.kind == "sign"), default=0)
    resolved = []
    for tick, sign in signs:
        if sign.kind == "sign":
            target = "to_coda" in kinds or ("coda" not in kinds and sign.measure == last)
            sign = sign._replace(kind="coda" if target else "to_coda")
        resolved.append((tick, sign))
    return resolved


def _put_endings(marks: list[RepeatSigns], signs: list[tuple[int, Sign]]) -> None:
    """Enter the numbers of endings in the marks of their sections.

    An ending lasts until its end mark or a backward repeat; without either, for one section. If its
    end mark comes before the repeat that precedes the next ending, it lasts until that repeat.
    """
    brackets = {section: sign.value for section, sign in signs if sign.kind == "bracket"}
    closed = {section for section, sign in signs if sign.kind == "close"}
    for begin, following in pairwise([*sorted(brackets), len(marks)]):
        numbers, next_numbers = brackets[begin], brackets.get(following, (0,))
        repeats = [i for i in range(begin, following) if marks[i].backward]
        end = min([i for i in closed if begin <= i < following] + repeats, default=begin)
        is_open = not any(mark.forward for mark in marks[end + 1 : following])
        if repeats == [following - 1] and is_open and next_numbers[0] > numbers[-1] > 0:
            end = following - 1
        for i in range(begin, end + 1):
            marks[i] = marks[i]._replace(ending=numbers, opens=i == begin)
    for section in closed:  # an end mark without a beginning
        if marks[section].backward and not marks[section].ending:
            marks[section] = marks[section]._replace(ending=(0,), opens=True)


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
            if number != before + 1 or bounds[number] in page.measures:
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
