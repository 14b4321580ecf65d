"""The hard constraint that known groups come back exactly, while others are composed around them.

For notes in bars (:mod:`musictx.tokens.bar_tokens`). Bar lines, what is known, and the groups ahead
of a bar (:mod:`musictx.tokens.lookahead`) are written for the model; it draws the rest, and
which earlier bar a bar says again. At each place it may draw what comes before the next known group
in the order of groups, or that group itself, which is then written to its end. New notes begin only
where something is to be composed, only in the parts that are asked for, never while a note of their
pitch sounds, and they end before a known note of their pitch begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor

from musictx.chords import NONE, Chord
from musictx.sampling.bar_rules import BarRules, Key, key_of, part_of
from musictx.sampling.beside_known import OFF_CHORD, BesideKnown
from musictx.sampling.constraints import Constraint
from musictx.sampling.drummers import Drummer
from musictx.tokens.bar_grammar import BarState
from musictx.tokens.bar_ids import FIELDS_PER_NOTE
from musictx.tokens.bars import STEP_SECONDS
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS
from musictx.tokens.vocab import EOS, PAD, GrammarState

#: In place of an id that comes next, of a bar line too: the model draws it.
DRAWN = -1
#: A part that is asked for has at least this share of its usual notes over so many steps; each note
#: that it lacks makes a new one likelier by so many nats.
LEAST, WITHIN, PULL = 0.5, 8 * STEPS, 3.0
#: Where the known notes say earlier bars again, what came next there is likelier by so many nats:
#: its place, its part and its tone, the first fields of a group; in a variation, by so many what it
#: varies (scripts/LOG.md).
AGAIN, FIELDS, VARIED = 3.0, 3, 2.0
#: The program of a bass. Where it is asked for and silent at a bar line, a note of it there is
#: likelier by so many nats, and the root of the chord in force by so many: the lowest notes of
#: songs begin 85 of 100 bars, 81 of them on the root (scripts/reproduce/rhythm_sections.py).
BASS, ON_LINE, ON_ROOT = 33, 7.0, 2.0


class BarRow:
    """The constraint on one row, whose last id ends the group after which it goes on.

    state   the grammar after the piece so far;  bar  the number of the bar that is being written,
            whose line stands;  at  the key of the last group in it;  ends  (part, pitch) of new
            notes that sound -> the step at which they end;  drummer  who has a say in new drums
    written the piece so far, bar by bar: key and ids of each group
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
        self._begun: defaultdict[int, list[int]] = defaultdict(list)  # part -> steps of those
        self._since = max(int(rules.lines[bar]), rules.begin)
        self.piece: list[int] = []  # the ids of the piece that were written here
        self.done = False
        self._group: list[int] = []
        self._ends = dict(ends or {})
        self._last: Key = at or (-1, -2, -1)
        self._left = [one for one in rules.known[bar] if one[0] > self._last]
        self._passed = 0  # ids of the queue that are not of the piece
        self._written = dict(enumerate(map(list, written)))
        said = [(key[2], ids[3]) for bar in written for key, ids in bar if key[1] == CHORD]
        self._chord = NONE  # in force
        if said:
            self._chord = Chord(said[-1][0], int(rules.table.value_of[said[-1][1]]))
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
        elif not self._group:
            self._begin(mask)
        else:
            self._go_on(mask)
        return mask

    def due(self) -> int | None:
        """The next id of the next known group, where that may come now."""
        if not self._left or self.queue:
            return None
        ids = self._left[0][1]
        count = len(self._group)
        return ids[count] if ids[:count] == self._group else None

    def gain(self) -> np.ndarray:
        """(V,) nats by which notes of parts become likelier that lack some (:data:`LEAST`), those
        of a bass at bar lines, and what the drummer plays."""
        found, ids = np.zeros(self.rules.table.size), self.rules.ids
        if self.drummer is not None and not (self.done or self.queue):
            self._played(self.drummer, found)
        at_line = BASS in self.rules.habits and (self._value(0) if self._group else 0) == 0
        if at_line and len(self._group) == 2 and self._part() == BASS and self._chord != NONE:
            pitches = np.asarray(self.rules.table.value_of[ids["pitch"]])
            found[ids["pitch"]] = ON_ROOT * (pitches % 12 == self._chord.root)
        if self.rules.beside is not None and not self.queue:
            self._beside(self.rules.beside, found)
        count, then = len(self._group), self._said_before()
        if count < FIELDS and then[:count] == self._group and count < len(then):
            found[then[count]] += VARIED if self.rules.varies else AGAIN
        if len(self._group) == 2 and not self.queue and self.rules.avoided:
            found -= self.rules.of_another(self.bar, self._value(0), self._part(), self.due())
        if self.done or self.queue or len(self._group) > 1:
            return found
        lacks = {}
        since = max(self._since, self.step - WITHIN)
        for part, habit in self.rules.habits.items():
            begun = self._begun[part]
            count = len(begun) - bisect_left(begun, since)
            own = sum(of == part and end > self.step for (of, _), end in self._ends.items())
            if part in self.rules.parts and not self.rules.full(part, self.step, own, begun):
                usual = LEAST * habit.density * STEP_SECONDS * (self.step - since)
                lacks[part] = max(usual - count, 0.0)
        if not self._group:
            pull, due = PULL * max(lacks.values(), default=0.0), self.due()
            found[ids["place"]] += pull
            if due is not None and not self._parts(self._left[0][0][0]):
                found[due] -= pull
        for part, lack in lacks.items() if self._group else ():
            found[self._part_id(part)] += PULL * lack
        if at_line and self._last[0] <= 0 and self._last[1] < BASS and BASS in self._parts(0):
            found[self._part_id(BASS) if self._group else ids["place"].start] += ON_LINE
        return found

    def _beside(self, known: BesideKnown, gain: np.ndarray) -> None:
        """Takes from ``gain`` what the pitch or the length of a note costs beside known ones."""
        if len(self._group) not in (2, 3) or self._part() in (CHORD, DRUM_PART):
            return
        ids = self.rules.ids["pitch" if len(self._group) == 2 else "length"]
        values = np.asarray(self.rules.table.value_of[ids])
        if len(self._group) == 2:
            nats = known.clashes(self.step)[values % 12]
            if CHORD not in self.rules.parts and self._chord != NONE:  # it is known, and may clash
                inside = np.isin(values % 12, [*self._chord.classes])
                nats = np.where(inside, 0.0, nats + OFF_CHORD)
        else:
            composed = CHORD in self.rules.parts
            nats = known.lengths(self._value(2), self.step, values, composed)
        if (due := self.due()) is not None:  # a known note costs nothing
            nats[due - ids.start] = 0.0
        gain[ids] -= nats

    def _said_before(self) -> list[int]:
        """The ids that came next in the bar that this one says again; nothing where it is new."""
        there = self._written.get(self.rules.returns.get(self.bar, -1))
        if there is None or self.done or self.queue:
            return []
        return next((ids for key, ids in there if key > self._last), [self._onward()])

    def _played(self, drummer: Drummer, gain: np.ndarray) -> None:
        """Adds what ``drummer`` says of the next stroke to ``gain``, in a bar of his meter."""
        rules, place = self.rules, self._value(0) if self._group else max(self._last[0], 0)
        bar = int(rules.lines[self.bar + 1] - rules.lines[self.bar])
        if DRUM_PART not in rules.parts or bar != drummer.steps:
            return
        after = self._last[2] if self._last[:2] == (place, DRUM_PART) else -1
        alone, due = not {*rules.parts} - {CHORD, DRUM_PART}, self.due()
        if not self._group:
            nats, first = drummer.places(place, after), rules.ids["place"].start
            if alone:  # a new group is a stroke, but where a known one comes
                at = [drummer.stroke(at, after if at == place else -1) for at in range(place, bar)]
                nats[place:-1] += at
                if due is not None and first <= due < first + bar:
                    nats[due - first] -= at[due - first - place]
            gain[first : first + bar] += nats[:-1]
            gain[self._onward()] += nats[-1]
        elif len(self._group) == 1 and (due is not None or not alone):
            gain[self._part_id(DRUM_PART)] += drummer.stroke(place, after)
        elif len(self._group) == 2 and self._part() == DRUM_PART:
            gain[rules.ids["drum"]] += drummer.drums(place, after)

    @property
    def step(self) -> int:
        """The step of the group that is being written, or of the last one."""
        place = self._value(0) if self._group else max(self._last[0], 0)
        return int(self.rules.lines[self.bar]) + place

    def _value(self, field: int) -> int:
        return int(self.rules.table.value_of[self._group[field]])

    def _begin(self, mask: np.ndarray) -> None:
        """A place, or the next bar."""
        ids = self.rules.ids
        may = self.state.allowed()[ids["place"]]
        until = self._left[0][0][0] if self._left else len(may) - 1
        for place in np.flatnonzero(may[: until + 1]).tolist():
            if self._open(place) and self._parts(place):
                mask[ids["place"].start + place] = True
        if self._left:
            mask[self._left[0][1][0]] = True
        else:
            mask[self._onward()] = True

    def _onward(self) -> int:
        """The id that leaves this bar: of the first group ahead of the next one, or its line."""
        following = self.rules.ahead.get(self.bar + 1)
        return following[0] if following else int(self.rules.table.id("bar"))

    def _open(self, place: int) -> bool:
        step = int(self.rules.lines[self.bar]) + place
        inside = step < int(self.rules.lines[self.bar + 1])
        return inside and self.rules.begin <= step < self.rules.end

    def _parts(self, place: int) -> list[int]:
        """The parts of which a new group may stand at ``place``, after the last one."""
        known = self._left[0][0] if self._left and self._left[0][0][0] == place else None
        least = self._last[1] if self._last[0] == place else -2
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
        if self._last[:2] == (place, part):
            tones[: max(self._last[2] + 1 - low, 0)] = False
        if self._left and self._left[0][0][:2] == (place, part):
            tones[max(self._left[0][0][2] - low, 0) :] = False
        own = [tone for (of, tone), end in self._ends.items() if of == part and end > step]
        if self.rules.full(part, step, len(own), self._begun[part]):
            tones[:] = False
        if kind == "pitch":
            tones &= self.rules.pitches[table.value_of[ids]]
            tones[np.array(own, int) - low] = False
            for of, tone in self.rules.sounding:
                if of == part and not self.rules.free(part, tone, step):
                    tones[tone - low] = False
        return tones

    def _go_on(self, mask: np.ndarray) -> None:
        ids, field, place = self.rules.ids, len(self._group), self._value(0)
        due = self.due()
        if field == 1:
            for part in self._parts(place) if self._open(place) else []:
                mask[self._part_id(part)] = True
        elif field == 2:
            part = self._part()
            kind = {CHORD: "root", DRUM_PART: "drum"}.get(part, "pitch")
            if self._open(place) and part in self.rules.parts:
                mask[ids[kind]] = self._tones(place, part)
        else:
            mask |= self.state.allowed()
            part, tone = self._part(), self._value(2)
            if field == 3 and part not in (CHORD, DRUM_PART):
                room = self.rules.room(part, tone, self.step)
                for most in room, self.rules.longest(part):
                    if most is not None:
                        mask[ids["length"].start + most : ids["length"].stop] = False
        if field < 3 and due is not None:
            mask[due] = True

    def _part(self) -> int:
        return part_of(self.rules.table, self._group)

    def _part_id(self, part: int) -> int:
        kind = {CHORD: "harmony", DRUM_PART: "drums"}.get(part, "program")
        return self.rules.table.id(kind, part if kind == "program" else 0)

    # --------------------------------------------------------------------------- what has come

    def advance(self, token: int) -> None:
        if self.queue:
            self.queue.pop(0)
        elif not self._group and token == self._onward() and not self._left:
            self._next_bar()
            return
        if self._passed:
            self._passed -= 1
            return
        self.state.advance(token)
        self.piece.append(token)
        self._group.append(token)
        if not self.queue and len(self._group) == 3 and self._left:
            ids = self._left[0][1]
            if ids[:3] == self._group:
                self.queue = list(ids[3:])
        if len(self._group) == FIELDS_PER_NOTE:
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
        self._left = list(self.rules.known[self.bar])
        self._last = (-1, -2, -1)
        if not ahead:
            self.state.advance(line[0])
            self.piece.append(line[0])
            self._group.append(line[0])

    def _complete(self) -> None:
        kinds = [self.rules.table.token(one) for one in self._group]
        if kinds[0][0] == "place":
            self._last = _, part, _ = key_of(self.rules.table, self._group)
            self._written.setdefault(self.bar, []).append((self._last, self._group))
            if part == CHORD:
                self._chord = Chord(kinds[2][1], kinds[3][1])
            known = bool(self._left) and self._left[0][1] == self._group
            if known:
                self._left.pop(0)
            if part != CHORD and kinds[4][0] != "tie":
                self.own_strikes.append(not known)
                if not known:
                    self._begun[part].append(self.step)
            if part not in (CHORD, DRUM_PART) and not known:
                start = int(self.rules.lines[self.bar]) + kinds[0][1]
                self._ends[part, kinds[2][1]] = start + kinds[3][1]
        self._group = []
        self._settle()

    def _settle(self) -> None:
        """At the end of a group: is there more to compose, and if nothing can be, what comes."""
        rules = self.rules
        line, following = int(rules.lines[self.bar]), int(rules.lines[self.bar + 1])
        self._left = [one for one in self._left if line + one[0][0] < rules.end]
        if following >= rules.end and not self._left:
            first = max(self._last[0], 0)
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
