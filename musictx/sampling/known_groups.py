"""The hard constraint that known groups come back exactly, while others are composed around them.

For notes in bars (:mod:`musictx.tokens.bar_tokens`). Bar lines, what is known, and the groups ahead
of a bar (:mod:`musictx.tokens.lookahead`) are written for the model; it draws the rest, and
which earlier bar a bar says again. At each place it may draw what comes before the next known group
in the order of groups, or that group itself, which is then written to its end. New notes begin only
where something is to be composed, only in the parts that are asked for, never while a note of their
pitch sounds, and they end before a known note of their pitch begins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor

from musictx.chords import NONE, Chord
from musictx.sampling.bar_rules import BarRules, Key, key_of, part_of
from musictx.sampling.constraints import Constraint
from musictx.sampling.drummers import Drummer
from musictx.tokens.bar_grammar import BarState
from musictx.tokens.bar_ids import FIELDS_PER_NOTE
from musictx.tokens.stream import CHORD, DRUM_PART
from musictx.tokens.vocab import EOS, PAD, GrammarState

#: In place of an id that comes next, of a bar line too: the model draws it.
DRAWN = -1


class BarRow:
    """The constraint on one row, whose last id ends the group after which it goes on.

    state   the grammar after the piece so far;  bar  the number of the bar that is being written,
            whose line stands;  at  the key of the last group in it;  ends  (part, pitch) of new
            notes that sound -> the step at which they end;  drummer  who has a say in new drums
    written the piece so far, bar by bar: key and ids of each group

    What biases read of it (:mod:`musictx.sampling.infill_biases`), beside these: ``group``, the ids
    of the group that is being written; ``last``, the key of the group before it; ``left``, the
    given groups to come in this bar; ``chord``, that in force; ``begun``, part -> steps of the new
    notes of this row, which count from the step ``since`` on.
    """

    def __init__(
        self,
        rules: BarRules,
        state: BarState,
        bar: int,
        at: Key | None,
        ends: Mapping[tuple[int, int], int] | None = None,
        drummer: Drummer | None = None,
        written: Sequence[Sequence[tuple[Key, list[int]]]] = (),
    ) -> None:
        self.rules, self.state, self.bar, self.drummer = rules, state, bar, drummer
        self.queue: list[int] = []  # ids that come next, or DRAWN
        self.own_strikes: list[bool] = []  # of each note written here: is it the model's own?
        self.begun: defaultdict[int, list[int]] = defaultdict(list)  # part -> steps of those
        self.since = max(int(rules.lines[bar]), rules.begin)
        self.piece: list[int] = []  # the ids of the piece that were written here
        self.done = False
        self.group: list[int] = []
        self.ends = dict(ends or {})
        self.last: Key = at or (-1, -2, -1)
        self.left = [one for one in rules.known[bar] if one[0] > self.last]
        self._passed = 0  # ids of the queue that are not of the piece
        self.written = dict(enumerate(map(list, written)))
        said = [(key[2], ids[3]) for bar in written for key, ids in bar if key[1] == CHORD]
        self.chord = NONE  # in force
        if said:
            self.chord = Chord(said[-1][0], int(rules.table.value_of[said[-1][1]]))
        self._settle()

    # ------------------------------------------------------------------------ what may come next

    def allowed(self) -> np.ndarray:
        rules = self.rules
        mask = np.zeros(rules.table.size, bool)
        if self.done:
            mask[PAD] = True
        elif self.queue and self.queue[0] != DRAWN:
            mask[self.queue[0]] = True
        elif self.queue:
            mask |= self.state.allowed()
        elif not self.group:
            self._begin(mask)
        else:
            self._go_on(mask)
        return mask

    def due(self) -> int | None:
        """The next id of the next known group, where that may come now."""
        if not self.left or self.queue:
            return None
        ids = self.left[0][1]
        count = len(self.group)
        return ids[count] if ids[:count] == self.group else None

    @property
    def place(self) -> int:
        """The place in the bar of the group that is being written, or of the last one."""
        return self.value(0) if self.group else max(self.last[0], 0)

    @property
    def step(self) -> int:
        """The same as a step of the piece."""
        return int(self.rules.lines[self.bar]) + self.place

    def value(self, field: int) -> int:
        return int(self.rules.table.value_of[self.group[field]])

    def _begin(self, mask: np.ndarray) -> None:
        """A place, or the next bar."""
        ids = self.rules.ids
        may = self.state.allowed()[ids["place"]]
        until = self.left[0][0][0] if self.left else len(may) - 1
        for place in np.flatnonzero(may[: until + 1]).tolist():
            if self._open(place) and self.parts_at(place):
                mask[ids["place"].start + place] = True
        if self.left:
            mask[self.left[0][1][0]] = True
        else:
            mask[self.onward()] = True

    def onward(self) -> int:
        """The id that leaves this bar: of the first group ahead of the next one, or its line."""
        following = self.rules.ahead.get(self.bar + 1)
        return following[0] if following else int(self.rules.table.id("bar"))

    def _open(self, place: int) -> bool:
        step = int(self.rules.lines[self.bar]) + place
        inside = step < int(self.rules.lines[self.bar + 1])
        return inside and self.rules.begin <= step < self.rules.end

    def parts_at(self, place: int) -> list[int]:
        """The parts of which a new group may stand at ``place``, after the last one."""
        known = self.left[0][0] if self.left and self.left[0][0][0] == place else None
        least = self.last[1] if self.last[0] == place else -2
        found = []
        for part in self.rules.parts:
            if part < least or (known is not None and part > known[1]):
                continue
            if (part != CHORD or least < CHORD) and self._tones(place, part).any():
                found.append(part)
        return found

    def _tones(self, place: int, part: int) -> np.ndarray:
        """(n,) bool: the tones that a new group of ``part`` may have at ``place``."""
        kind = {CHORD: "root", DRUM_PART: "drum"}.get(part, "pitch")
        ids, table = self.rules.ids[kind], self.rules.table
        low = int(table.value_of[ids.start])
        tones = np.ones(ids.stop - ids.start, bool)
        step = int(self.rules.lines[self.bar]) + place
        habit = self.rules.habits.get(part)
        if habit is not None:
            tones[: max(habit.low - low, 0)] = False
            tones[max(habit.high + 1 - low, 0) :] = False
        if self.last[:2] == (place, part):
            tones[: max(self.last[2] + 1 - low, 0)] = False
        if self.left and self.left[0][0][:2] == (place, part):
            tones[max(self.left[0][0][2] - low, 0) :] = False
        own = [tone for (of, tone), end in self.ends.items() if of == part and end > step]
        if self.rules.full(part, step, len(own), self.begun[part]):
            tones[:] = False
        if kind == "pitch":
            tones &= self.rules.pitches[table.value_of[ids]]
            tones[np.array(own, int) - low] = False
            for of, tone in self.rules.sounding:
                if of == part and not self.rules.free(part, tone, step):
                    tones[tone - low] = False
        return tones

    def _go_on(self, mask: np.ndarray) -> None:
        ids, field, place = self.rules.ids, len(self.group), self.value(0)
        due = self.due()
        if field == 1:
            for part in self.parts_at(place) if self._open(place) else []:
                mask[self.part_id(part)] = True
        elif field == 2:
            part = self.part()
            kind = {CHORD: "root", DRUM_PART: "drum"}.get(part, "pitch")
            if self._open(place) and part in self.rules.parts:
                mask[ids[kind]] = self._tones(place, part)
        else:
            mask |= self.state.allowed()
            part, tone = self.part(), self.value(2)
            if field == 3 and part not in (CHORD, DRUM_PART):
                room = self.rules.room(part, tone, self.step)
                for most in room, self.rules.longest(part):
                    if most is not None:
                        mask[ids["length"].start + most : ids["length"].stop] = False
        if field < 3 and due is not None:
            mask[due] = True

    def part(self) -> int:
        return part_of(self.rules.table, self.group)

    def part_id(self, part: int) -> int:
        kind = {CHORD: "harmony", DRUM_PART: "drums"}.get(part, "program")
        return self.rules.table.id(kind, part if kind == "program" else 0)

    # --------------------------------------------------------------------------- what has come

    def advance(self, token: int) -> None:
        if self.queue:
            self.queue.pop(0)
        elif not self.group and token == self.onward() and not self.left:
            self._next_bar()
            return
        if self._passed:
            self._passed -= 1
            return
        self.state.advance(token)
        self.piece.append(token)
        self.group.append(token)
        if not self.queue and len(self.group) == 3 and self.left:
            ids = self.left[0][1]
            if ids[:3] == self.group:
                self.queue = list(ids[3:])
        if len(self.group) == FIELDS_PER_NOTE:
            self._complete()

    def _next_bar(self) -> None:
        """The first id on the way to the next bar was drawn: the others follow."""
        self.bar += 1
        if self.rules.lines[self.bar] >= self.rules.end:
            self.done = True
            return
        ahead = self.rules.ahead.get(self.bar, [])
        line = self.rules.opening[self.bar].tolist()
        self.queue = [*ahead, *line][1:]
        self._passed = max(len(ahead) - 1, 0)
        self.left = list(self.rules.known[self.bar])
        self.last = (-1, -2, -1)
        if not ahead:
            self.state.advance(line[0])
            self.piece.append(line[0])
            self.group.append(line[0])

    def _complete(self) -> None:
        kinds = [self.rules.table.token(one) for one in self.group]
        if kinds[0][0] == "place":
            self.last = _, part, _ = key_of(self.rules.table, self.group)
            self.written.setdefault(self.bar, []).append((self.last, self.group))
            if part == CHORD:
                self.chord = Chord(kinds[2][1], kinds[3][1])
            known = bool(self.left) and self.left[0][1] == self.group
            if known:
                self.left.pop(0)
            if part != CHORD and kinds[4][0] != "tie":
                self.own_strikes.append(not known)
                if not known:
                    self.begun[part].append(self.step)
            if part not in (CHORD, DRUM_PART) and not known:
                start = int(self.rules.lines[self.bar]) + kinds[0][1]
                self.ends[part, kinds[2][1]] = start + kinds[3][1]
        self.group = []
        self._settle()

    def _settle(self) -> None:
        """At the end of a group: is there more to compose, and if nothing can be, what comes."""
        rules = self.rules
        line, following = int(rules.lines[self.bar]), int(rules.lines[self.bar + 1])
        self.left = [one for one in self.left if line + one[0][0] < rules.end]
        if following >= rules.end and not self.left:
            first = max(self.last[0], 0)
            self.done = not any(self._open(place) for place in range(first, following - line))


class KnownGroups(Constraint):
    """Holds each row to the known groups; see :class:`BarRow`."""

    def __init__(self, rules: BarRules, rows: Sequence[BarRow]) -> None:
        self.rows = list(rows)
        self.states: Sequence[GrammarState] = [row.state for row in rows]
        kinds = rules.table.kinds
        self._kind = torch.from_numpy(np.array(rules.table.kind_of))
        # What would have gone on to the next bar goes to the groups ahead of it.
        if "known" in kinds:
            self._kind[rules.table.id("known")] = kinds.index("bar")

    def allowed(self) -> Tensor:
        found = np.stack([row.allowed() for row in self.rows])
        found[:, EOS] = False
        return torch.from_numpy(found)

    def groups(self) -> Tensor:
        """(V,): the kind of each id, those that lead to the next bar being one."""
        return self._kind

    def advance(self, ids: Tensor) -> None:
        for row, token in zip(self.rows, ids.tolist()):
            if not row.done:
                row.advance(token)

    def done(self) -> Tensor:
        return torch.tensor([row.done for row in self.rows])

    def due(self) -> Tensor | None:
        """(rows, n): ids that come next in any case, where they are the same in number."""
        queues = [list(takewhile(DRAWN.__ne__, row.queue)) for row in self.rows]
        count = min(map(len, queues), default=0)
        if count < 2 or any(row.done for row in self.rows):
            return None
        return torch.tensor([queue[:count] for queue in queues])
