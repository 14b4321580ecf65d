"""Read repeats, endings, D.C., D.S., segno, coda and fine: the marks of each section."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from musictx.musicxml.repeats import Jump, RepeatSigns

#: D.C. and D.S. with the words after them, as engravers write them.
_JUMP = re.compile(
    r"\W*(?:(?P<capo>d\.\s?c\b|dc\b|da\s+capo\b)|d\.\s?s\b|ds\b|dal\s+segno\b)(?P<rest>.*)"
)
_FINE, _CODA, _SEGNO = (re.compile(rf"\W*{word}\W*") for word in ("fine", "coda", "segno"))
_TO_CODA = re.compile(r"\W*(?:al|alla|to|to the)\s+coda\b.*")
#: Limits of the times of a repeat, and of the numbers of an ending.
_MOST_TIMES, _MOST_NUMBERS = 1_000_000, 64


class Sign(NamedTuple):
    """A sign at ``position`` ticks of a measure, ``None`` for its end.

    ``kind`` is the name of a field of :class:`RepeatSigns`, or "bracket" or "close" (beginning or
    end of an ending), or "sign" (a coda symbol, which may mean *Coda* or *To Coda*).
    """

    measure: int
    position: int | None
    kind: str
    value: Any = True
    barline: bool = False


def barline_signs(item: ET.Element, measure: int, position: int) -> Iterator[Sign]:
    """The signs of a ``<barline>``; ``position`` is used for a barline in the middle."""
    location = item.get("location", "right")
    tick = {"left": 0, "middle": position}.get(location)
    for child in item:
        if child.tag == "repeat" and child.get("direction") == "forward":
            yield Sign(measure, tick, "forward", barline=True)
        elif child.tag == "repeat":
            text = child.get("times", "").strip()
            times = min(int(text), _MOST_TIMES) if re.fullmatch("[0-9]{1,9}", text) else 2
            yield Sign(measure, tick, "backward", max(times, 1), barline=True)
            if child.get("after-jump") == "yes":
                yield Sign(measure, tick, "again", barline=True)
        elif child.tag == "ending" and child.get("type") == "start":
            yield Sign(measure, tick, "bracket", _numbers(child.get("number", "")), barline=True)
        elif child.tag == "ending":
            yield Sign(measure, tick, "close", barline=True)
        elif child.tag in ("segno", "coda"):
            name = item.get(child.tag, "")
            yield Sign(measure, tick, "segno" if child.tag == "segno" else "sign", name)


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of an ending, such as "1", "1, 2" or "1-3"; (0,) without a number."""
    numbers: list[int] = []
    for first, last in re.findall(r"(\d{1,2})(?:\s*-\s*(\d{1,2}))?", text)[:_MOST_NUMBERS]:
        numbers += range(int(first), int(last or first) + 1)
    return tuple(sorted({*numbers} - {0})[:_MOST_NUMBERS]) or (0,)


def direction_signs(
    item: ET.Element, sound: ET.Element, words: str, measure: int, position: int
) -> Iterator[Sign]:
    """The signs of a ``<direction>`` or a ``<sound>`` at ``position``: from its ``words``, its
    segno or coda symbol, and the attributes of its ``sound``, for playback."""
    attributes, words = sound.attrib, " ".join(words.lower().split())
    segno, coda = (item.find(f"direction-type/{name}") is not None for name in ("segno", "coda"))
    jump = _JUMP.fullmatch(words) if len(words) < 80 else None
    fine = bool(attributes.get("fine")) and attributes.get("fine") != "no"
    if jump or attributes.get("dacapo") == "yes" or attributes.get("dalsegno"):
        rest = jump["rest"] if jump else ""
        until = "fine" if "fine" in rest else "coda" if "coda" in rest or coda else ""
        to_start = bool(jump and jump["capo"]) or attributes.get("dacapo") == "yes"
        target = None if to_start else attributes.get("dalsegno", "")
        yield Sign(measure, position, "jump", Jump(target, until))
    elif "tocoda" in attributes or _TO_CODA.fullmatch(words):
        yield Sign(measure, position, "to_coda", attributes.get("tocoda", ""))
    elif "coda" in attributes or _CODA.fullmatch(words):
        yield Sign(measure, position, "coda", attributes.get("coda", ""))
    elif coda:
        yield Sign(measure, position, "sign", "")
    elif segno or "segno" in attributes or _SEGNO.fullmatch(words):
        yield Sign(measure, position, "segno", attributes.get("segno", ""))
    if fine or _FINE.fullmatch(words):
        yield Sign(measure, position, "fine")
    if attributes.get("forward-repeat") == "yes":
        yield Sign(measure, position, "forward")


class Sections(NamedTuple):
    """The sections into which signs divide a score.

    bounds    ticks at which sections begin, and the end of the last one
    measures  for each section, the number of its measure
    marks     for each section, its marks
    """

    bounds: list[int]
    measures: list[int]
    marks: list[RepeatSigns]


def sections(parts: Sequence[Sequence[Sign]], starts: Sequence[int]) -> Sections:
    """Divide a score into sections by the signs of all its ``parts``.

    ``starts`` are the ticks at which measures begin, and the end of the last one. Endings are those
    of the first part that has any.
    """
    all_signs = [sign for signs in parts for sign in signs]
    places = {(tick, measure) for measure, tick in enumerate(starts[:-1])} | {
        (starts[sign.measure] + sign.position, sign.measure)
        for sign in all_signs
        if sign.barline and sign.position and sign.kind in ("forward", "backward")
        if sign.position < starts[sign.measure + 1] - starts[sign.measure]
    }
    bounds, measures = ([place[n] for place in sorted(places)] for n in (0, 1))

    def section(sign: Sign) -> int:
        """The section of a sign: that which begins with it for a sign of a beginning, such as a
        segno; that which ends with it for a sign of an end."""
        first, stop = (bisect_left(measures, sign.measure + n) for n in (0, 1))
        begin, end = starts[sign.measure], starts[sign.measure + 1]
        tick = end if sign.position is None else begin + sign.position
        if sign.kind in ("forward", "segno", "coda", "bracket"):
            in_next_measure = sign.position is None or (tick >= end > begin)
            return stop if in_next_measure else bisect_right(bounds, tick, first, stop) - 1
        if sign.barline and sign.position == 0:
            return first - 1
        return max(bisect_left(bounds, tick, first, stop) - 1, first) if tick < end else stop - 1

    def with_sections(signs: Iterable[Sign]) -> list[tuple[int, Sign]]:
        pairs = ((section(sign), sign) for sign in signs)
        return [(number, sign) for number, sign in pairs if 0 <= number < len(measures)]

    marks = [RepeatSigns()] * len(measures)
    for number, sign in with_sections(_resolve_codas(all_signs)):
        if sign.kind in RepeatSigns._fields:
            old, new = getattr(marks[number], sign.kind), sign.value
            if sign.kind in ("segno", "coda", "to_coda"):
                new = (*old, new)
            elif sign.kind == "backward":
                new = max(old, new)
            elif sign.kind == "jump":
                new = old or new
            marks[number] = marks[number]._replace(**{sign.kind: new})
    with_brackets = (
        pairs
        for pairs in map(with_sections, parts)
        if any(sign.kind == "bracket" for _, sign in pairs)
    )
    _put_brackets(marks, next(with_brackets, []))
    return Sections([*bounds, starts[-1]], measures, marks)


def _resolve_codas(signs: Sequence[Sign]) -> Iterator[Sign]:
    """Decide for each coda symbol without words whether it means *Coda* or *To Coda*: *Coda* if the
    words *To Coda* are elsewhere, *To Coda* if the word *Coda* is elsewhere. If there are only
    symbols, the last one is *Coda*."""
    kinds = {sign.kind for sign in signs}
    last = max((sign.measure for sign in signs if sign.kind == "sign"), default=0)
    for sign in signs:
        target = "to_coda" in kinds or ("coda" not in kinds and sign.measure == last)
        yield sign._replace(kind="coda" if target else "to_coda") if sign.kind == "sign" else sign


def _put_brackets(marks: list[RepeatSigns], pairs: Sequence[tuple[int, Sign]]) -> None:
    """Enter the numbers of endings in the marks of their sections.

    An ending lasts until its end mark or a backward repeat; without either, for one section. If its
    end mark comes before the repeat that precedes the next ending, it lasts until that repeat.
    """
    begin: int | None = None
    stop = 0  # the section after the latest ending
    numbers: tuple[int, ...] = (0,)
    for section, sign in sorted(pairs, key=lambda pair: (pair[0], pair[1].kind != "bracket")):
        if sign.kind == "bracket":
            gap = range(stop, section) if sign.value[0] > numbers[-1] > 0 else range(0)
            has_repeat = any(marks[i].forward or marks[i - 1].backward for i in gap)
            if gap and not has_repeat and marks[section - 1].backward:
                for i in gap:
                    marks[i] = marks[i]._replace(ending=numbers)
            begin, stop, numbers = section, section + 1, sign.value
            marks[section] = marks[section]._replace(ending=numbers, opens=True)
        elif sign.kind in ("close", "backward") and begin is not None:
            for i in range(begin + 1, section + 1):
                marks[i] = marks[i]._replace(ending=numbers)
            begin, stop = None, section + 1
        elif sign.kind == "close" and section >= stop and marks[section].backward:
            # The end mark has no beginning.
            marks[section] = marks[section]._replace(ending=(0,), opens=True)
