"""The constraint that keeps given notes, in bars: see :mod:`musictx.sampling.infill`.

Bar lines, given groups and the groups ahead of a bar (:mod:`musictx.songs.bar_layout`) are forced.
The model draws the groups between them, and which earlier bar a bar repeats. A drawn group must
precede the next given group in the order of groups, or be equal to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from musictx.sampling.infill import GivenRow, NewNotes
from musictx.songs.bar_grammar import BarState, Group
from musictx.songs.part_limits import PartLimits

#: Placeholder in a queue of forced ids for an id that the model draws.
FREE = -1


@dataclass(frozen=True)
class GivenBars:
    """The bars of a piece, with their given notes and chords.

    lines     (B + 1,) steps of the bar lines, and of the end of the last bar
    openings  (B, 5) the ids of the bar lines; :data:`FREE` where the model draws an id
    notes     (n,) the given notes and chords (:data:`musictx.tokens.stream.STREAM_NOTE`)
    groups    for each bar, its given notes and chords as groups, in order
    ahead     bar -> the ids of the groups ahead that precede its bar line
    """

    lines: np.ndarray
    openings: np.ndarray
    notes: np.ndarray
    groups: Sequence[Sequence[Group]]
    ahead: Mapping[int, list[int]]

    def room(self, part: int, tone: int | None, step: int) -> float:
        """Steps from ``step`` to the next onset of a given note of ``part`` with the pitch
        ``tone``, or with any pitch if ``tone`` is ``None``; infinite if no such note follows."""
        notes = self.notes[self.notes["part"] == part]
        begins = notes["start"][(notes["pitch"] == tone) | (tone is None)]
        return float(min(begins[begins > step].tolist(), default=np.inf)) - step


class BarRow(PartLimits, GivenRow):
    """The constraint on one row, whose ids so far must end with a complete group.

    since      the step from which notes are composed
    remaining  the given groups of this bar that are still to be written
    queue      the ids that are forced next, :data:`FREE` for an id that the model draws
    """

    state: BarState
    remaining: list[Group]

    def __init__(self, new: NewNotes, state: BarState, given: GivenBars) -> None:
        GivenRow.__init__(self, new, state)
        self.given = given
        self.since = max(state.bars[-1].begin, new.begin)
        self.queue: list[int] = []
        self.remaining = [group for group in given.groups[self.bar] if group.key > state.last]
        self._ahead = 0  # how many ids at the front of the queue belong to groups ahead
        self._settle()

    @property
    def bar(self) -> int:
        """The number of the current bar, whose line is complete."""
        return self.state.lines - 1

    # ------------------------------------------------------------------------ what may come next

    def forced(self) -> list[int]:
        return list(takewhile(FREE.__ne__, self.queue))

    def toward_given(self) -> list[int]:
        if not self.remaining or self.queue:
            return []
        ids, count = self.remaining[0].ids, len(self.state.group)
        return [ids[count]] if ids[:count] == self.state.group else []

    def onward(self) -> int | None:
        return self.table.id("known") if "known" in self.new.ids else None

    def bar_end(self) -> int:
        """The id that ends this bar: the first id of the groups ahead of the next bar, or else of
        its bar line."""
        following = self.given.ahead.get(self.bar + 1)
        return following[0] if following else self.table.id("bar")

    def restrict(self, mask: np.ndarray) -> None:
        if self.queue:
            return
        state, given = self.state, self.remaining
        super().restrict(mask)
        field = len(state.group)
        if field == 0:
            mask[self.table.id("bar")] = False
            mask[given[0].ids[0] if given else self.bar_end()] = True
        elif field < 3:
            mask[self.toward_given()] = True
        elif field == 3:
            habit = self.new.habits.get(state.part)
            pitch = None if habit is not None and habit.voices == 1 else state.value(2)
            room = self.given.room(state.part, pitch, state.step)
            mask[self.new.ids["length"]] &= self.new.values("length") <= room

    # ------------------------------------------------------------------------- what is written

    def advance(self, token: int) -> None:
        if self.queue:
            self.queue.pop(0)
        elif not self.state.group and not self.remaining and token == self.bar_end():
            self._next_bar()
            return
        if self._ahead:
            self._ahead -= 1
        else:
            self._write(token)

    def _next_bar(self) -> None:
        """Begin the next bar: its first id was drawn, which belongs to its groups ahead or to its
        bar line, and the other ids of these groups are put into the queue."""
        bar = self.bar + 1
        if self.given.lines[bar] >= self.new.end:
            self.done = True
            return
        ahead, line = self.given.ahead.get(bar, []), self.given.openings[bar].tolist()
        self.queue = [*ahead, *line][1:]
        self._ahead = max(len(ahead) - 1, 0)
        self.remaining = list(self.given.groups[bar])
        if not ahead:
            self._write(line[0])

    def _write(self, token: int) -> None:
        lines, group = self.state.lines, [*self.state.group, token]
        self.changes = self.state.advance(token)
        self.piece.append(token)
        if self.state.group:
            if (
                not self.queue
                and len(group) == 3
                and self.remaining
                and self.remaining[0].ids[:3] == group
            ):
                self.queue = self.remaining[0].ids[3:]
            return
        if self.state.lines == lines:
            self._record(self.state.bars[-1].groups[-1])
        self._settle()

    def _record(self, group: Group) -> None:
        """Record a complete note, stroke or chord as given or new."""
        is_given = bool(self.remaining) and self.remaining[0].ids == group.ids
        if is_given:
            self.remaining.pop(0)
        if group.velocity_bin:
            self.is_new.append(not is_given)

    def _settle(self) -> None:
        """Set ``done`` if nothing more is to be composed after a complete group."""
        begin = self.state.bars[-1].begin
        assert self.new.end is not None
        self.remaining = [group for group in self.remaining if begin + group.place < self.new.end]
        self.done = self.state.step >= self.new.end and not self.remaining
