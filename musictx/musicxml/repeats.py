"""Repeats, endings, D.C., D.S. and codas: the order in which the sections of a piece are played.

A section is a measure, or a part of a measure that a repeat sign divides. A repeat without a
beginning goes back to the end of the previous repeat, or to the beginning of the piece. Repeats may
be nested. Of several endings, the one with the number of the current pass is played. After D.C. or
D.S., sections that were played before are played without repeats (unless these have
``after-jump="yes"``) and with their last ending, up to *Fine* or *To Coda*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: The most sections that repeats may add: two hours of fast bars.
MOST_ADDED = 100_000
#: The most repeats inside each other, and the most jumps in a piece.
MOST_NESTED, MOST_JUMPS = 8, 64


class Jump(NamedTuple):
    """D.C. (``segno`` is ``None``) or D.S. to the segno with this name, "" for any segno; ``until``
    is "fine", "coda", or "" for the first of both."""

    segno: str | None
    until: str = ""


class RepeatSigns(NamedTuple):
    """The repeat signs of a section.

    forward   whether a repeat begins with this section
    backward  how often the repeat that ends with this section is played; 0 if none ends here
    again     whether that repeat is also played after a D.C. or D.S.
    ending    the numbers in the bracket above this section, which are the passes in which it is
              played; empty without a bracket, (0,) for a bracket without a number
    opens     whether that bracket begins with this section
    segno, coda  names of the signs at the beginning of the section, "" for a sign without a name
    to_coda   names of the codas for *To Coda* at the end of the section
    fine      whether *Fine* is at the end of the section
    jump      the D.C. or D.S. at the end of the section
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


class RepeatError(Exception):
    """Contradictory repeat signs; the message completes "the marks ..."."""


class _Repeat(NamedTuple):
    """A repeat of the sections ``start`` to ``end``, played ``passes`` times. Except in the last
    pass, it goes back to ``start`` after each section in ``backs``."""

    start: int
    end: int
    backs: frozenset[int]
    passes: int
    again: bool


class _Endings(NamedTuple):
    """Adjacent endings: {section: passes in which it is played}, and the repeat that they end;
    ``None`` if a jump ends them."""

    numbers: dict[int, tuple[int, ...]]
    repeat: _Repeat | None


def playing_order(marks: Sequence[RepeatSigns], most: int | None = None) -> list[int]:
    """The numbers of the sections, from 0, in the order in which they are played.

    Raises :class:`RepeatError` for marks that contradict each other, and for more than ``most``
    sections, including endings that are skipped; default: :data:`MOST_ADDED` more than
    ``len(marks)``.
    """
    most = len(marks) + MOST_ADDED if most is None else most
    if not any(mark.backward or mark.jump for mark in marks):
        return list(range(len(marks)))
    repeats, endings = _structure(marks)
    played: list[int] = []
    passes: dict[_Repeat, int] = {}  # {repeat around this section: its pass}, the innermost last
    taken: set[tuple[int, str]] = set()  # (section, "jump" or "coda") of jumps that were taken
    origin = -1  # the section of the latest D.C. or D.S.: sections up to it were played before
    until = None  # ``Jump.until`` of the latest jump; None: no jump yet
    section = steps = 0
    while section < len(marks):
        steps += 1
        if steps > most or len(passes) > MOST_NESTED or len(taken) > MOST_JUMPS:
            raise RepeatError(f"would make more than {most} bars, or lead back too often")
        for repeat in repeats.get(section, ()):
            last_pass_only = section <= origin and not repeat.again
            passes.setdefault(repeat, repeat.passes if last_pass_only else 1)
        group = endings.get(section)
        if group is None or _pass(group, passes, origin) in group.numbers[section]:
            played.append(section)
            back = next((r for r, n in passes.items() if section in r.backs and n < r.passes), None)
            if back is not None:
                around = [*passes]
                outer = around[: around.index(back)]
                passes = {repeat: passes[repeat] for repeat in outer} | {back: passes[back] + 1}
                section = back.start
                continue
            mark = marks[section]
            target = None
            if all(number == repeat.passes for repeat, number in passes.items()):
                if mark.fine and until in ("", "fine"):
                    return played
                if mark.to_coda and until in ("", "coda") and (section, "coda") not in taken:
                    target, until = _jump_target(marks, section, "coda", mark.to_coda), ""
                    taken.add((section, "coda"))
                elif mark.jump is not None and (section, "jump") not in taken:
                    segno, until = mark.jump
                    target = 0
                    if segno is not None:
                        target = _jump_target(marks, section, "segno", (segno,))
                    origin = section
                    taken.add((section, "jump"))
            if target is not None:
                all_repeats = (r for group in repeats.values() for r in group)
                passes = {r: r.passes for r in all_repeats if r.start < target <= r.end}
                section = target
                continue
        section += 1
        if any(number < repeat.passes for repeat, number in passes.items() if repeat.end < section):
            raise RepeatError("have endings that do not lead back")
        passes = {repeat: number for repeat, number in passes.items() if repeat.end >= section}
    if until in ("fine", "coda"):
        raise RepeatError(f"lead on to a {until.capitalize()} that is not there")
    if any(mark.jump and (i, "jump") not in taken for i, mark in enumerate(marks)):
        raise RepeatError("have a D.C. or D.S. that is never reached")
    return played


def _pass(group: _Endings, passes: dict[_Repeat, int], origin: int) -> int:
    """The current pass of endings. Endings without a repeat are played in the first pass before the
    jump at section ``origin``, and in the last pass after it."""
    if group.repeat is not None:
        return passes.get(group.repeat, 1)
    first, last = min(group.numbers), max(group.numbers)
    return max(group.numbers[last]) if origin >= first else min(group.numbers[first])


def _jump_target(
    marks: Sequence[RepeatSigns], section: int, kind: str, names: tuple[str, ...]
) -> int:
    """The section to which a jump from ``section`` goes: that of the sign ``kind``, "segno" or
    "coda", with one of ``names``, else of the last segno before ``section`` or the first coda after
    it."""
    signs = [i for i, mark in enumerate(marks) if getattr(mark, kind)]
    targets = [i for i in signs if {*getattr(marks[i], kind)} & {*names} - {""}]
    targets = targets or [i for i in signs if (i <= section if kind == "segno" else i > section)]
    if not targets:
        raise RepeatError(f"lead to a {kind} that is not there")
    return targets[-1] if kind == "segno" else targets[0]


def _structure(
    marks: Sequence[RepeatSigns],
) -> tuple[dict[int, list[_Repeat]], dict[int, _Endings]]:
    """Return {section: repeats that begin with it, the outermost first}, and {section: endings}."""
    brackets = _brackets(marks)
    groups = {section: group for group in brackets for section in group}
    repeats: dict[int, list[_Repeat]] = {}
    endings: dict[int, _Endings] = {}
    open_starts: list[int] = []
    default_start = 0  # of a repeat without a sign at its beginning
    for section, mark in enumerate(marks):
        if mark.forward:
            open_starts.append(section)
        if not mark.backward or section in endings:
            continue
        group = groups.get(section, {})
        start = open_starts.pop() if open_starts else default_start
        passes, end = mark.backward, max(group, default=section)
        if group:
            if start > min(group):
                raise RepeatError("have a repeat that begins within an ending")
            # The second pass skips a first ending without a second one.
            passes = max(map(max, group.values())) + (len({*group.values()}) == 1)
        backs = frozenset(i for i in group or (section,) if marks[i].backward)
        repeat = _Repeat(start, end, backs, passes, any(marks[i].again for i in backs))
        repeats.setdefault(start, []).insert(0, repeat)
        endings |= dict.fromkeys(group, _Endings(group, repeat))
        default_start = end + 1
    for group in brackets:
        if min(group) not in endings and any(marks[i].jump for i in group):
            endings |= dict.fromkeys(group, _Endings(group, None))
    return repeats, endings


def _brackets(marks: Sequence[RepeatSigns]) -> list[dict[int, tuple[int, ...]]]:
    """Return {section: passes} for each group of adjacent endings. A pass that no bracket of the
    group names plays the same ending as the previous pass."""
    groups: list[dict[int, tuple[int, ...]]] = []
    for section, mark in enumerate(marks):
        if not mark.ending:
            continue
        adjacent = bool(groups) and section - 1 in groups[-1] and not mark.forward
        if adjacent and not mark.opens:
            groups[-1][section] = groups[-1][section - 1]
            continue
        used = {n for numbers in {*groups[-1].values()} for n in numbers} if adjacent else set()
        numbers = tuple(n or max(used, default=0) + 1 for n in mark.ending)
        if not adjacent or used & {*numbers}:
            groups.append({})
        groups[-1][section] = numbers
    for group in groups:
        brackets = {numbers: numbers for numbers in group.values()}
        for number in range(1, max(map(max, brackets))):
            before = [numbers for numbers in brackets if max(numbers) < number]
            if before and not any(number in numbers for numbers in brackets):
                brackets[before[-1]] += (number,)
        group.update((section, brackets[numbers]) for section, numbers in group.items())
    return groups
