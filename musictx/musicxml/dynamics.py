"""Convert the dynamics and hairpins of a part to velocities."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

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


def read_dynamics(direction: ET.Element, sound: ET.Element) -> Iterator[tuple[str, Any]]:
    """The marks of loudness in a ``<direction>`` with its ``<sound>``: ("level", velocity),
    ("accent", None) and ("hairpin", (type, number)). If there are both letters and a percentage for
    playback, the percentage is used."""
    names = [e.tag for e in direction.iterfind("direction-type/dynamics/*")]
    levels = [LEVELS[name] for name in names if name in LEVELS]
    levels += [LEVELS["p"] for name in names if name in ("fp", "sfp", "pf")]
    if (velocity := percent_of(sound.get("dynamics", ""))) is not None:
        levels = [velocity]
    if levels:
        yield "level", levels[-1]
    if any(name in ACCENTS for name in names):
        yield "accent", None
    for wedge in direction.iterfind("direction-type/wedge"):
        yield "hairpin", (wedge.get("type"), wedge.get("number", "1"))


def percent_of(text: str) -> int | None:
    """The velocity, 1 to 127, of a percentage such as "71.1"; ``None`` if it is not a number."""
    percent = parse_number(text, default=-1)
    return max(1, min(127, round(percent * FULL / 100))) if percent >= 0 else None


def loudness(marks: Mapping[str, Sequence[tuple[int, Any]]], near: int) -> Callable[[int], int]:
    """The function from the tick at which a note begins, on the page, to its velocity, 1 to 127, by
    the ``marks`` of its part: kind, as in :func:`read_dynamics`, -> (tick, value).

    The velocity changes linearly in a hairpin. It reaches the mark at the end of the hairpin, or at
    most ``near`` ticks after its end, or else changes by ``STEP``.
    """
    accents = {tick for tick, _ in marks["accent"]}
    levels = sorted(marks["level"], key=itemgetter(0))
    #: (tick, end tick, velocity) of each level, (tick, end tick, change) of each hairpin.
    changes = [(tick, tick, velocity) for tick, velocity in levels]
    begins: dict[str, tuple[int, int]] = {}  # number of an open hairpin -> its tick and change
    for tick, (kind, number) in sorted(
        marks["hairpin"], key=lambda mark: (mark[0], mark[1][0] != "stop")
    ):
        if kind in ("crescendo", "diminuendo"):
            begins[number] = tick, STEP if kind == "crescendo" else -STEP
        elif kind == "stop" and number in begins:
            begin, change = begins.pop(number)
            changes.append((begin, tick, change))
    #: (tick, velocity, end tick, velocity at the end) of each change.
    segments = [(-1, VELOCITY, 0, VELOCITY)]

    def level_at(tick: int) -> int:
        begin, level, end, target = segments[bisect_right(segments, tick, key=itemgetter(0)) - 1]
        if tick >= end:
            return target
        return round(level + (target - level) * (tick - begin) / (end - begin))

    for begin, end, value in sorted(changes, key=itemgetter(0, 1)):
        if begin == end:
            segments.append((begin, value, end, value))
            continue
        level = level_at(begin)
        target = level + value
        following = bisect_right(levels, begin, key=itemgetter(0))
        for tick, velocity in levels[following : following + 1]:
            if tick <= end + near and (velocity - level) * value > 0:
                target = velocity
        segments.append((begin, level, end, max(10, min(126, target))))
    return lambda tick: min(127, level_at(tick) + STEP * (tick in accents))
