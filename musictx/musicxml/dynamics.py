"""How loud a part is: its dynamics and hairpins -> the velocity at each moment."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections.abc import Iterable
from math import inf
from operator import itemgetter
from typing import NamedTuple

#: Where nothing is marked: mezzo-forte.
VELOCITY = 80
#: Marks that hold -> velocity; a hairpin that leads to none of them changes it by one step.
LEVELS = {
    "pppp": 17, "ppp": 20, "pp": 33, "p": 49, "mp": 64, "mf": VELOCITY, "f": 96, "ff": 112,
    "fff": 124, "ffff": 127,
}  # fmt: skip
STEP = 16
#: Marks of the notes that begin with them, and by how much those are louder.
ACCENTS = ("sf", "sfz", "sffz", "fz", "rf", "rfz", "sfp", "sfpp")
#: Percents of ``<sound dynamics>`` and ``<note dynamics>`` are those of a velocity of 90.
FULL = 90


class Mark(NamedTuple):
    """What a direction says of loudness: ``kind`` is "level", with a velocity, "accent", or
    "crescendo", "diminuendo" or "stop", with the number of their hairpin."""

    kind: str
    value: int


def marks_of(direction: ET.Element) -> list[Mark]:
    """The dynamics of a ``<direction>`` or ``<sound>``: the velocity for programs rather than the
    letters."""
    sound = direction if direction.tag == "sound" else direction.find("sound")
    names = [e.tag for e in direction.iterfind("direction-type/dynamics/*")]
    marks = [Mark("accent", 0) for name in names if name in ACCENTS]
    levels = [LEVELS[name] for name in names if name in LEVELS]
    levels += [LEVELS["p"] for name in names if name in ("fp", "sfp", "pf")]
    percent = "" if sound is None else sound.get("dynamics", "")
    if (velocity := percent_of(percent)) is not None:
        levels = [velocity]
    marks += [Mark("level", velocity) for velocity in levels[-1:]]
    for wedge in direction.iterfind("direction-type/wedge"):
        number = wedge.get("number", "1")
        kind = wedge.get("type", "")
        if kind in ("crescendo", "diminuendo", "stop") and number.isdecimal():
            marks.append(Mark(kind, int(number[:3])))
    return marks


def percent_of(text: str) -> int | None:
    """A velocity, 1 to 127, of a percentage such as "71.1"; ``None`` for none."""
    whole, _, rest = text.strip().partition(".")
    if not (whole.isdecimal() and len(whole) < 4 and (rest == "" or rest.isdecimal())):
        return None
    return max(1, min(127, round(int(whole) * FULL / 100)))


class Loudness:
    """The velocity at each tick of a page, by the marks of one part.

    A hairpin leads to the mark at its end, or within ``near`` ticks after that, or else one step up
    or down; between, velocities change in proportion to time.
    """

    def __init__(self, marks: Iterable[tuple[int, Mark]], near: int) -> None:
        ordered = sorted(marks, key=lambda pair: (pair[0], pair[1].kind != "stop"))
        levels = [(float(at), mark.value) for at, mark in ordered if mark.kind == "level"]
        levels.append((inf, 0))
        self._accents = {at for at, mark in ordered if mark.kind == "accent"}
        stops: dict[int, int] = {}  # place of a hairpin among the marks -> where it stops
        begun: dict[int, int] = {}  # number of a hairpin -> its place
        for place, (at, mark) in enumerate(ordered):
            if mark.kind == "stop" and mark.value in begun:
                stops[begun.pop(mark.value)] = at
            elif mark.kind in ("crescendo", "diminuendo"):
                begun[mark.value] = place
        #: (begin, velocity, where it has changed, to which) of each line, by its beginning.
        self._lines = [(-1, VELOCITY, 0, VELOCITY)]
        for place, (at, mark) in enumerate(ordered):
            if mark.kind == "level":
                self._lines.append((at, mark.value, at, mark.value))
            elif (stop := stops.get(place, at)) > at:
                here = self._at(at)
                change = STEP if mark.kind == "crescendo" else -STEP
                when, there = levels[bisect_right(levels, (at, 127))]
                leads = when <= stop + near and (there - here) * change > 0
                target = max(10, min(126, there if leads else here + change))
                self._lines.append((at, here, stop, target))

    def _at(self, tick: int) -> int:
        begin, here, stop, target = self._lines[
            bisect_right(self._lines, tick, key=itemgetter(0)) - 1
        ]
        if tick >= stop:
            return target
        return round(here + (target - here) * (tick - begin) / (stop - begin))

    def __call__(self, tick: int) -> int:
        """The velocity of a note that begins at ``tick``, 1 to 127."""
        return min(127, self._at(tick) + STEP * (tick in self._accents))
