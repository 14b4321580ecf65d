"""Constraints on new notes in bar tokens: the limits of parts, and given notes that are kept.

:class:`PartLimits` apply to all music in bar tokens. :class:`BarRow` also keeps given notes; see
:mod:`musictx.sampling.infill`. Bar lines, given groups and groups ahead
(:mod:`musictx.songs.bar_codec`) are forced. The model draws the groups between them, and which
earlier bar a bar repeats. A drawn group must precede the next given group in the order of groups,
or be equal to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from musictx.data.statistics import WINDOW_SECONDS
from musictx.notes import DRUMS
from musictx.sampling.infill import GivenRow, NewNoteLimits
from musictx.songs.bar_codec import LENGTH, PART, PLACE, TONE, part_id
from musictx.songs.bar_grammar import END_KEY, BarState, Group
from musictx.songs.bars import STEP_SECONDS, STEPS_PER_SECOND
from musictx.tokens.controls import KNOWN
from musictx.tokens.stream import CHORD

#: Placeholder, in a queue of forced ids, for an id that the model draws.
FREE = -1
#: The length in steps of the sliding window in which the onsets of a part are counted.
WINDOW_STEPS = round(WINDOW_SECONDS * STEPS_PER_SECOND)


@dataclass
class PartLimits:
    """Applies ``limits`` to the notes that may follow ``state``.

    A place is allowed if a part is allowed there, and a part if a tone is: a pitch, drum or chord
    root. All notes of a part, new and given, count towards its limits.

    remaining  the given groups of the current bar that are not yet written, in order; ``None`` in a
               new piece or a continuation
    shared     parts with several tracks, of which a pitch may begin again while it sounds
    """

    limits: NewNoteLimits
    state: BarState
    remaining: list[Group] | None = None
    shared: Collection[int] = ()

    @property
    def parts(self) -> Collection[int]:
        """The parts of new notes."""
        return self.limits.parts or ()

    def restrict(self, mask: np.ndarray) -> None:
        """Restrict ``mask``, the ids that the grammar allows, to groups of new notes that precede
        the remaining given groups. Bar lines and ``eos`` are not restricted."""
        limits, state, field = self.limits, self.state, len(self.state.group)
        if field == PLACE:
            places = mask[state.ids["place"]]
            for place in np.flatnonzero(places).tolist():
                places[place] = any(self._tones_at(place, part).any() for part in self.parts)
        elif state.in_line:
            return
        elif field == PART:
            allowed = np.zeros(len(mask), bool)
            allowed[[part_id(limits.table, part) for part in self.parts_at(state.place)]] = True
            mask &= allowed
        elif field == TONE:
            kind, tones = state.kind(TONE), self._tones_at(state.place, state.part)
            mask[state.ids[kind]] &= tones[state.table.values_in(kind)]
        elif field == LENGTH and state.part in limits.habits:
            longest = np.round(limits.habits[state.part].longest / STEP_SECONDS)
            mask[state.ids["length"]] &= state.table.values_in("length") <= max(longest, 1)

    def parts_at(self, place: int) -> list[int]:
        """The parts that may have a new group at ``place``."""
        return [part for part in self.parts if self._tones_at(place, part).any()]

    def _tones_at(self, place: int, part: int) -> np.ndarray:
        """(128,) bool: the tones that a new group of ``part`` may have at ``place``."""
        limits, last, current = self.limits, self.state.last_key, (place, part)
        step = self.state.bars[-1].begin + place
        following = self.remaining[0].key if self.remaining else END_KEY
        in_order = last[:2] <= current <= following[:2] and (part != CHORD or last[:2] < current)
        in_region = limits.begin <= step and (limits.end is None or step < limits.end)
        if not (in_order and in_region) or self.is_full(part, step):
            return np.zeros(128, bool)
        tones = limits.tones(part).copy()
        if last[:2] == current:
            tones[: last[TONE] + 1] = False
        if following[:2] == current:
            tones[following[TONE] :] = False
        if part not in self.shared:
            tones[[*self._sounding(part, step)]] = False
        return tones

    def is_full(self, part: int, step: int) -> bool:
        """Whether ``part`` may begin no further note at ``step``, because it has as many
        simultaneous notes, or recent onsets, as its habit allows."""
        if part not in self.limits.habits:
            return False
        habit = self.limits.habits[part]
        recent = self.state.count_onsets(part, step - WINDOW_STEPS + 1)
        return len(self._sounding(part, step)) >= habit.voices or recent >= habit.densest

    def _sounding(self, part: int, step: int) -> set[int]:
        """The pitches of ``part`` that sound at ``step``, including those of given notes that begin
        there."""
        if part in (CHORD, DRUMS):
            return set()
        place, given = step - self.state.bars[-1].begin, self.remaining or ()
        begun = {group.tone for group in given if group.part == part and group.place <= place}
        return begun | {pitch for _, pitch in self.state.sounding_at(part, step)}


@dataclass(frozen=True)
class GivenBars:
    """The bars of a piece, with their given notes and chords.

    lines     (bars + 1,) steps of the bar lines, and of the end of the last bar
    line_ids  (bars, 5) the ids of the bar lines; :data:`FREE` where the model draws an id
    notes     (n,) the given notes and chords (:data:`musictx.tokens.stream.STREAM_NOTE`)
    groups    for each bar, its given notes and chords as groups, in order
    ahead     {bar: the ids of the groups ahead that precede its bar line}
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

    first_step  the first step at which this row can have composed notes
    queue       the ids that are forced next, :data:`FREE` for an id that the model draws
    """

    state: BarState
    remaining: list[Group]

    def __init__(self, limits: NewNoteLimits, state: BarState, given: GivenBars) -> None:
        GivenRow.__init__(self, limits, state)
        self.given = given
        self.first_step = max(state.bars[-1].begin, limits.begin)
        self.queue: list[int] = []
        self.remaining = [group for group in given.groups[self.bar] if group.key > state.last_key]
        self._ahead = 0  # how many ids at the front of the queue belong to groups ahead
        self._check_done()

    @property
    def bar(self) -> int:
        """The number of the current bar, the last one whose bar line is complete."""
        return self.state.line_count - 1

    def forced(self) -> list[int]:
        return list(takewhile(lambda token: token != FREE, self.queue))

    def ids_toward_given(self) -> list[int]:
        if not self.remaining or self.queue:
            return []
        ids, count = self.remaining[0].ids, len(self.state.group)
        return [ids[count]] if ids[:count] == self.state.group else []

    def due_id(self) -> int:
        return self.table.id(KNOWN)  # it ends a bar, as ``bar`` does, whose group it shares

    def bar_end(self) -> int:
        """The id that ends the current bar: the first id of the groups ahead of the next bar, or
        else of its bar line."""
        following = self.given.ahead.get(self.bar + 1)
        return following[0] if following else self.table.id("bar")

    def restrict(self, mask: np.ndarray) -> None:
        if self.queue:
            return
        super().restrict(mask)
        state, given, field = self.state, self.remaining, len(self.state.group)
        if field == PLACE:
            mask[self.table.id("bar")] = False
            mask[given[0].ids[0] if given else self.bar_end()] = True
        elif field < LENGTH:
            mask[self.ids_toward_given()] = True
        elif field == LENGTH:
            # The new note must end before the next given note of its pitch or, if its part has one
            # voice, of its part.
            notes, habit = self.given.notes, self.limits.habits.get(state.part)
            is_limit = notes["part"] == state.part
            if habit is None or habit.voices != 1:
                is_limit &= notes["pitch"] == state.value(TONE)
            longest = steps_to_next(notes["start"][is_limit], state.step)
            mask[state.ids["length"]] &= self.table.values_in("length") <= longest

    def advance(self, token: int) -> None:
        if not (self.queue or self.state.group or self.remaining) and token == self.bar_end():
            self._queue_next_bar()
        if self.done:
            return
        if self.queue:
            self.queue.pop(0)
        if self._ahead:
            self._ahead -= 1
        else:
            self._write(token)

    def _queue_next_bar(self) -> None:
        """Queue the ids of the next bar's groups ahead and bar line, or set ``done`` after the last
        bar."""
        bar = self.bar + 1
        if self.given.lines[bar] >= self.limits.end:
            self.done = True
            return
        ahead = self.given.ahead.get(bar, [])
        self.queue = [*ahead, *self.given.line_ids[bar].tolist()]
        self._ahead = len(ahead)
        self.remaining = list(self.given.groups[bar])

    def _write(self, token: int) -> None:
        line_count = self.state.line_count
        self.changes = self.state.advance(token)
        self.piece.append(token)
        if self.state.group:
            due = self.remaining[0].ids if self.remaining and not self.queue else []
            if self.state.group == due[:LENGTH]:
                self.queue = due[LENGTH:]
            return
        if self.state.line_count == line_count:  # not a bar line
            group = self.state.bars[-1].groups[-1]
            is_given = bool(self.remaining) and self.remaining[0].ids == group.ids
            if is_given:
                self.remaining.pop(0)
            if group.velocity_bin:  # neither a chord nor a tie
                self.is_new.append(not is_given)
        self._check_done()

    def _check_done(self) -> None:
        """After a complete group: drop given groups at or after the end of the region, and set
        ``done`` if nothing is left to compose."""
        begin, end = self.state.bars[-1].begin, self.limits.end
        assert end is not None
        self.remaining = [group for group in self.remaining if begin + group.place < end]
        self.done = self.state.step >= end and not self.remaining
