"""What makes ids likelier or rarer while notes in bars are composed around given ones.

Each bias is a function of a row (:class:`~musictx.sampling.known_groups.BarRow`): it yields ids and
the nats that are added to their logits. :class:`InfillBias` sums them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from musictx.chords import NONE
from musictx.sampling.bar_rules import BarRules
from musictx.sampling.constraints import by_row
from musictx.sampling.harmonic_fit import OFF_CHORD, HarmonicFit
from musictx.sampling.known_groups import BarRow
from musictx.tokens.bars import STEP_SECONDS
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS
from musictx.tokens.vocab import GrammarState

#: A part that is asked for has at least this share of its usual notes over so many steps; each note
#: that it lacks makes a new one likelier by so many nats.
LEAST, WITHIN, PULL = 0.5, 8 * STEPS, 3.0
#: Where the given notes repeat earlier bars, what came next there is likelier by so many nats: its
#: place, its part and its pitch, the first fields of a group; in a variation, by so many what it
#: varies (scripts/LOG.md).
AGAIN, FIELDS, VARIED = 3.0, 3, 2.0
#: The program of a bass. Where it is asked for and silent at a bar line, a note of it there is
#: likelier by so many nats, and the root of the chord in force by so many: the lowest notes of
#: songs begin 85 of 100 bars, 81 of them on the root (scripts/reproduce/rhythm_sections.py).
BASS, ON_LINE, ON_ROOT = 33, 7.0, 2.0

#: Ids and the nats that are added to their logits.
Nats = Iterator[tuple[slice | int, np.ndarray | float]]


class InfillBias:
    """A soft constraint: the sum of all biases of each row around the given notes of ``rules``."""

    def __init__(self, rules: BarRules, rows: Sequence[BarRow]) -> None:
        self.rows, self.size = rows, rules.table.size
        self.fit = HarmonicFit(rules.sounding, rules.chords) if rules.fits else None

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
        return by_row([self._penalty(row) for row in self.rows])

    def _penalty(self, row: BarRow) -> np.ndarray | None:
        if row.done or row.queue:  # there is nothing to choose, or no note
            return None
        sums = np.zeros(self.size)
        for bias in (drummed(row), rooted(row), fitted(row, self.fit), repeated(row), avoided(row),
                     completed(row), on_line(row)):  # fmt: skip
            for ids, nats in bias:
                sums[ids] += nats
        return -sums


def drummed(row: BarRow) -> Nats:
    """What the drummer of the row plays next, in a bar of 4/4."""
    rules, drummer = row.rules, row.drummer
    bar = int(rules.lines[row.bar + 1] - rules.lines[row.bar])
    if drummer is None or DRUM_PART not in rules.parts or bar != drummer.steps:
        return
    place = row.place
    after = row.last[2] if row.last[:2] == (place, DRUM_PART) else -1
    alone, due = not {*rules.parts} - {CHORD, DRUM_PART}, row.due()
    if not row.group:
        nats, first = drummer.places(place, after), rules.ids["place"].start
        if alone:  # a new group is a stroke, but where a given one comes
            at = [drummer.stroke(at, after if at == place else -1) for at in range(place, bar)]
            nats[place:-1] += at
            if due is not None and first <= due < first + bar:
                nats[due - first] -= at[due - first - place]
        yield slice(first, first + bar), nats[:-1]
        yield row.onward(), nats[-1]
    elif len(row.group) == 1 and (due is not None or not alone):
        yield row.part_id(DRUM_PART), drummer.stroke(place, after)
    elif len(row.group) == 2 and row.part() == DRUM_PART:
        yield rules.ids["drum"], drummer.drums(place, after)


def rooted(row: BarRow) -> Nats:
    """A bass at a bar line plays the root of the chord."""
    at_line = len(row.group) == 2 and row.value(0) == 0
    if BASS in row.rules.habits and at_line and row.part() == BASS and row.chord != NONE:
        ids = row.rules.ids["pitch"]
        yield ids, ON_ROOT * (row.rules.table.value_of[ids] % 12 == row.chord.root)


def fitted(row: BarRow, fit: HarmonicFit | None) -> Nats:
    """What the pitch and the length of a new note cost in the harmony of the given ones."""
    if fit is None or len(row.group) not in (2, 3) or row.part() in (CHORD, DRUM_PART):
        return
    ids = row.rules.ids["pitch" if len(row.group) == 2 else "length"]
    values, composed = row.rules.table.value_of[ids], CHORD in row.rules.parts
    if len(row.group) == 2:
        nats = fit.clashes(row.step)[values % 12]
        if not composed and row.chord != NONE:  # it is given, and may clash
            inside = np.isin(values % 12, [*row.chord.classes])
            nats = np.where(inside, 0.0, nats + OFF_CHORD)
    else:
        nats = fit.lengths(row.value(2), row.step, values, composed)
    if (due := row.due()) is not None:  # a given note costs nothing
        nats[due - ids.start] = 0.0
    yield ids, -nats


def repeated(row: BarRow) -> Nats:
    """What came next in the bar that this one repeats."""
    written = row.written.get(row.rules.returns.get(row.bar, -1))
    count = len(row.group)
    if written is None or count >= FIELDS:
        return
    following = next((ids for key, ids in written if key > row.last), [row.onward()])
    if following[:count] == row.group and count < len(following):
        yield following[count], VARIED if row.rules.varies else AGAIN


def avoided(row: BarRow) -> Nats:
    """The pitches that another version has here become rarer, but for that of a given note."""
    if len(row.group) == 2 and row.rules.avoided:
        place, part = row.value(0), row.part()
        ids = row.rules.ids[{CHORD: "root", DRUM_PART: "drum"}.get(part, "pitch")]
        for token, pitch in enumerate(row.rules.table.value_of[ids].tolist(), ids.start):
            if (row.bar, (place, part, pitch)) in row.rules.avoided and token != row.due():
                yield token, -row.rules.nats


def completed(row: BarRow) -> Nats:
    """Notes of parts that have fewer than they should (:data:`LEAST`)."""
    if len(row.group) > 1:
        return
    rules, lacks = row.rules, {}
    since = max(row.since, row.step - WITHIN)
    for part, habit in rules.habits.items():
        begun = row.begun[part]
        count = len(begun) - bisect_left(begun, since)
        sounding = sum(of == part and end > row.step for (of, _), end in row.ends.items())
        if part in rules.parts and not rules.full(part, row.step, sounding, begun):
            target = LEAST * habit.density * STEP_SECONDS * (row.step - since)
            lacks[part] = max(target - count, 0.0)
    if row.group:
        for part, lack in lacks.items():
            yield row.part_id(part), PULL * lack
        return
    nats, due = PULL * max(lacks.values(), default=0.0), row.due()
    yield rules.ids["place"], nats
    if due is not None and not row.parts_at(row.left[0][0][0]):
        yield due, -nats


def on_line(row: BarRow) -> Nats:
    """A bass that is silent at a bar line begins there."""
    if BASS not in row.rules.habits or len(row.group) > 1 or row.last[:2] >= (0, BASS):
        return
    if row.place == 0 and BASS in row.parts_at(0):
        yield row.part_id(BASS) if row.group else row.rules.ids["place"].start, ON_LINE
