"""Convert the dynamics and hairpins of a part to velocities."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections.abc import Callable, Iterable
from math import inf
from operator import itemgetter
from typing import NamedTuple

from musictx.musicxml.document import parse_number

#: The velocity without a mark: mezzo-forte.
VELOCITY = 80
#: Dynamics -> velocity, as notation programs play them and write them as percentages of ``FULL``
#: (p: 54.44). The words of the option ``loudness`` are means of played music, which is softer.
#: A hairpin without a mark at its end changes the velocity by ``STEP``.
LEVELS = {
    "pppp": 17, "ppp": 20, "pp": 33, "p": 49, "mp": 64, "mf": VELOCITY, "f": 96, "ff": 112,
    "fff": 124, "ffff": 127,
}  # fmt: skip
STEP = 16
#: Marks that make only the notes that begin with them louder, by ``STEP``.
ACCENTS = ("sf", "sfz", "sffz", "fz", "rf", "rfz", "sfp", "sfpp")
#: The velocity of 100 % in ``<sound dynamics>`` and ``<note dynamics>``.
FULL = 90


class Mark(NamedTuple):
    """A mark of loudness: ``kind`` "level" with a velocity as ``value``, "accent", or "crescendo",
    "diminuendo" or "stop" with the number of the hairpin."""

    kind: str
    value: int


def read_dynamics(direction: ET.Element, sound: ET.Element) -> list[Mark]:
    """The marks of loudness in a ``<direction>`` with its ``<sound>``. If there are both letters
    and a percentage for playback, the percentage is used."""
    names = [e.tag for e in direction.iterfind("direction-type/dynamics/*")]
    marks = [Mark("accent", 0) for name in names if name in ACCENTS]
    levels = [LEVELS[name] for name in names if name in LEVELS]
    levels += [LEVELS["p"] for name in names if name in ("fp", "sfp", "pf")]
    if (velocity := percent_of(sound.get("dynamics", ""))) is not None:
        levels = [velocity]
    marks += [Mark("level", velocity) for velocity in levels[-1:]]
    for wedge in direction.iterfind("direction-type/wedge"):
        if (kind := wedge.get("type", "")) in ("crescendo", "diminuendo", "stop"):
            marks.append(Mark(kind, int(parse_number(wedge.get("number"), default=1))))
    return marks


def percent_of(text: str) -> int | None:
    """The velocity, 1 to 127, of a percentage such as "71.1"; ``None`` if it is not a number."""
    percent = parse_number(text, default=-1)
    return max(1, min(127, round(percent * FULL / 100))) if percent >= 0 else None


def loudness(marks: Iterable[tuple[int, Mark]], near: int) -> Callable[[int], int]:
    """The function from the tick at which a note begins, on the page, to its velocity, 1 to 127, by
    the ``marks`` of its part.

    The velocity changes linearly in a hairpin. It reaches the mark at the end of the hairpin, or at
    most ``near`` ticks after its end, or else changes by ``STEP``.
    """
    ordered = sorted(marks, key=lambda pair: (pair[0], pair[1].kind != "stop"))
    levels = [(float(tick), mark.value) for tick, mark in ordered if mark.kind == "level"]
    levels.append((inf, 0))
    accents = {tick for tick, mark in ordered if mark.kind == "accent"}
    ends: dict[int, int] = {}  # index of a hairpin in ``ordered`` -> the tick of its end
    open_hairpins: dict[int, int] = {}  # number of a hairpin -> its index
    for index, (tick, mark) in enumerate(ordered):
        if mark.kind == "stop" and mark.value in open_hairpins:
            ends[open_hairpins.pop(mark.value)] = tick
        elif mark.kind in ("crescendo", "diminuendo"):
            open_hairpins[mark.value] = index
    #: (tick, velocity, end tick, velocity at the end) of each level and hairpin.
    segments = [(-1, VELOCITY, 0, VELOCITY)]

    def level_at(tick: int) -> int:
        begin, level, end, target = segments[bisect_right(segments, tick, key=itemgetter(0)) - 1]
        if tick >= end:
            return target
        return round(level + (target - level) * (tick - begin) / (end - begin))

    for index, (tick, mark) in enumerate(ordered):
        if mark.kind == "level":
            segments.append((tick, mark.value, tick, mark.value))
        elif (end := ends.get(index, tick)) > tick:
            level = level_at(tick)
            change = STEP if mark.kind == "crescendo" else -STEP
            next_tick, next_level = levels[bisect_right(levels, (tick, 127))]
            reaches = next_tick <= end + near and (next_level - level) * change > 0
            target = max(10, min(126, next_level if reaches else level + change))
            segments.append((tick, level, end, target))
    return lambda tick: min(127, level_at(tick) + STEP * (tick in accents))
