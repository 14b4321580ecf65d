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
from musictx.songs.bar_codec import part_id
from musictx.songs.bar_grammar import BarState, Group
from musictx.songs.bars import STEP_SECONDS
from musictx.songs.part_limits import PartLimits
from musictx.tokens.stream import CHORD, DRUM_PART

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


class BarRow(GivenRow):
    """The constraint on one row, whose ids so far must end with a complete group.

    since      the step from which notes are composed
    remaining  the given groups of this bar that are still to be written
    queue      the ids that are forced next, :data:`FREE` for an id that the model draws
    limits     the limits of parts, with the onsets of the new notes
    """

    state: BarState

    def __init__(self, new: NewNotes, state: BarState, given: GivenBars) -> None:
        super().__init__(new, state)
        self.given, self.limits = given, PartLimits(new.habits)
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
        state, ids = self.state, self.new.ids
        field = len(state.group)
        if field == 0:
            until = self.remaining[0].place if self.remaining else len(mask)
            places = [
                place
                for place in np.flatnonzero(mask[ids["place"]]).tolist()
                if place <= until and self.parts_at(place)
            ]
            mask[:] = False
            mask[ids["place"]][places] = True
            mask[self.remaining[0].ids[0] if self.remaining else self.bar_end()] = True
        elif field == 1:
            mask[:] = False
            mask[[part_id(self.table, part) for part in self.parts_at(state.place)]] = True
        elif field == 2:
            kind = self.new.kind(state.part)
            mask[ids[kind]] &= self._tones(state.place, state.part)[self.new.values(kind)]
        elif field == 3 and state.part not in (CHORD, DRUM_PART):
            mask[ids["length"]] &= self.new.values("length") <= self._longest()
        if field in (1, 2):
            mask[self.toward_given()] = True

    def _longest(self) -> float:
        """The greatest length in steps of the new note that is being written."""
        state = self.state
        habit = self.new.habits.get(state.part)
        one_line = habit is not None and habit.voices == 1
        room = self.given.room(state.part, None if one_line else state.value(2), state.step)
        if habit is None or not np.isfinite(habit.longest):
            return room
        return min(max(round(habit.longest / STEP_SECONDS), 1), room)

    def _is_open(self, place: int) -> bool:
        """Whether new notes may begin at a place of this bar."""
        begin, steps, *_ = self.state.bars[-1]
        assert self.new.end is not None
        return self.new.begin <= begin + place < min(begin + steps, self.new.end)

    def parts_at(self, place: int) -> list[int]:
        """The parts that may have a new group at ``place``, after the last group."""
        if not self._is_open(place):
            return []
        last_place, last_part, _ = self.state.last
        least = last_part if last_place == place else -2
        most = (
            self.remaining[0].part
            if self.remaining and self.remaining[0].place == place
            else DRUM_PART
        )
        return [
            part
            for part in self.new.parts or ()
            if least <= part <= most
            and (part != CHORD or least < CHORD)
            and self._tones(place, part).any()
        ]

    def _tones(self, place: int, part: int) -> np.ndarray:
        """(128,) bool: the tones that a new group of ``part`` may have at ``place``."""
        tones, step = self.new.tones(part).copy(), self.state.bars[-1].begin + place
        if not self._is_open(place) or self.is_full(part, step):
            tones[:] = False
        *last, tone = self.state.last
        if last == [place, part]:
            tones[: tone + 1] = False
        if self.remaining and self.remaining[0].key[:2] == (place, part):
            tones[self.remaining[0].tone :] = False
        tones[[*self._sounding(part, step)]] = False
        return tones

    def _sounding(self, part: int, step: int) -> dict[int, int]:
        """Pitch -> end step of each note of ``part`` that sounds at ``step``. The given notes that
        begin there sound, too."""
        if not 0 <= part < DRUM_PART:
            return {}
        sounding = {pitch: end for end, pitch in self.state.sounding_at(part, step)}
        for group in self.remaining:
            begin = self.state.bars[-1].begin + group.place
            if group.part == part and begin <= step:
                sounding[group.tone] = begin + group.length
        return sounding

    def is_full(self, part: int, step: int) -> bool:
        """Whether ``part`` may begin no further note at ``step``, since it has reached a limit of
        its habit."""
        return step < self.limits.opens(part, self._sounding(part, step).values())

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
            if not is_given:
                self.limits.begun[group.part].append(self.state.step)

    def _settle(self) -> None:
        """Set ``done`` if nothing more is to be composed after a complete group."""
        begin, steps, *_ = self.state.bars[-1]
        assert self.new.end is not None
        self.remaining = [group for group in self.remaining if begin + group.place < self.new.end]
        if begin + steps >= self.new.end and not self.remaining:
            self.done = not any(map(self._is_open, range(self.state.place, steps)))
