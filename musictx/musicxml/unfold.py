"""Read the signs for repeats, endings, D.C., D.S., segno, coda and fine; divide the page into
sections; convert ticks of the page to ticks of the piece as it is played."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from operator import itemgetter
from typing import Any, TypeVar

from musictx.musicxml.document import parse_number
from musictx.musicxml.repeats import Jump, RepeatSigns

Value = TypeVar("Value")
#: A mark: its tick and its value.
Mark = tuple[int, Value]
#: D.C. and D.S. with the words after them, as engravers write them.
_JUMP = re.compile(
    r"\W*(?:(?P<capo>d\.\s?c\b|dc\b|da\s+capo\b)|d\.\s?s\b|ds\b|dal\s+segno\b)(?P<rest>.*)"
)
_FINE, _CODA, _SEGNO = (re.compile(rf"\W*{word}\W*") for word in ("fine", "coda", "segno"))
_TO_CODA = re.compile(r"\W*(?:al|alla|to|to the)\s+coda\b.*")
#: The most numbers of an ending.
_MOST_NUMBERS = 64
#: Kinds of signs at the beginning of a section; all others are at the end of one.
_BEGINNINGS = ("forward", "segno", "coda", "bracket")


def barline_signs(item: ET.Element, position: int) -> Iterator[tuple[float, str, Any]]:
    """The signs of a ``<barline>``: the tick in the measure, infinite for its end; the kind; and
    the value. ``position`` is used for a barline in the middle.

    The kind is the name of a field of :class:`RepeatSigns`, or "bracket" or "close" (beginning or
    end of an ending), or "symbol" (of a coda, which may mean *Coda* or *To Coda*).
    """
    location = item.get("location", "right")
    tick = {"left": 0, "middle": position}.get(location, inf)
    for child in item:
        if child.tag == "repeat" and child.get("direction") == "forward":
            yield tick, "forward", True
        elif child.tag == "repeat":
            times = int(parse_number(child.get("times", ""), default=2))
            yield tick, "backward", max(times, 1)
            if child.get("after-jump") == "yes":
                yield tick, "again", True
        elif child.tag == "ending" and child.get("type") == "start":
            yield tick, "bracket", _numbers(child.get("number", ""))
        elif child.tag == "ending":
            yield tick, "close", True
        elif child.tag in ("segno", "coda"):
            name = item.get(child.tag, "")
            yield tick, "segno" if child.tag == "segno" else "symbol", (name,)


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of an ending, such as "1", "1, 2" or "1-3"; (0,) without a number."""
    numbers: list[int] = []
    for first, last in re.findall(r"(\d{1,2})(?:\s*-\s*(\d{1,2}))?", text)[:_MOST_NUMBERS]:
        numbers += range(int(first), int(last or first) + 1)
    return tuple(sorted({*numbers} - {0})[:_MOST_NUMBERS]) or (0,)


def direction_signs(
    item: ET.Element, sound: ET.Element, words: str, position: int
) -> Iterator[tuple[int, str, Any]]:
    """The signs of a ``<direction>`` or a ``<sound>`` at ``position``: from its ``words``, its
    segno or coda symbol, and the attributes of its ``sound``, for playback. Signs for the end of a
    section apply to the section in which they are, even at the beginning of a measure."""
    inside = max(position, 1)
    attributes, words = sound.attrib, " ".join(words.lower().split())
    segno, coda = (item.find(f"direction-type/{name}") is not None for name in ("segno", "coda"))
    jump = _JUMP.fullmatch(words) if len(words) < 80 else None
    fine = bool(attributes.get("fine")) and attributes.get("fine") != "no"
    if jump or attributes.get("dacapo") == "yes" or attributes.get("dalsegno"):
        rest = jump["rest"] if jump else ""
        until = "fine" if "fine" in rest else "coda" if "coda" in rest or coda else ""
        to_start = bool(jump and jump["capo"]) or attributes.get("dacapo") == "yes"
        target = None if to_start else attributes.get("dalsegno", "")
        yield inside, "jump", Jump(target, until)
    elif "tocoda" in attributes or _TO_CODA.fullmatch(words):
        yield inside, "to_coda", (attributes.get("tocoda", ""),)
    elif "coda" in attributes or _CODA.fullmatch(words):
        yield position, "coda", (attributes.get("coda", ""),)
    elif coda:
        yield inside, "symbol", ("",)
    elif segno or "segno" in attributes or _SEGNO.fullmatch(words):
        yield position, "segno", (attributes.get("segno", ""),)
    if fine or _FINE.fullmatch(words):
        yield inside, "fine", True
    if attributes.get("forward-repeat") == "yes":
        yield position, "forward", True


def sections(
    parts: Sequence[dict[str, list[Mark]]], starts: Sequence[int]
) -> tuple[list[int], list[RepeatSigns]]:
    """Divide a page into sections (measures or parts of them) by the signs of all its ``parts``,
    kind -> marks, from which the signs are removed. Return the ticks at which sections begin and
    the end of the last one, and the signs of each section.

    ``starts`` are the ticks at which measures begin, and the end of the last one. If parts disagree
    on a repeat or a jump, the first one counts; endings are those of the first part that has any.
    """
    endings = [(marks.pop("bracket", []), marks.pop("close", [])) for marks in parts]
    signs: dict[str, list[Mark]] = {
        kind: [mark for marks in parts for mark in marks.pop(kind, [])]
        for kind in (*RepeatSigns._fields, "symbol")
    }
    _resolve_codas(signs)
    bounds = sorted({*starts, *(tick for tick, _ in signs["forward"] + signs["backward"])})
    marks = [RepeatSigns()] * (len(bounds) - 1)

    def by_section(kind: str, signs: list[Mark]) -> Iterator[Mark]:
        """Yield for each sign the section that begins or ends with it, and its value."""
        find = bisect_right if kind in _BEGINNINGS else bisect_left
        for tick, value in signs:
            if 0 <= (section := find(bounds, tick) - 1) < len(marks):
                yield section, value

    for kind in RepeatSigns._fields:
        for section, value in by_section(kind, signs[kind]):
            old = getattr(marks[section], kind)
            new = old + value if kind in ("segno", "coda", "to_coda") else old or value
            marks[section] = marks[section]._replace(**{kind: new})
    brackets, closes = next((pair for pair in endings if pair[0]), ([], []))
    closed = {section for section, _ in by_section("close", closes)}
    _set_endings(marks, dict(by_section("bracket", brackets)), closed)
    return bounds, marks


def _resolve_codas(signs: dict[str, list[Mark]]) -> None:
    """Decide for each coda symbol without words whether it means *Coda* or *To Coda*: *Coda* if the
    words *To Coda* are elsewhere, *To Coda* if the word *Coda* is elsewhere. If there are only
    symbols, the last one is *Coda*."""
    symbols = sorted(signs["symbol"])
    if signs["to_coda"]:
        signs["coda"] += symbols
    elif signs["coda"]:
        signs["to_coda"] += symbols
    else:
        signs["to_coda"] += [mark for mark in symbols if mark[0] < symbols[-1][0]]
        signs["coda"] += [mark for mark in symbols if mark[0] == symbols[-1][0]]


def _set_endings(
    marks: list[RepeatSigns], brackets: dict[int, tuple[int, ...]], closed: set[int]
) -> None:
    """Set ``ending`` and ``opens`` in the ``marks`` of sections under a bracket. ``brackets`` maps
    the first section of each bracket to its numbers; ``closed`` are sections with an end mark.

    An ending lasts until its end mark or a backward repeat; without either, for one section. If its
    end mark comes before the repeat that precedes the next ending, it lasts until that repeat.
    """
    for begin, following in pairwise([*sorted(brackets), len(marks)]):
        numbers, next_numbers = brackets[begin], brackets.get(following, (0,))
        repeats = [i for i in range(begin, following) if marks[i].backward]
        ends = (i for i in range(begin, following) if i in closed or marks[i].backward)
        end = next(ends, begin)
        is_open = not any(mark.forward for mark in marks[end + 1 : following])
        if repeats == [following - 1] and is_open and next_numbers[0] > numbers[-1] > 0:
            end = following - 1
        for i in range(begin, end + 1):
            marks[i] = marks[i]._replace(ending=numbers, opens=i == begin)
    for section in closed:  # an end mark without a beginning
        if marks[section].backward and not marks[section].ending:
            marks[section] = marks[section]._replace(ending=(0,), opens=True)


class Unfolding:
    """The order in which a piece is played: ``numbers`` of sections, which are between the ticks
    ``bounds`` of the page. ``starts`` are the ticks at which measures begin on the page.

    bar_lines  ticks, as played, at which measures begin, and the end of the last one
    """

    def __init__(
        self, bounds: Sequence[int], starts: Iterable[int], numbers: Sequence[int]
    ) -> None:
        self.bar_lines: list[int] = []
        self._bounds = bounds
        #: For each section and each time that it is played, what is added to its ticks.
        self._shifts: list[list[int]] = [[] for _ in bounds]
        #: (tick as played, tick on the page before, tick on the page after) of each jump.
        self._jumps: list[tuple[int, int, int]] = []
        measures, clock, previous = {*starts}, 0, -1
        for number in numbers:
            begin, end = bounds[number], bounds[number + 1]
            if number != previous + 1:
                self._jumps.append((clock, bounds[previous + 1], begin))
            if number != previous + 1 or begin in measures:
                self.bar_lines.append(clock)
            self._shifts[number].append(clock - begin)
            clock, previous = clock + end - begin, number
        self.bar_lines.append(clock)
        if previous + 1 == len(bounds) - 1:  # marks at the end of the page, such as a fermata
            self._shifts[-1].append(clock - bounds[-1])

    def _shifts_at(self, tick: int) -> list[int]:
        return self._shifts[max(bisect_right(self._bounds, tick) - 1, 0)]

    def count(self, ticks: Iterable[int]) -> int:
        """The number of notes or marks at ``ticks`` of the page, each as often as it is played."""
        return sum(len(self._shifts_at(tick)) for tick in ticks)

    def events(self, marks: Iterable[Mark[Value]]) -> list[tuple[int, Value, int]]:
        """Each mark, each time that it is played: (tick as played, value, number of times that it
        was played before), sorted by tick."""
        played = (
            (tick + shift, value, times)
            for tick, value in marks
            for times, shift in enumerate(self._shifts_at(tick))
        )
        return sorted(played, key=itemgetter(0))

    def held_marks(self, marks: dict[int, Value], default: Value | None = None) -> dict[int, Value]:
        """Convert the ticks of marks that hold until the next one, such as tempi, to ticks as
        played. After a jump, the mark that holds there on the page is added if it is not the same
        as before the jump."""
        ticks = sorted(marks)

        def value_before(tick: int) -> Value | None:
            index = bisect_left(ticks, tick)
            return marks[ticks[index - 1]] if index else default

        played = {tick: value for tick, value, _ in self.events(marks.items())}
        for tick, left, entered in self._jumps:
            value = value_before(entered)
            if value is not None and value != value_before(left):
                played.setdefault(tick, value)
        return played
