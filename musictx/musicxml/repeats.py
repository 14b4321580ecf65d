"""Repeats, endings, D.C., D.S. and codas: the order in which the sections of a piece are played.

A section is a measure, or a part of a measure that a repeat sign divides. A repeat without a
beginning goes back to the end of the previous repeat, or to the beginning of the piece. Repeats may
be nested. Of several endings, the one with the number of the current pass is played. After D.C. or
D.S., sections that were played before are played with their last ending and without repeats, except
repeats with ``after-jump="yes"``, up to *Fine* or *To Coda*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: The most sections that repeats may add; pieces of music have hundreds.
MAX_ADDED = 100_000
#: The most repeats inside each other, and the most jumps in a piece.
MAX_NESTED, MAX_JUMPS = 8, 64


class Jump(NamedTuple):
    """D.C. (``segno`` is ``None``) or D.S. to the segno with this name, "" for any segno; ``until``
    is "fine", "coda", or "" for whichever comes first."""

    segno: str | None
    until: str = ""


class RepeatSigns(NamedTuple):
    """The repeat signs of a section.

    forward     whether a repeat begins with this section
    backward    how often the repeat that ends with this section is played; 0 if none ends here
    after_jump  whether that repeat is also played after a D.C. or D.S.
    ending      the numbers in the bracket above this section, which are the passes in which it is
                played; empty without a bracket, (0,) for a bracket without a number
    opens       whether that bracket begins with this section
    segno, coda  names of the signs at the beginning of the section, "" for a sign without a name
    to_coda     names of the codas for *To Coda* at the end of the section
    fine        whether *Fine* is at the end of the section
    jump        the D.C. or D.S. at the end of the section
    """

    forward: bool = False
    backward: int = 0
    after_jump: bool = False
    ending: tuple[int, ...] = ()
    opens: bool = False
    segno: tuple[str, ...] = ()
    coda: tuple[str, ...] = ()
    to_coda: tuple[str, ...] = ()
    fine: bool = False
    jump: Jump | None = None


class RepeatError(Exception):
    """Contradictory repeat signs; the message follows "their marks" or "their signs"."""


class _Repeat(NamedTuple):
    """A repeat of the sections ``start`` to ``end``, played ``passes`` times. Except in the last
    pass, it goes back to ``start`` after each section in ``backs``."""

    start: int
    end: int
    backs: frozenset[int]
    passes: int
    after_jump: bool


class _Endings(NamedTuple):
    """Adjacent endings: {section: passes in which it is played}, and the repeat that they end;
    ``None`` if a jump ends them."""

    numbers: dict[int, tuple[int, ...]]
    repeat: _Repeat | None


def playing_order(signs: Sequence[RepeatSigns], most: int | None = None) -> list[int]:
    """The numbers of the sections, from 0, in the order in which they are played.

    Raises :class:`RepeatError` for signs that contradict each other, and if more than ``most``
    sections would be played or skipped; default: :data:`MAX_ADDED` more than ``len(signs)``.
    """
    most = len(signs) + MAX_ADDED if most is None else most
    if not any(sign.backward or sign.jump for sign in signs):
        return list(range(len(signs)))
    repeats, endings = _structure(signs)
    played: list[int] = []
    # {repeat around this section: its pass}; of those not in their last pass, the innermost is last
    passes: dict[_Repeat, int] = {}
    taken: set[tuple[int, str]] = set()  # (section, "jump" or "coda") of jumps that were taken
    origin = -1  # the section of the latest D.C. or D.S.: sections up to it were played before
    until = None  # ``Jump.until`` of the latest jump; None: no jump yet
    section = steps = 0
    while section < len(signs):
        steps += 1
        if steps > most or len(passes) > MAX_NESTED or len(taken) > MAX_JUMPS:
            raise RepeatError(f"would make more than {most} bars, or lead back too often")
        for repeat in repeats.get(section, ()):
            last_pass_only = section <= origin and not repeat.after_jump
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
            sign = signs[section]
            target = None
            if all(number == repeat.passes for repeat, number in passes.items()):
                if sign.fine and until in ("", "fine"):
                    return played
                if sign.to_coda and until in ("", "coda") and (section, "coda") not in taken:
                    target = _jump_target(signs, section, "coda", sign.to_coda)
                    until = ""  # a Fine or another coda may follow
                    taken.add((section, "coda"))
                elif sign.jump is not None and (section, "jump") not in taken:
                    segno, until = sign.jump
                    target = 0
                    if segno is not None:
                        target = _jump_target(signs, section, "segno", (segno,))
                    origin = section
                    taken.add((section, "jump"))
            if target is not None:
                all_repeats = (r for same_start in repeats.values() for r in same_start)
                passes = {r: r.passes for r in all_repeats if r.start < target <= r.end}
                section = target
                continue
        section += 1
        if any(number < repeat.passes for repeat, number in passes.items() if repeat.end < section):
            raise RepeatError("have endings that do not lead back")
        passes = {repeat: number for repeat, number in passes.items() if repeat.end >= section}
    if until in ("fine", "coda"):
        raise RepeatError(f"lead on to a {until.capitalize()} that is not there")
    if any(sign.jump and (i, "jump") not in taken for i, sign in enumerate(signs)):
        raise RepeatError("have a D.C. or D.S. that is never reached")
    return played


def _pass(group: _Endings, passes: dict[_Repeat, int], origin: int) -> int:
    """The current pass of endings. Without a repeat, it is that of the first ending before the jump
    at section ``origin``, and that of the last ending after it."""
    if group.repeat is not None:
        return passes.get(group.repeat, 1)
    first, last = min(group.numbers), max(group.numbers)
    return max(group.numbers[last]) if origin >= first else min(group.numbers[first])


def _jump_target(
    signs: Sequence[RepeatSigns], section: int, kind: str, names: tuple[str, ...]
) -> int:
    """The section to which a jump from ``section`` goes: that with the sign ``kind``, "segno" or
    "coda", of one of ``names``; if there is none, the last segno up to ``section``, or the first
    coda after it."""
    places = [i for i, sign in enumerate(signs) if getattr(sign, kind)]
    targets = [i for i in places if {*getattr(signs[i], kind)} & {*names} - {""}]
    targets = targets or [i for i in places if (i <= section if kind == "segno" else i > section)]
    if not targets:
        raise RepeatError(f"lead to a {kind} that is not there")
    return targets[-1] if kind == "segno" else targets[0]


def _structure(
    signs: Sequence[RepeatSigns],
) -> tuple[dict[int, list[_Repeat]], dict[int, _Endings]]:
    """Return {section: repeats that begin with it, the outermost first}, and {section: endings}."""
    brackets = _brackets(signs)
    groups = {section: group for group in brackets for section in group}
    repeats: dict[int, list[_Repeat]] = {}
    endings: dict[int, _Endings] = {}
    open_starts: list[int] = []
    default_start = 0  # of a repeat without a sign at its beginning
    for section, sign in enumerate(signs):
        if sign.forward:
            open_starts.append(section)
        if not sign.backward or section in endings:
            continue
        group = groups.get(section, {})
        start = open_starts.pop() if open_starts else default_start
        passes, end = sign.backward, max(group, default=section)
        if group:
            if start > min(group):
                raise RepeatError("have a repeat that begins within an ending")
            passes = max(map(max, group.values()))
            if len({*group.values()}) == 1:  # the last pass skips the only ending
                passes += 1
        backs = frozenset(i for i in group or (section,) if signs[i].backward)
        repeat = _Repeat(start, end, backs, passes, any(signs[i].after_jump for i in backs))
        repeats.setdefault(start, []).insert(0, repeat)
        endings |= dict.fromkeys(group, _Endings(group, repeat))
        default_start = end + 1
    for group in brackets:
        if min(group) not in endings and any(signs[i].jump for i in group):
            endings |= dict.fromkeys(group, _Endings(group, None))
    return repeats, endings


def _brackets(signs: Sequence[RepeatSigns]) -> list[dict[int, tuple[int, ...]]]:
    """Return {section: passes} for each group of adjacent endings. A pass that no bracket of the
    group names plays the same ending as the previous pass."""
    groups: list[dict[int, tuple[int, ...]]] = []
    for section, sign in enumerate(signs):
        if not sign.ending:
            continue
        adjacent = bool(groups) and section - 1 in groups[-1] and not sign.forward
        if adjacent and not sign.opens:
            groups[-1][section] = groups[-1][section - 1]
            continue
        used = {n for numbers in {*groups[-1].values()} for n in numbers} if adjacent else set()
        numbers = tuple(n or max(used, default=0) + 1 for n in sign.ending)
        if not adjacent or used & {*numbers}:
            groups.append({})
        groups[-1][section] = numbers
    for group in groups:
        passes = {numbers: numbers for numbers in group.values()}  # of each bracket, by its numbers
        for number in range(1, max(map(max, passes))):
            before = [numbers for numbers in passes if max(numbers) < number]
            if before and not any(number in numbers for numbers in passes):
                passes[before[-1]] += (number,)
        group.update((section, passes[numbers]) for section, numbers in group.items())
    return groups
