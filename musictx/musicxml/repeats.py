"""Repeats, endings, D.C., D.S. and codas: the order in which the sections of a page are played.

A section is a measure, or a part of one where a repeat stands within it. A repeat without a
beginning goes back to the end of the one before it, or to the beginning; repeats nest; of several
endings, the one with the number of the current pass is played; after D.C. or D.S. what was played
already is played without repeats (unless they say ``after-jump="yes"``) and with its last ending,
up to *Fine* or *To Coda*.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

#: Sections that are played, more than a page has, at most: two hours of fast bars.
MOST_PLAYED = 100_000
#: Repeats within each other; jumps of a piece.
DEEPEST, MOST_JUMPS = 8, 64


class Jump(NamedTuple):
    """D.C. (``segno`` is ``None``) or D.S. to the segno of that name, "" for any; ``until`` is
    "fine", "coda" or "" for whichever comes first."""

    segno: str | None
    until: str = ""


class Marks(NamedTuple):
    """The repeat signs at one section.

    forward   a repeat begins here
    backward  how many times the repeat that ends here is played in all; 0 if none ends here
    again     the repeat that ends here is taken after a D.C. or D.S., too
    ending    numbers of the passes in which this section is played, those of the bracket above it;
              empty without one, 0 for a bracket without a number
    opens     whether that bracket begins here
    segno, coda  names of the signs at its beginning, "" for a sign without a name
    to_coda   names of the codas to which one may go at its end
    fine, jump   whether *Fine* is at its end; the D.C. or D.S. at its end
    """

    forward: bool = False
    backward: int = 0
    again: bool = False
    ending: tuple[int, ...] = ()
    opens: bool = False
    segno: tuple[str, ...] = ()
    coda: tuple[str, ...] = ()
    to_coda: tuple[str, ...] = ()
    fine: bool = False
    jump: Jump | None = None


class NoOrder(Exception):
    """Why marks lead nowhere, as the end of a sentence."""


class _Repeat(NamedTuple):
    """A repeat from section ``start``: at each of ``backs`` it goes back; the last pass leaves it
    after ``end``."""

    start: int
    end: int
    backs: frozenset[int]
    passes: int
    again: bool


class _Endings(NamedTuple):
    """Brackets side by side: the numbers of each of their sections, and their repeat, if any."""

    numbers: dict[int, tuple[int, ...]]
    repeat: _Repeat | None


def order(marks: Sequence[Marks], most: int | None = None) -> list[int]:
    """The numbers of the sections, from 0, as they are played.

    Raises :class:`NoOrder` for marks that contradict each other and for more than ``most``
    sections, counting endings that are skipped; by default :data:`MOST_PLAYED` more than
    there are.
    """
    most = len(marks) + MOST_PLAYED if most is None else most
    if not any(mark.backward or mark.jump for mark in marks):
        return list(range(len(marks)))
    repeats, endings = _structure(marks)
    played: list[int] = []
    passes: dict[_Repeat, int] = {}  # pass of each repeat around this section, the innermost last
    taken: set[tuple[int, str]] = set()  # sections whose jump, or way to the coda, was taken
    origin = -1  # the section of the latest jump: up to here everything was played before
    until = None  # None: no jump yet
    at = steps = 0
    while at < len(marks):
        steps += 1
        if steps > most or len(passes) > DEEPEST or len(taken) > MOST_JUMPS:
            raise NoOrder(f"would make more than {most} bars, or lead back too often")
        for repeat in repeats.get(at, ()):
            once = at <= origin and not repeat.again
            passes.setdefault(repeat, repeat.passes if once else 1)
        group = endings.get(at)
        if group is None or _number(group, passes, origin) in group.numbers[at]:
            played.append(at)
            back = next((r for r, n in passes.items() if at in r.backs and n < r.passes), None)
            if back is not None:
                outer = takewhile(back.__ne__, passes)
                passes = {repeat: passes[repeat] for repeat in outer} | {back: passes[back] + 1}
                at = back.start
                continue
            mark = marks[at]
            target = None
            if all(number == repeat.passes for repeat, number in passes.items()):
                if mark.fine and until in ("", "fine"):
                    return played
                if mark.to_coda and until in ("", "coda") and (at, "coda") not in taken:
                    target, until = _sign(marks, at, "coda", mark.to_coda), ""
                    taken.add((at, "coda"))
                elif mark.jump is not None and (at, "jump") not in taken:
                    segno, until = mark.jump
                    target = 0 if segno is None else _sign(marks, at, "segno", (segno,))
                    origin = at
                    taken.add((at, "jump"))
            if target is not None:
                around = (r for several in repeats.values() for r in several)
                passes = {r: r.passes for r in around if r.start < target <= r.end}
                at = target
                continue
        at += 1
        if any(number < repeat.passes for repeat, number in passes.items() if repeat.end < at):
            raise NoOrder("have endings that do not lead back")
        passes = {repeat: number for repeat, number in passes.items() if repeat.end >= at}
    if until in ("fine", "coda"):
        raise NoOrder(f"lead on to a {until.capitalize()} that is not there")
    if any(mark.jump and (i, "jump") not in taken for i, mark in enumerate(marks)):
        raise NoOrder("have a D.C. or D.S. that is never reached")
    return played


def _number(group: _Endings, passes: dict[_Repeat, int], origin: int) -> int:
    """The pass in which endings are reached. Those that no repeat closes but a jump are reached for
    the last time once there was a jump from ``origin``, among them or behind them."""
    if group.repeat is not None:
        return passes.get(group.repeat, 1)
    first, last = min(group.numbers), max(group.numbers)
    return max(group.numbers[last]) if origin >= first else min(group.numbers[first])


def _sign(marks: Sequence[Marks], at: int, kind: str, names: tuple[str, ...]) -> int:
    """Where a jump from section ``at`` goes: to the sign of one of ``names``, else to the last
    segno before it, or the next coda after it."""
    signs = [i for i, mark in enumerate(marks) if getattr(mark, kind)]
    chosen = [i for i in signs if {*getattr(marks[i], kind)} & {*names} - {""}]
    chosen = chosen or [i for i in signs if (i <= at if kind == "segno" else i > at)]
    if not chosen:
        raise NoOrder(f"lead to a {kind} that is not there")
    return chosen[-1] if kind == "segno" else chosen[0]


def _structure(
    marks: Sequence[Marks],
) -> tuple[dict[int, list[_Repeat]], dict[int, _Endings]]:
    """Where repeats begin, the outermost first; section -> the endings that it belongs to."""
    brackets = _brackets(marks)
    groups = {at: group for group in brackets for at in group}
    repeats: dict[int, list[_Repeat]] = {}
    endings: dict[int, _Endings] = {}
    waiting: list[int] = []
    floor = 0  # start of a repeat without a sign at its beginning
    for at, mark in enumerate(marks):
        if mark.forward:
            waiting.append(at)
        if not mark.backward or at in endings:
            continue
        group = groups.get(at, {})
        start = waiting.pop() if waiting else floor
        passes, end = mark.backward, max(group, default=at)
        if group:
            if start > min(group):
                raise NoOrder("have a repeat that begins within an ending")
            # A first ending alone: the second time it is passed over.
            passes = max(map(max, group.values())) + (len({*group.values()}) == 1)
        backs = frozenset(i for i in group or (at,) if marks[i].backward)
        repeat = _Repeat(start, end, backs, passes, any(marks[i].again for i in backs))
        repeats.setdefault(start, []).insert(0, repeat)
        endings |= dict.fromkeys(group, _Endings(group, repeat))
        floor = end + 1
    for group in brackets:
        if min(group) not in endings and any(marks[i].jump for i in group):
            endings |= dict.fromkeys(group, _Endings(group, None))
    return repeats, endings


def _brackets(marks: Sequence[Marks]) -> list[dict[int, tuple[int, ...]]]:
    """Endings side by side: of each group its sections and their numbers; a number that is left out
    is that of the bracket before it."""
    groups: list[dict[int, tuple[int, ...]]] = []
    for at, mark in enumerate(marks):
        if not mark.ending:
            continue
        adjacent = bool(groups) and at - 1 in groups[-1] and not mark.forward
        if adjacent and not mark.opens:
            groups[-1][at] = groups[-1][at - 1]
            continue
        used = {n for numbers in {*groups[-1].values()} for n in numbers} if adjacent else set()
        numbers = tuple(n or max(used, default=0) + 1 for n in mark.ending)
        if not adjacent or used & {*numbers}:
            groups.append({})
        groups[-1][at] = numbers
    for group in groups:
        brackets = {numbers: numbers for numbers in group.values()}
        for number in range(1, max(map(max, brackets))):
            before = [numbers for numbers in brackets if max(numbers) < number]
            if before and not any(number in numbers for numbers in brackets):
                brackets[before[-1]] += (number,)
        group.update((at, brackets[numbers]) for at, numbers in group.items())
    return groups
