"""The constraint that keeps given notes, in bars: see :mod:`musictx.sampling.infill`.

Bar lines, given groups and the groups ahead of a bar (:mod:`musictx.songs.bar_layout`) are forced.
The model draws the groups between them, and which earlier bar a bar repeats. The next group may be
any that comes before the next given one in the order of groups, or that one itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.chords import NONE, Chord
from musictx.sampling.infill import GivenRow, NewNotes
from musictx.songs.bar_codec import FIELDS_PER_NOTE, part_id, part_of
from musictx.songs.bar_grammar import BarState
from musictx.songs.bars import PER_SECOND, STEP_SECONDS
from musictx.tokens.stream import CHORD, DRUM_PART
from musictx.tokens.vocab import Vocabulary

#: Stands among the ids that are forced next for one that the model draws.
FREE = -1
#: The sort key of a group: place, part, tone.
Key = tuple[int, int, int]
#: A group: its key and its ids.
Keyed = tuple[Key, list[int]]


def key_of(table: Vocabulary, ids: Sequence[int]) -> Key:
    """The sort key of a group, from its ids."""
    return int(table.value_of[ids[0]]), part_of(table, ids), int(table.value_of[ids[2]])


@dataclass(frozen=True)
class GivenBars:
    """The bars of a piece, and what is given in them.

    lines     (B + 1,) steps of the bar lines, and where the last bar ends
    openings  (B, 5) the groups of the bar lines; :data:`FREE` where the model draws
    groups    of each bar its given groups, in order
    ahead     bar -> the ids of the groups ahead that stand before its line
    """

    table: Vocabulary
    lines: np.ndarray
    openings: np.ndarray
    groups: Sequence[Sequence[Keyed]]
    ahead: Mapping[int, list[int]]

    @cached_property
    def sounding(self) -> Mapping[tuple[int, int], list[tuple[int, int]]]:
        """(part, pitch) -> (begin, end) of its notes, steps; without drums."""
        spans = defaultdict(list)
        for start, (_, part, tone), ids in self._placed():
            if part not in (CHORD, DRUM_PART):
                spans[part, tone].append((start, start + int(self.table.value_of[ids[3]])))
        return dict(spans)

    @cached_property
    def chords(self) -> list[tuple[int, Chord]]:
        """(step, chord) of each chord."""
        return [
            (start, Chord(root, int(self.table.value_of[ids[3]])))
            for start, (_, part, root), ids in self._placed()
            if part == CHORD
        ]

    def _placed(self) -> list[tuple[int, Key, list[int]]]:
        lines = self.lines.tolist()
        return [
            (lines[bar] + key[0], key, ids)
            for bar, groups in enumerate(self.groups)
            for key, ids in groups
        ]

    def sounds(self, part: int, tone: int, step: int) -> bool:
        """Whether a given note of this pitch sounds at ``step``."""
        return any(a <= step < b for a, b in self.sounding.get((part, tone), ()))

    def room(self, part: int, tone: int | None, step: int) -> int | None:
        """Steps until the next given note of this pitch begins, of any pitch if that is ``None``;
        ``None``: there is none."""
        same = [(part, tone)] if tone is not None else [k for k in self.sounding if k[0] == part]
        later = [a - step for k in same for a, _ in self.sounding.get(k, ()) if a > step]
        return min(later, default=None)


class BarRow(GivenRow):
    """The constraint on one row; the ids so far end with a complete group.

    bar     the number of the present bar, whose line is written
    group   the ids of the present, incomplete group
    last    the key of the last group in this bar
    left    the given groups of this bar that are still to be written
    queue   the ids that are forced next, :data:`FREE` for one that the model draws
    ends    (part, pitch) of new notes that sound -> the step at which they end
    begun   part -> the steps at which its new notes began, in order
    written  the piece so far, bar by bar
    chord   in force
    """

    state: BarState

    def __init__(
        self,
        new: NewNotes,
        state: BarState,
        given: GivenBars,
        bar: int,
        written: Sequence[Sequence[Keyed]] = (),
        ends: Mapping[tuple[int, int], int] | None = None,
    ) -> None:
        super().__init__(new, state)
        self.given, self.bar = given, bar
        self.since = max(int(given.lines[bar]), new.begin)  # where it goes on
        self.queue: list[int] = []
        self.group: list[int] = []
        self.ends = dict(ends or {})
        self.begun: defaultdict[int, list[int]] = defaultdict(list)
        self.written = dict(enumerate(map(list, written)))
        before = self.written.get(bar)
        self.last: Key = before[-1][0] if before else (-1, -2, -1)
        self.left = [one for one in given.groups[bar] if one[0] > self.last]
        self._ahead = 0  # ids of the queue that are groups ahead
        chords = [one for groups in written for one in groups if one[0][1] == CHORD]
        self.chord = self._chord(*chords[-1]) if chords else NONE
        self._settle()

    def _chord(self, key: Key, ids: Sequence[int]) -> Chord:
        return Chord(key[2], int(self.table.value_of[ids[3]]))

    # ------------------------------------------------------------------------ what may come next

    def forced(self) -> list[int]:
        return list(takewhile(FREE.__ne__, self.queue))

    def due(self) -> list[int]:
        if not self.left or self.queue:
            return []
        ids, count = self.left[0][1], len(self.group)
        return [ids[count]] if ids[:count] == self.group else []

    def onward(self) -> int | None:
        return self.table.id("known") if "known" in self.new.ids else None

    def leaves(self) -> int:
        """The id that leaves this bar: of the first group ahead of the next one, or its line."""
        following = self.given.ahead.get(self.bar + 1)
        return following[0] if following else self.table.id("bar")

    def restrict(self, mask: np.ndarray) -> None:
        if self.queue:
            return
        field, ids = len(self.group), self.new.ids
        if field == 0:
            places = np.flatnonzero(mask[ids["place"]]).tolist()
            until = self.left[0][0][0] if self.left else len(mask)
            mask[:] = False
            mask[
                [ids["place"].start + one for one in places if one <= until and self.parts_at(one)]
            ] = True
            mask[self.left[0][1][0] if self.left else self.leaves()] = True
        elif field == 1:
            mask[:] = False
            mask[[part_id(self.table, part) for part in self.parts_at(self.value(0))]] = True
        elif field == 2:
            kind = self.new.kind(self.part())
            mask[ids[kind]] &= self._tones(self.value(0), self.part())[self.new.values(kind)]
        elif field == 3 and self.part() not in (CHORD, DRUM_PART):
            length = ids["length"]
            mask[length.start + min(self._longest(), length.stop - length.start) : length.stop] = (
                False
            )
        if field in (1, 2):
            mask[self.due()] = True

    def _longest(self) -> int:
        """The most steps that the present new note may last."""
        part, longest = self.part(), np.inf
        habit = self.new.habits.get(part)
        one_line = habit is not None and habit.voices == 1
        room = self.given.room(part, None if one_line else self.value(2), self.step)
        if habit is not None and np.isfinite(habit.longest):
            longest = max(round(habit.longest / STEP_SECONDS), 1)
        return int(min(longest, 2**31 if room is None else room))

    @property
    def place(self) -> int:
        """The place in the bar of the present group, or else of the last one."""
        return self.value(0) if self.group else max(self.last[0], 0)

    @property
    def step(self) -> int:
        """The same as a step of the piece."""
        return int(self.given.lines[self.bar]) + self.place

    @property
    def length(self) -> int:
        """Steps of the bar that is being written."""
        return int(self.given.lines[self.bar + 1] - self.given.lines[self.bar])

    def value(self, field: int) -> int:
        """The value of a field of the present group."""
        return int(self.table.value_of[self.group[field]])

    def part(self) -> int:
        """The part of the present group."""
        return part_of(self.table, self.group)

    def _open(self, place: int) -> bool:
        """Whether new notes may begin at a place of this bar."""
        first, following = self.given.lines[self.bar : self.bar + 2].tolist()
        assert self.new.end is not None
        return self.new.begin <= first + place < min(following, self.new.end)

    def parts_at(self, place: int) -> list[int]:
        """The parts of which a new group may stand at ``place``, after the last one."""
        if not self._open(place):
            return []
        given = self.left[0][0] if self.left and self.left[0][0][0] == place else None
        least = self.last[1] if self.last[0] == place else -2
        return [
            part
            for part in self.new.parts or ()
            if least <= part <= (part if given is None else given[1])
            and (part != CHORD or least < CHORD)
            and self._tones(place, part).any()
        ]

    def _tones(self, place: int, part: int) -> np.ndarray:
        """(128,) bool: the tones that a new group of ``part`` may have at ``place``."""
        tones, step = self.new.tones(part).copy(), int(self.given.lines[self.bar]) + place
        if not self._open(place) or self.full(part, step):
            tones[:] = False
        if self.last[:2] == (place, part):
            tones[: max(self.last[2] + 1, 0)] = False
        if self.left and self.left[0][0][:2] == (place, part):
            tones[max(self.left[0][0][2], 0) :] = False
        for of, tone in self.given.sounding:
            if of == part and self.given.sounds(part, tone, step):
                tones[tone] = False
        tones[self._held(part, step)] = False
        return tones

    def _held(self, part: int, step: int) -> list[int]:
        """The pitches of new notes of a part that sound at ``step``."""
        return [tone for (of, tone), end in self.ends.items() if of == part and end > step]

    def full(self, part: int, step: int) -> bool:
        """Whether no further note of ``part`` may begin at ``step``, by the habit of the part: the
        most notes that sound at once, and the most new notes in :data:`WINDOW_SECONDS`."""
        if part not in self.new.habits:
            return False
        habit, begun = self.new.habits[part], self.begun[part]
        window = round(WINDOW_SECONDS * PER_SECOND)
        recent = len(begun) - bisect_right(begun, step - window)
        if recent >= habit.densest or part == DRUM_PART:
            return recent >= habit.densest
        given = sum(self.given.sounds(of, t, step) for of, t in self.given.sounding if of == part)
        return len(self._held(part, step)) + given >= habit.voices

    # --------------------------------------------------------------------------- what has come

    def advance(self, token: int) -> None:
        if self.queue:
            self.queue.pop(0)
        elif not self.group and not self.left and token == self.leaves():
            self._next_bar()
            return
        if self._ahead:
            self._ahead -= 1
            return
        self._write(token)
        if not self.queue and len(self.group) == 3 and self.left:
            ids = self.left[0][1]
            if ids[:3] == self.group:
                self.queue = ids[3:]
        if len(self.group) == FIELDS_PER_NOTE:
            self._complete()

    def _write(self, token: int) -> None:
        self.changes = self.state.advance(token)
        self.piece.append(token)
        self.group.append(token)

    def _next_bar(self) -> None:
        """The first id of the next bar was drawn (of its groups ahead, or of its line): begin the
        bar, and put the other ids into the queue."""
        self.bar += 1
        if self.given.lines[self.bar] >= self.new.end:
            self.done = True
            return
        ahead, line = self.given.ahead.get(self.bar, []), self.given.openings[self.bar].tolist()
        self.queue = [*ahead, *line][1:]
        self._ahead = max(len(ahead) - 1, 0)
        self.left = list(self.given.groups[self.bar])
        self.last = (-1, -2, -1)
        if not ahead:
            self._write(line[0])

    def _complete(self) -> None:
        group, self.group = self.group, []
        if self.table.token(group[0])[0] == "place":
            self.last = _, part, tone = key_of(self.table, group)
            self.written.setdefault(self.bar, []).append((self.last, group))
            given = bool(self.left) and self.left[0][1] == group
            if given:
                self.left.pop(0)
            if part == CHORD:
                self.chord = self._chord(self.last, group)
            elif self.table.token(group[4])[0] != "tie":
                self.is_new.append(not given)
                if not given:
                    self.begun[part].append(self.step)
            if part not in (CHORD, DRUM_PART) and not given:
                self.ends[part, tone] = self.step + int(self.table.value_of[group[3]])
        self._settle()

    def _settle(self) -> None:
        """After a complete group: set ``done`` if there is nothing more to compose."""
        line, following = self.given.lines[self.bar : self.bar + 2].tolist()
        assert self.new.end is not None
        self.left = [one for one in self.left if line + one[0][0] < self.new.end]
        if following >= self.new.end and not self.left:
            first = max(self.last[0], 0)
            self.done = not any(self._open(place) for place in range(first, following - line))
