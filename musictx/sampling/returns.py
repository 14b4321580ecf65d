"""A pull back to what music has said before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from musictx.config import SamplingConfig
from musictx.sampling.constraints import by_row
from musictx.tokens.bar_ids import REPEATS
from musictx.tokens.bar_tokens import BarTokenizer
from musictx.tokens.vocab import GrammarState, NoteEvents, SoftConstraint, Tokenizer

#: A section returns from so many bars ago; what gains and what costs, nats (scripts/LOG.md).
SECTION_BARS, RETURN_PULL, STAY_PULL = range(7, 13), 0.9, 0.75
NEAR_BARS, NEAR_COST, FAR_COST = 2, 0.7, 0.7
#: In music of strikes: so many of the last strikes agree with those before another one that was
#: struck so many seconds ago or earlier, and it gains so many nats for each (scripts/LOG.md). So
#: many ids are looked back at, more than a model sees: a first theme stays in sight for minutes.
LAST_STRIKES, AGREE, RETURN_SECONDS, STRIKE_PULL, REACH = 8, 3, 6.0, 0.95, 16384
#: The same of the intervals of the top line, whose tones are struck so many seconds apart at least.
LINE_AGREE, LINE_PULL, ONSET_SECONDS = 2, 1.5, 0.02


@dataclass(frozen=True)
class BarReturns:
    """Makes it likelier that a bar says an earlier one again (:mod:`musictx.tokens.repeats`), by
    :data:`RETURN_PULL` nats where that lies as many bars ago as :data:`SECTION_BARS` has, and by
    :data:`STAY_PULL` more where a bar so far away or farther is as far away as the one that the bar
    before said again; and dearer by :data:`NEAR_COST` where it is one of the last
    :data:`NEAR_BARS`, by :data:`FAR_COST` where it lies before those bars. Real songs say whole
    sections again; a model leaves them a little too soon at every bar, and lingers."""

    sections: range
    size: int

    @classmethod
    def of(cls, tokenizer: BarTokenizer) -> BarReturns:
        return cls(range(*tokenizer.vocabulary.range("section")), tokenizer.size)

    def __call__(self, states: Sequence[Any], past: np.ndarray) -> np.ndarray | None:
        return by_row([self._row(state.said()) for state in states])

    def _row(self, said: int | None) -> np.ndarray | None:
        if said is None:
            return None
        costs = np.zeros(self.size)
        begin, far = (REPEATS - 1 + bars for bars in (SECTION_BARS.start, SECTION_BARS.stop))
        costs[self.sections[REPEATS] : self.sections[REPEATS + NEAR_BARS]] = NEAR_COST
        costs[self.sections[begin] : self.sections[far]] = -RETURN_PULL
        costs[self.sections[far] : self.sections.stop] = FAR_COST
        if said >= begin:
            costs[self.sections[said]] -= STAY_PULL
        return costs


@dataclass
class _Found:
    """What was found in a row of ``length`` ids, where ``state`` had so many ``notes``. Until the
    next one it stays the same as long as the ids from the one numbered ``first`` on are in reach.
    ``costs``: where a strike would begin an onset, and where it would join the last one."""

    state: GrammarState
    notes: int
    length: int
    first: float
    costs: list[np.ndarray | None]

    def holds(self, state: GrammarState, length: int) -> bool:
        """Whether that is what would be found one id later: ids so far are the last ones of what
        the state has read, so their number says which."""
        same = self.state is state and self.notes == state.notes and self.length + 1 == length
        return same and length - REACH <= self.first


class _Strikes(NamedTuple):
    """The strikes among the last ids of a row.

    pitch, at  (n,) pitches and seconds
    number     (n,) of ids
    begin      of the ids in reach
    old        of them were struck :data:`RETURN_SECONDS` before the last one or earlier
    certain    whether ``old`` is the same where fewer ids are in reach: sums of waits from another
               id on may be rounded to the other side of what lies on the border
    """

    pitch: np.ndarray
    at: np.ndarray
    number: np.ndarray
    begin: int
    old: int
    certain: bool

    @classmethod
    def of(cls, events: NoteEvents, ids: np.ndarray) -> _Strikes:
        begin = max(len(ids) - REACH, 0)
        pitch = events.strike[ids[begin:]]
        at = np.cumsum(events.wait[ids[begin:]]) * (events.longest_wait or 0.0)
        struck = np.flatnonzero(pitch >= 0)
        pitch, at = pitch[struck], at[struck]
        border = at[-1] - RETURN_SECONDS if len(at) else 0.0
        near, old, far = np.searchsorted(at, [border - 1e-6, border, border + 1e-6], "right")
        return cls(pitch, at, begin + struck, begin, int(old), bool(near == far))


@dataclass(frozen=True)
class StrikeReturns:
    """Makes likelier the pitch that followed the last time that pitches like the last ones were
    struck: of all strikes :data:`RETURN_SECONDS` ago or earlier that before which most of the last
    :data:`LAST_STRIKES` pitches agree, the latest if several do, where :data:`AGREE` of them do.

    And the pitch that goes on with a melody that comes again, at any pitch: of the intervals of the
    top line so long ago those are looked for that end like the last ones, the longest such run, of
    several one at the same pitch, the latest of these, where :data:`LINE_AGREE` agree. The highest
    pitch of what is struck within :data:`ONSET_SECONDS` is a tone of that line."""

    events: NoteEvents
    _found: dict[int, _Found] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
        return by_row([self._row(row, state, past[row]) for row, state in enumerate(states)])

    def _row(self, row: int, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        found = self._found.get(row)
        if found is None or not found.holds(state, len(ids)):
            found = self._found[row] = _Found(state, state.notes, len(ids), *self._look(ids))
        found.length, last = len(ids), state.sounding.recent()
        return found.costs[bool(last) and state.seconds - last[0][0] < ONSET_SECONDS + 1e-6]

    def _look(self, ids: np.ndarray) -> tuple[float, list[np.ndarray | None]]:
        """From which of ``ids`` on they tell what is found, and what each id costs."""
        struck = _Strikes.of(self.events, ids)
        first, costs = np.inf if struck.certain else struck.begin, []
        strikes, lines = _after_strikes(struck), [_after_line(struck, joins) for joins in (0, 1)]
        for line in lines:
            found = [one for one in (strikes, line) if one is not None]
            first = min([first, *(one.first for one in found)])
            gains = [one.nats * (self.events.strike == one.pitch) for one in found]
            costs.append(-np.sum(gains, axis=0) if gains else None)
        return first, costs


class _Next(NamedTuple):
    """``pitch`` gains ``nats``, which the ids from the one numbered ``first`` on tell."""

    pitch: int
    nats: float
    first: int


def _after_strikes(struck: _Strikes) -> _Next | None:
    """What followed the strikes most like the last ones."""
    count = struck.old - LAST_STRIKES
    if count <= 0:
        return None
    agree = np.zeros(count, int)
    for nth, last in enumerate(struck.pitch[-LAST_STRIKES:].tolist()):
        agree += struck.pitch[nth : nth + count] == last
    best = count - 1 - int(agree[::-1].argmax())
    if agree[best] < AGREE:
        return None
    nats = STRIKE_PULL * int(agree[best])
    return _Next(int(struck.pitch[best + LAST_STRIKES]), nats, int(struck.number[best]))


def _after_line(struck: _Strikes, joins: int) -> _Next | None:
    """What goes on with the top line, whose last onset is open where a strike ``joins`` it."""
    first = np.flatnonzero(np.diff(struck.at, prepend=-np.inf) > ONSET_SECONDS + 1e-6)
    old = int(np.searchsorted(first, struck.old))
    if old <= LAST_STRIKES + 2:  # the first onset may be cut
        return None
    line = np.maximum.reduceat(struck.pitch, first)
    here = struck.pitch[first[-1] :] if joins else ()
    steps = np.diff(line[: len(line) - joins])
    ends = np.arange(LAST_STRIKES + 1, old - 1)  # of runs: the tone that they lead to
    run, going = np.zeros(len(ends), int), np.ones(len(ends), bool)
    for back in range(1, LAST_STRIKES + 1):
        going &= steps[ends - back] == steps[len(steps) - back]
        run += going
    order = 2 * run + (line[ends] == line[len(steps)])
    best = len(run) - 1 - int(order[::-1].argmax())
    agree, end = int(run[best]), int(ends[best])
    pitch = int(line[len(steps)] + line[end + 1] - line[end])
    still = not steps[len(steps) - agree :].any()  # a pitch that is repeated comes from nowhere
    if agree < LINE_AGREE or still or pitch in here:
        return None
    return _Next(pitch, LINE_PULL * agree, int(struck.number[first[end - LAST_STRIKES] - 1]))


def of(tokenizer: Tokenizer, sampling: SamplingConfig) -> list[SoftConstraint]:
    """The pull of these tokens; none for those whose time depends on the tempo or that are
    neither, and where ``sampling`` leaves habits out."""
    if isinstance(tokenizer, BarTokenizer) and sampling.habits:
        return [BarReturns.of(tokenizer)]
    events = tokenizer.note_events
    if events is not None and events.longest_wait and sampling.habits:
        return [StrikeReturns(events)]
    return []
