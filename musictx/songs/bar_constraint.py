"""Constraints on new notes in bar tokens: the limits of parts, and given notes that are kept.

:class:`PartLimits` hold for all music in bar tokens. :class:`BarRow` also keeps given notes; see
:mod:`musictx.sampling.infill`. Bar lines, given groups, and groups ahead, which announce given
notes (:mod:`musictx.songs.bar_codec`), are forced. The model draws the groups between them, and
which earlier bar a bar repeats. A drawn group must precede the next given group in the order of
groups, or be equal to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from musictx.data.statistics import WINDOW_SECONDS
from musictx.notes import DRUMS
from musictx.sampling.infill import GivenRow, NewNotes
from musictx.songs.bar_codec import LENGTH, PART, PLACE, TONE, part_id
from musictx.songs.bar_grammar import BarState, Group
from musictx.songs.bars import STEP_SECONDS, STEPS_PER_SECOND
from musictx.tokens.controls import KNOWN
from musictx.tokens.stream import CHORD

#: Placeholder in a queue of forced ids for an id that the model draws.
FREE = -1
#: Steps of the sliding window in which the onsets of a part are counted.
WINDOW = round(WINDOW_SECONDS * STEPS_PER_SECOND)


@dataclass
class PartLimits:
    """Applies the limits ``new`` to the notes that may follow ``state``.

    A place needs an allowed part there, and a part an allowed tone: a pitch, drum or chord root.
    All notes of a part, new and given, count towards its limits.

    remaining  the given groups of this bar that are not yet written, in order; ``None`` where music
               is continued. Then a pitch may begin again while it sounds, since songs may have
               several tracks of one program
    """

    new: NewNotes
    state: BarState
    remaining: list[Group] | None = None

    @property
    def parts(self) -> Collection[int]:
        """The parts of new notes."""
        return self.new.parts or ()

    def restrict(self, mask: np.ndarray) -> None:
        """Restrict ``mask``, the ids that the grammar allows, to groups of new notes that precede
        the remaining given groups. Bar lines and ``eos`` are not restricted."""
        new, state, field = self.new, self.state, len(self.state.group)
        if field == PLACE:
            places = mask[state.ids["place"]]
            for place in np.flatnonzero(places).tolist():
                places[place] = any(self._tones_at(place, part).any() for part in self.parts)
        elif state.in_line:
            return
        elif field == PART:
            forbidden = np.ones(len(mask), bool)
            forbidden[[part_id(new.table, part) for part in self.parts_at(state.place)]] = False
            mask[forbidden] = False
        elif field == TONE:
            kind, tones = state.kind(TONE), self._tones_at(state.place, state.part)
            mask[state.ids[kind]] &= tones[state.table.values_in(kind)]
        elif field == LENGTH and state.part in new.habits:
            longest = np.round(new.habits[state.part].longest / STEP_SECONDS)
            mask[state.ids["length"]] &= state.table.values_in("length") <= max(longest, 1)

    def parts_at(self, place: int) -> list[int]:
        """The parts that may have a new group at ``place``."""
        return [part for part in self.parts if self._tones_at(place, part).any()]

    def _tones_at(self, place: int, part: int) -> np.ndarray:
        """(128,) bool: the tones that a new group of ``part`` may have at ``place``."""
        new, last, current = self.new, self.state.last, (place, part)
        step, end = self.state.bars[-1].begin + place, np.inf if new.end is None else new.end
        places = len(self.state.table.values_in("place"))
        following = self.remaining[0].key if self.remaining else (places, 0, 0)
        in_order = last[:2] <= current <= following[:2] and (part != CHORD or last[:2] < current)
        if not (in_order and new.begin <= step < end) or self.is_full(part, step):
            return np.zeros(128, bool)
        tones = new.tones(part).copy()
        if last[:2] == current:
            tones[: last[2] + 1] = False
        if following[:2] == current:
            tones[following[2] :] = False
        if self.remaining is not None:
            tones[[*self._sounding(part, step)]] = False
        return tones

    def is_full(self, part: int, step: int) -> bool:
        """Whether ``part`` may begin no further note at ``step``, because it has as many
        simultaneous notes, or recent onsets, as its habit allows."""
        if part not in self.new.habits:
            return False
        habit, recent = self.new.habits[part], self.state.count_onsets(part, step - WINDOW + 1)
        return len(self._sounding(part, step)) >= habit.voices or recent >= habit.densest

    def _sounding(self, part: int, step: int) -> set[int]:
        """The pitches of ``part`` that sound at ``step``, including given notes that begin
        there."""
        if part in (CHORD, DRUMS):
            return set()
        place, given = step - self.state.bars[-1].begin, self.remaining or ()
        beginning = {group.tone for group in given if group.part == part and group.place <= place}
        return beginning | {pitch for _, pitch in self.state.sounding_at(part, step)}


@dataclass(frozen=True)
class GivenBars:
    """The bars of a piece, with their given notes and chords.

    lines     (bars + 1,) steps of the bar lines, and of the end of the last bar
    line_ids  (bars, 5) the ids of the bar lines; :data:`FREE` where the model draws an id
    notes     (n,) the given notes and chords (:data:`musictx.tokens.stream.STREAM_NOTE`)
    groups    for each bar, its given notes and chords as groups, in order
    ahead     bar -> the ids of the groups ahead that precede its bar line
    """

    lines: np.ndarray
    line_ids: np.ndarray
    notes: np.ndarray
    groups: Sequence[Sequence[Group]]
    ahead: Mapping[int, list[int]]


def steps_to_next(begins: np.ndarray, step: int) -> float:
    """Steps from ``step`` to the first of ``begins`` after it; 10**9 if there is none."""
    return float((begins[begins > step] - step).min(initial=10**9))


class BarRow(PartLimits, GivenRow):
    """The constraint on one row, whose ids so far must end with a complete group.

    since      the step from which notes are composed
    remaining  the given groups of this bar that are not yet written
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
        self._check_done()

    @property
    def bar(self) -> int:
        """The number of the last bar whose bar line is complete."""
        return self.state.lines - 1

    # ------------------------------------------------------------------------ what may come next

    def forced(self) -> list[int]:
        return list(takewhile(lambda token: token != FREE, self.queue))

    def ids_toward_given(self) -> list[int]:
        if not self.remaining or self.queue:
            return []
        ids, count = self.remaining[0].ids, len(self.state.group)
        return [ids[count]] if ids[:count] == self.state.group else []

    def due_id(self) -> int:
        return self.table.id(KNOWN)

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
        if field == PLACE:
            mask[self.table.id("bar")] = False
            mask[given[0].ids[0] if given else self.bar_end()] = True
        elif field < LENGTH:
            mask[self.ids_toward_given()] = True
        elif field == LENGTH:
            # The new note must end before these given notes: those of its pitch, or all of its part
            # if the part plays one note at a time.
            notes, habit = self.given.notes, self.new.habits.get(state.part)
            is_limit = notes["part"] == state.part
            if habit is None or habit.voices != 1:
                is_limit &= notes["pitch"] == state.value(TONE)
            longest = steps_to_next(notes["start"][is_limit], state.step)
            mask[self.state.ids["length"]] &= self.table.values_in("length") <= longest

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
        """Begin the next bar, whose first id has just been drawn, and queue the other ids of its
        groups ahead and bar line."""
        bar = self.bar + 1
        if self.given.lines[bar] >= self.new.end:
            self.done = True
            return
        ahead, line = self.given.ahead.get(bar, []), self.given.line_ids[bar].tolist()
        self.queue = [*ahead, *line][1:]
        self._ahead = max(len(ahead) - 1, 0)
        self.remaining = list(self.given.groups[bar])
        if not ahead:
            self._write(line[0])

    def _write(self, token: int) -> None:
        lines = self.state.lines
        self.changes = self.state.advance(token)
        self.piece.append(token)
        if self.state.group:
            due = self.remaining[0].ids if self.remaining and not self.queue else []
            if self.state.group == due[:LENGTH]:
                self.queue = due[LENGTH:]
            return
        if self.state.lines == lines:  # a note, a drum stroke or a chord is complete
            group = self.state.bars[-1].groups[-1]
            is_given = bool(self.remaining) and self.remaining[0].ids == group.ids
            if is_given:
                self.remaining.pop(0)
            if group.velocity_bin:  # neither a chord nor a tie
                self.is_new.append(not is_given)
        self._check_done()

    def _check_done(self) -> None:
        """After a complete group: drop given groups after the end, and set ``done`` if nothing is
        left to compose."""
        begin = self.state.bars[-1].begin
        assert self.new.end is not None
        self.remaining = [group for group in self.remaining if begin + group.place < self.new.end]
        self.done = self.state.step >= self.new.end and not self.remaining
