"""Read the signs for repeats, endings, D.C., D.S., segno, coda and fine; divide the notation into
sections; convert written ticks to played ticks, those of the piece with its repeats."""

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
#: The most numbers that one ending may have.
_MAX_NUMBERS = 64
#: Kinds of signs that apply to the section that begins with them; all others to the one that ends.
_BEGINNINGS = ("forward", "segno", "coda", "bracket")


def barline_signs(item: ET.Element, position: int) -> Iterator[tuple[float, str, Any]]:
    """Yield (tick in the measure, kind, value) of the signs of a ``<barline>``. The tick is
    infinite at the end of the measure, and ``position`` for a barline in its middle.

    The kind is the name of a field of :class:`RepeatSigns`, or "bracket" or "close" (beginning or
    end of an ending), or "symbol" (of a coda, which may mean *Coda* or *To Coda*).
    """
    tick = {"left": 0, "middle": position}.get(item.get("location", "right"), inf)
    for child in item:
        if child.tag == "repeat" and child.get("direction") == "forward":
            yield tick, "forward", True
        elif child.tag == "repeat":
            times = int(parse_number(child.get("times", ""), default=2))
            yield tick, "backward", max(times, 1)
            if child.get("after-jump") == "yes":
                yield tick, "after_jump", True
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
    for first, last in re.findall(r"(\d{1,2})(?:\s*-\s*(\d{1,2}))?", text)[:_MAX_NUMBERS]:
        numbers += range(int(first), int(last or first) + 1)
    return tuple(sorted({*numbers} - {0})[:_MAX_NUMBERS]) or (0,)


def direction_signs(
    item: ET.Element, sound: ET.Element, words: str, position: int
) -> Iterator[tuple[int, str, Any]]:
    """Yield (tick in the measure, kind, value) of the signs of a ``<direction>`` or a ``<sound>``
    at the tick ``position``: from its ``words``, its segno or coda symbol, and the attributes of
    its ``sound``, which are for playback."""
    # Signs for the end of a section apply to the section around them, also at the tick 0.
    inside = max(position, 1)
    attributes, words = sound.attrib, " ".join(words.lower().split())
    has_segno = item.find("direction-type/segno") is not None
    has_coda = item.find("direction-type/coda") is not None
    jump = _JUMP.fullmatch(words) if len(words) < 80 else None
    fine = bool(attributes.get("fine")) and attributes.get("fine") != "no"
    if jump or attributes.get("dacapo") == "yes" or attributes.get("dalsegno"):
        rest = jump["rest"] if jump else ""
        until = "fine" if "fine" in rest else "coda" if "coda" in rest or has_coda else ""
        to_start = bool(jump and jump["capo"]) or attributes.get("dacapo") == "yes"
        target = None if to_start else attributes.get("dalsegno", "")
        yield inside, "jump", Jump(target, until)
    elif "tocoda" in attributes or _TO_CODA.fullmatch(words):
        yield inside, "to_coda", (attributes.get("tocoda", ""),)
    elif "coda" in attributes or _CODA.fullmatch(words):
        yield position, "coda", (attributes.get("coda", ""),)
    elif has_coda:
        yield inside, "symbol", ("",)
    elif has_segno or "segno" in attributes or _SEGNO.fullmatch(words):
        yield position, "segno", (attributes.get("segno", ""),)
    if fine or _FINE.fullmatch(words):
        yield inside, "fine", True
    if attributes.get("forward-repeat") == "yes":
        yield position, "forward", True


def sections(
    parts: Sequence[dict[str, list[Mark]]], starts: Sequence[int]
) -> tuple[list[int], list[RepeatSigns]]:
    """Divide the notation into sections (measures, or parts of them between repeat signs) by the
    signs of all ``parts``, {kind: marks}. The signs are removed from ``parts``.

    ``starts`` are the written ticks at which measures begin, and the end of the last one. Returns
    the same for sections, and the signs of each section. If parts disagree on a repeat or a jump,
    the first one counts; endings are those of the first part that has any.
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
    brackets, end_marks = next((pair for pair in endings if pair[0]), ([], []))
    last_sections = {section for section, _ in by_section("close", end_marks)}
    _set_endings(marks, dict(by_section("bracket", brackets)), last_sections)
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
    marks: list[RepeatSigns], brackets: dict[int, tuple[int, ...]], last_sections: set[int]
) -> None:
    """Set ``ending`` and ``opens`` in the ``marks`` of sections under a bracket. ``brackets`` maps
    the first section of each bracket to its numbers; ``last_sections`` have an end mark.

    An ending lasts until its end mark or a backward repeat; without either, for one section. If its
    end mark comes before the repeat that precedes the next ending, it lasts until that repeat.
    """
    for begin, following in pairwise([*sorted(brackets), len(marks)]):
        numbers, next_numbers = brackets[begin], brackets.get(following, (0,))
        repeats = [i for i in range(begin, following) if marks[i].backward]
        ends = (i for i in range(begin, following) if i in last_sections or marks[i].backward)
        end = next(ends, begin)
        is_open = not any(mark.forward for mark in marks[end + 1 : following])
        if repeats == [following - 1] and is_open and next_numbers[0] > numbers[-1] > 0:
            end = following - 1
        for i in range(begin, end + 1):
            marks[i] = marks[i]._replace(ending=numbers, opens=i == begin)
    for section in last_sections:  # an end mark without a beginning
        if marks[section].backward and not marks[section].ending:
            marks[section] = marks[section]._replace(ending=(0,), opens=True)


class Unfolding:
    """Converts written ticks to played ticks, for sections that are played in the order
    ``numbers``. ``bounds`` and ``starts`` are the written ticks at which sections and measures
    begin, and the end of the last one.

    bar_lines  played ticks at which measures begin, and the end of the last one
    """

    def __init__(
        self, bounds: Sequence[int], starts: Iterable[int], numbers: Sequence[int]
    ) -> None:
        self.bar_lines: list[int] = []
        self._bounds = bounds
        #: For each section, played tick minus written tick each time that it is played.
        self._shifts: list[list[int]] = [[] for _ in bounds]
        #: (played tick, written tick before the jump, written tick after it) of each jump.
        self._jumps: list[tuple[int, int, int]] = []
        measures, played, previous = {*starts}, 0, -1
        for number in numbers:
            begin, end = bounds[number], bounds[number + 1]
            if number != previous + 1:
                self._jumps.append((played, bounds[previous + 1], begin))
            if number != previous + 1 or begin in measures:
                self.bar_lines.append(played)
            self._shifts[number].append(played - begin)
            played, previous = played + end - begin, number
        self.bar_lines.append(played)
        if previous + 1 == len(bounds) - 1:  # marks at the end of the last section, as a fermata
            self._shifts[-1].append(played - bounds[-1])

    def _shifts_at(self, tick: int) -> list[int]:
        return self._shifts[bisect_right(self._bounds, tick) - 1]

    def count(self, ticks: Iterable[int]) -> int:
        """The number of events at these written ``ticks``, each as often as it is played."""
        return sum(len(self._shifts_at(tick)) for tick in ticks)

    def events(self, marks: Iterable[Mark[Value]]) -> list[tuple[int, Value, int]]:
        """Each mark each time that it is played: (played tick, value, number of times that it was
        played before), sorted by tick."""
        events = (
            (tick + shift, value, times)
            for tick, value in marks
            for times, shift in enumerate(self._shifts_at(tick))
        )
        return sorted(events, key=itemgetter(0))

    def lasting(self, marks: dict[int, Value], default: Value | None = None) -> dict[int, Value]:
        """Convert {written tick: value} of marks that apply until the next one, such as tempos, to
        {played tick: value}. After a jump to a place where another mark applies than before the
        jump, this mark is added."""
        ticks = sorted(marks)

        def value_before(tick: int) -> Value | None:
            index = bisect_left(ticks, tick)
            return marks[ticks[index - 1]] if index else default

        result = {tick: value for tick, value, _ in self.events(marks.items())}
        for tick, origin, target in self._jumps:
            value = value_before(target)
            if value is not None and value != value_before(origin):
                result.setdefault(tick, value)
        return result
