"""What makes ids likelier or less likely while notes in bars are composed around given ones.

Each rule is called with the row that is being written (:class:`~.given_bars.BarRow`) and adds nats
to the logits of its next id; where an id comes in any case none is asked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from musictx.chords import NONE
from musictx.sampling.beside_known import OFF_CHORD, BesideKnown
from musictx.sampling.drummers import Drummer
from musictx.sampling.given_bars import BarRow, Key
from musictx.tokens.bars import STEP_SECONDS, STEPS
from musictx.tokens.group_ids import CHORD, DRUM_PART
from musictx.tokens.returns import likeness, stretches
from musictx.tokens.vocab import GrammarState

#: Bars say bars again that stand so many before them at least, where they belong to so many in a
#: row whose given notes are alike by more than this share.
NEAREST, TOGETHER, SHARE = 4, 4, 0.6
#: A part that is asked for has at least this share of its usual notes over so many steps; each note
#: that it lacks makes a new one likelier by so many nats.
LEAST, WITHIN, PULL = 0.5, 8 * STEPS, 3.0
#: Where the given notes say earlier bars again, what came next there is likelier by so many nats:
#: its place, its part and its tone, the first fields of a group; in a variation, by so many what it
#: varies (scripts/LOG.md).
AGAIN, FIELDS, VARIED = 3.0, 3, 2.0
#: The program of a bass. Where it is asked for and silent at a bar line, a note of it there is
#: likelier by so many nats, and the root of the chord in force by so many: the lowest notes of
#: songs begin 85 of 100 bars, 81 of them on the root (scripts/reproduce/rhythm_sections.py).
BASS, ON_LINE, ON_ROOT = 33, 7.0, 2.0


class Rule(Protocol):
    """Adds nats (V,) to ``gain`` for the next id of ``row``."""

    def __call__(self, row: BarRow, gain: np.ndarray) -> None: ...


class Gains:
    """A soft constraint: what the ``rules`` of each of ``rows`` add to its logits."""

    def __init__(self, rows: Sequence[BarRow], rules: Sequence[Sequence[Rule]]) -> None:
        self.rows, self.rules = rows, rules

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        gains = np.zeros((len(self.rows), self.rows[0].table.size))
        for row, rules, gain in zip(self.rows, self.rules, gains):
            for rule in () if row.done or row.queue else rules:
                rule(row, gain)
        return -gains


@dataclass(frozen=True)
class Drumming:
    """What a drummer plays, in a bar of his meter."""

    drummer: Drummer

    def __call__(self, row: BarRow, gain: np.ndarray) -> None:
        place = row.value(0) if row.group else max(row.last[0], 0)
        bar, parts, ids = row.length, row.new.parts or (), row.new.ids
        if DRUM_PART not in parts or bar != self.drummer.steps:
            return
        after = row.last[2] if row.last[:2] == (place, DRUM_PART) else -1
        alone, due = not {*parts} - {CHORD, DRUM_PART}, row.due()
        if not row.group:
            nats, first = self.drummer.places(place, after), ids["place"].start
            if alone:  # a new group is a stroke, but where a given one comes
                strokes = [
                    self.drummer.stroke(at, after if at == place else -1)
                    for at in range(place, bar)
                ]
                nats[place:-1] += strokes
                if due and first <= due[0] < first + bar:
                    nats[due[0] - first] -= strokes[due[0] - first - place]
            gain[first : first + bar] += nats[:-1]
            gain[row.leaves()] += nats[-1]
        elif len(row.group) == 1 and (due or not alone):
            gain[row.part_id(DRUM_PART)] += self.drummer.stroke(place, after)
        elif len(row.group) == 2 and row.part() == DRUM_PART:
            gain[ids["drum"]] += self.drummer.drums(place, after)


def bass_on_roots(row: BarRow, gain: np.ndarray) -> None:
    """At a bar line a bass that is composed plays the root of the chord."""
    if BASS not in row.new.habits or len(row.group) != 2 or row.value(0) != 0:
        return
    if row.part() == BASS and row.chord != NONE:
        root = row.new.values("pitch") % 12 == row.chord.root
        gain[row.new.ids["pitch"]] += ON_ROOT * root


@dataclass(frozen=True)
class Fit:
    """What the pitch or the length of a note costs beside given notes and chords."""

    given: BesideKnown

    def __call__(self, row: BarRow, gain: np.ndarray) -> None:
        if len(row.group) not in (2, 3) or row.part() in (CHORD, DRUM_PART):
            return
        kind, composed = (
            "pitch" if len(row.group) == 2 else "length",
            CHORD in (row.new.parts or ()),
        )
        values = row.new.values(kind)
        if kind == "pitch":
            nats = self.given.clashes(row.step)[values % 12]
            if not composed and row.chord != NONE:  # it is given, and may clash
                inside = np.isin(values % 12, [*row.chord.classes])
                nats = np.where(inside, 0.0, nats + OFF_CHORD)
        else:
            nats = self.given.lengths(row.value(2), row.step, values, composed)
        ids = row.new.ids[kind]
        for token in row.due():  # a given note costs nothing
            nats[token - ids.start] = 0.0
        gain[ids] -= nats


@dataclass(frozen=True)
class Repeats:
    """What came next in the bar that this one says again gains ``nats``.

    bars  bar -> the earlier one that it says again
    """

    bars: Mapping[int, int]
    nats: float

    def __call__(self, row: BarRow, gain: np.ndarray) -> None:
        there = row.written.get(self.bars.get(row.bar, -1))
        if there is None:
            return
        following = next((ids for key, ids in there if key > row.last), [row.leaves()])
        count = len(row.group)
        if count < min(FIELDS, len(following)) and following[:count] == row.group:
            gain[following[count]] += self.nats


@dataclass(frozen=True)
class Another:
    """A note that another version has costs ``nats``.

    notes  (bar, key) of the new notes of that version
    """

    notes: Collection[tuple[int, Key]]
    nats: float

    def __call__(self, row: BarRow, gain: np.ndarray) -> None:
        if len(row.group) != 2:
            return
        part, due = row.part(), row.due()
        kind = row.new.kind(part)
        ids = row.new.ids[kind]
        for token, tone in zip(range(ids.start, ids.stop), row.new.values(kind).tolist()):
            if (row.bar, (row.value(0), part, tone)) in self.notes and token not in due:
                gain[token] -= self.nats


def fuller_parts(row: BarRow, gain: np.ndarray) -> None:
    """Notes of parts that lack some are likelier, and those of a bass at bar lines."""
    if len(row.group) > 1:
        return
    new, ids, lacks = row.new, row.new.ids, {}
    since = max(row.since, row.step - WITHIN)
    for part, habit in new.habits.items():
        if part in (new.parts or ()) and not row.full(part, row.step):
            begun = row.begun[part]
            usual = LEAST * habit.density * STEP_SECONDS * (row.step - since)
            lacks[part] = max(usual - (len(begun) - bisect_left(begun, since)), 0.0)
    if not row.group:
        pull = PULL * max(lacks.values(), default=0.0)
        gain[ids["place"]] += pull
        if row.left and not row.parts(row.left[0][0][0]):
            gain[row.due()] -= pull
    for part, lack in lacks.items() if row.group else ():
        gain[row.part_id(part)] += PULL * lack
    at_line = BASS in new.habits and (row.value(0) if row.group else 0) == 0
    if at_line and row.last[0] <= 0 and row.last[1] < BASS and BASS in row.parts(0):
        gain[row.part_id(BASS) if row.group else ids["place"].start] += ON_LINE


def repeated(bars: np.ndarray, given: np.ndarray) -> dict[int, int]:
    """Of ``bars`` whose ``given`` notes say earlier ones again: the number of the bar, and of the
    earlier one, the nearest of those that are most alike."""
    notes = given[given["part"] != CHORD]
    best, found = np.full(len(bars), SHARE), np.full(len(bars), -1)
    for back in range(NEAREST, len(bars) - TOGETHER + 1):
        for first, share in enumerate(stretches(likeness(bars, notes, back), TOGETHER), back):
            mine = slice(first, first + TOGETHER)
            better = best[mine] < share
            best[mine][better] = share
            found[mine][better] = np.arange(first, first + TOGETHER)[better] - back
    return {bar: one for bar, one in enumerate(found.tolist()) if one >= 0}
