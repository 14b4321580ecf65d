"""Read the signs for repeats, endings, D.C., D.S., segno, coda and fine."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from math import inf
from typing import Any, NamedTuple

from musictx.musicxml.document import parse_number
from musictx.musicxml.repeats import Jump

#: D.C. and D.S. with the words after them, as engravers write them.
_JUMP = re.compile(
    r"\W*(?:(?P<capo>d\.\s?c\b|dc\b|da\s+capo\b)|d\.\s?s\b|ds\b|dal\s+segno\b)(?P<rest>.*)"
)
_FINE, _CODA, _SEGNO = (re.compile(rf"\W*{word}\W*") for word in ("fine", "coda", "segno"))
_TO_CODA = re.compile(r"\W*(?:al|alla|to|to the)\s+coda\b.*")
#: The most numbers of an ending.
_MOST_NUMBERS = 64
#: Signs at the beginning of a section; all others are at the end of one.
BEGINNINGS = ("forward", "segno", "coda", "bracket")


class Sign(NamedTuple):
    """A sign at ``position`` ticks of a measure, or at its end for a greater position.

    ``kind`` is the name of a field of :class:`RepeatSigns`, or "bracket" or "close" (beginning or
    end of an ending), or "sign" (a coda symbol, which may mean *Coda* or *To Coda*).
    """

    measure: int
    position: float
    kind: str
    value: Any = True


def barline_signs(item: ET.Element, measure: int, position: int) -> Iterator[Sign]:
    """The signs of a ``<barline>``; ``position`` is used for a barline in the middle."""
    location = item.get("location", "right")
    tick = {"left": 0, "middle": position}.get(location, inf)
    for child in item:
        if child.tag == "repeat" and child.get("direction") == "forward":
            yield Sign(measure, tick, "forward")
        elif child.tag == "repeat":
            times = int(parse_number(child.get("times", ""), default=2))
            yield Sign(measure, tick, "backward", max(times, 1))
            if child.get("after-jump") == "yes":
                yield Sign(measure, tick, "again")
        elif child.tag == "ending" and child.get("type") == "start":
            yield Sign(measure, tick, "bracket", _numbers(child.get("number", "")))
        elif child.tag == "ending":
            yield Sign(measure, tick, "close")
        elif child.tag in ("segno", "coda"):
            name = item.get(child.tag, "")
            yield Sign(measure, tick, "segno" if child.tag == "segno" else "sign", (name,))


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
    segno or coda symbol, and the attributes of its ``sound``, for playback. Signs of an end apply
    to the section in which they stand, also at the beginning of a measure."""
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
        yield Sign(measure, inside, "jump", Jump(target, until))
    elif "tocoda" in attributes or _TO_CODA.fullmatch(words):
        yield Sign(measure, inside, "to_coda", (attributes.get("tocoda", ""),))
    elif "coda" in attributes or _CODA.fullmatch(words):
        yield Sign(measure, position, "coda", (attributes.get("coda", ""),))
    elif coda:
        yield Sign(measure, inside, "sign", ("",))
    elif segno or "segno" in attributes or _SEGNO.fullmatch(words):
        yield Sign(measure, position, "segno", (attributes.get("segno", ""),))
    if fine or _FINE.fullmatch(words):
        yield Sign(measure, inside, "fine")
    if attributes.get("forward-repeat") == "yes":
        yield Sign(measure, position, "forward")
