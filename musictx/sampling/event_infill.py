"""Infilling for event tokens (note-ons, drums and note-offs); see :mod:`.infill`.

The model reads given notes as in training (``tokens/controls.py``): later notes after the mark
``known``, earlier notes as the stream up to the mark ``here``. Given events are written at their
steps, with their program and velocity: note-offs first, note-ons before the next time shift. Before
a given note-on the model may draw any velocity, since it cannot predict the right one; that
velocity does not begin a new note.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from musictx.bundle import Bundle
from musictx.data.statistics import WINDOW_SECONDS
from musictx.notes import DRUMS
from musictx.sampling.constants import AHEAD_SHARE, PAST_SHARE, SEGMENT_SECONDS
from musictx.sampling.infill import Brief, GivenRow, Infill, NewNoteLimits
from musictx.sampling.penalties import pitch_set
from musictx.tokens import events as ev
from musictx.tokens.controls import HERE, IDS_AROUND, build_window
from musictx.tokens.grammar import PerformanceState
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS, CUT

#: Kinds of ids that only describe the event after them.
MODIFIERS = ("program", "velocity")


class GivenEvent(NamedTuple):
    """A given event (:data:`musictx.tokens.events.EVENT`)."""

    step: int
    action: int
    program: int
    pitch: int
    velocity_bin: int


class EventRow(GivenRow):
    """The constraint on one row.

    given       the given events that the row is to write, in order; steps count as in ``state``
    next_index  the index in ``given`` of the next event to write
    due         the given events of the current step that are not yet written
    held        {(program, pitch): count} of the new notes that sound; the model may end them
    last_step   the step at which the row is done at the latest. If ``limits`` has an ``end``, it is
                done as soon as the end is reached and no new note sounds
    """

    state: PerformanceState

    def __init__(
        self,
        limits: NewNoteLimits,
        state: PerformanceState,
        given: np.ndarray,
        held: Collection[tuple[int, int]],
        last_step: int,
    ) -> None:
        super().__init__(limits, state)
        self.last_step, self.held = last_step, Counter(held)
        self.given, self.next_index = [GivenEvent(*event) for event in given.tolist()], 0
        self._has_programs = "program" in state.ids
        parts = range(128) if limits.parts is None else limits.parts
        self._parts = {part for part in parts if limits.tones(part).any()}
        self._excluded = np.zeros(self.table.size, bool)  # ids that new notes may not use
        if self._has_programs:
            programs = self.table.values_in("program")
            self._excluded[state.ids["program"]] = ~np.isin(programs, [*self._parts])
            self._excluded[state.ids["drum"]] = limits.parts is not None or not self._parts
        self._update()

    def _update(self) -> None:
        """Update ``due`` and ``done`` after an id."""
        step, end = self.state.steps, self.limits.end
        stop = bisect_right(self.given, step, self.next_index, key=lambda item: item.step)
        self.due = self.given[self.next_index : stop]
        if self.state.last not in MODIFIERS and not self.due:
            is_over = end is not None and step >= end and not any(self.held.values())
            self.done = is_over or step >= self.last_step

    def _next_id(self, item: GivenEvent) -> int:
        """The next id of a given event: its program, its velocity or the event itself."""
        if item.action != ev.DRUM and item.program != self.state.program:
            return self.table.id("program", item.program)
        if item.action != ev.OFF and item.velocity_bin != self.state.velocity:
            return self.table.id("velocity", item.velocity_bin)
        return self.table.id(ev.KINDS[item.action], item.pitch)

    def forced(self) -> list[int]:
        if not self.due:
            return []
        item, token, last = self.due[0], self._next_id(self.due[0]), self.state.last
        if last in MODIFIERS:
            # Complete the due event if it has the program or velocity that was just written.
            kind = self.table.token(token)[0]
            is_velocity = kind == "velocity" and last == "program" and item.action != ev.DRUM
            may_follow = kind not in MODIFIERS or is_velocity
            return [token] if may_follow and self.state.allowed()[token] else []
        if item.action == ev.OFF:
            return [token]
        if not self.state.sounding.has_onset:
            for event in self.due:  # a new note of the same pitch ends first
                if event.action == ev.ON and self.held[event.program, event.pitch]:
                    return [self._next_id(event._replace(action=ev.OFF))]
        return []

    def due_id(self) -> int | None:
        if forced := self.forced():
            return forced[0]
        is_open = self.state.last in MODIFIERS  # another event has begun
        return None if is_open or not self.due else self._next_id(self.due[0])

    def _note_on_id(self) -> int | None:
        """The note-on of the due event if its program is the current one, with any velocity;
        ``None`` if no note-on is due or it may not come now."""
        if not self.due or self.due[0].action != ev.ON or self.state.last == "program":
            return None
        _, _, program, pitch, _ = self.due[0]
        sounds = (program, pitch) in self.state.sounding.notes
        return None if sounds or program != self.state.program else self.table.id("note_on", pitch)

    def ids_toward_given(self) -> list[int]:
        return [token for token in (self.due_id(), self._note_on_id()) if token is not None]

    def restrict(self, mask: np.ndarray) -> None:
        mask &= ~self._excluded
        note_on = self._note_on_id()
        may_begin = note_on is not None and mask[note_on]
        self._restrict_new(mask)
        if may_begin:
            mask[note_on] = True
        if self.limits.end is not None and self.state.steps >= self.limits.end:
            self._allow_only_releases(mask)
        shifts = self.state.ids["time_shift"]
        if self.due:
            mask[shifts] = False
            if (token := self.due_id()) is not None:
                mask[token] = True
            return
        if self.next_index < len(self.given):
            gap = self.given[self.next_index].step - self.state.steps
            mask[shifts.start + gap : shifts.stop] = False
        if not any(self.held.values()) and not any(self._tones(p).any() for p in self._parts):
            # Allow only the longest shift: after a shorter one the grammar would require an event,
            # and none is allowed.
            mask[shifts.start + np.flatnonzero(mask[shifts])[:-1]] = False

    def _restrict_new(self, mask: np.ndarray) -> None:
        """Allow only note-ons of pitches that new notes may have, and only note-offs of new notes.
        A program that may have no further note may be chosen only to release one."""
        ids, sounding = self.state.ids, self.state.sounding
        tones = self._tones(sounding.program)
        mask[ids["note_on"]] &= tones[self.table.values_in("note_on")]
        if self._has_programs:
            busy = {*self.limits.habits, *(program for program, _ in sounding.notes)} & self._parts
            if not sounding.has_onset:  # after a note-on no note-off may come before a time shift
                busy -= {program for (program, _), count in self.held.items() if count}
            full = [program for program in busy if not self._tones(program).any()]
            mask[[ids["program"].start + program for program in full]] = False
        if not tones.any() and not mask[ids.get("drum", slice(0))].any():
            mask[ids["velocity"]] = False  # no note-on could follow it
        for pitch in sounding.pitches_of_program():
            if not self.held[sounding.program, pitch]:
                mask[self.table.id("note_off", pitch)] = False

    def _tones(self, program: int) -> np.ndarray:
        """(128,) bool: the pitches that a new note of ``program`` may have now."""
        if program not in self._parts:
            return np.zeros(128, bool)
        tones = self.limits.tones(program).copy()
        sounding = self.state.sounding.notes
        tones[[pitch for other, pitch in sounding if other == program]] = False
        due = [item for item in self.due if item.action == ev.ON and item.program == program]
        tones[[item.pitch for item in due]] = False
        if program in self.limits.habits:
            held = sum(count for (other, _), count in self.held.items() if other == program)
            tones &= held < self.limits.habits[program].voices
        return tones

    def _allow_only_releases(self, mask: np.ndarray) -> None:
        """Forbid new notes. A program may be chosen only to release one of its new notes."""
        ids = self.state.ids
        for kind in ("note_on", "velocity", "drum", "program"):
            mask[ids.get(kind, slice(0))] = False
        may_choose = not self.state.sounding.has_onset and self.state.last != "program"
        if self._has_programs and may_choose:
            for (program, _), count in self.held.items():
                if count and program != self.state.program:
                    mask[ids["program"].start + program] = True

    def advance(self, token: int) -> None:
        kind, value = self.table.token(token)
        key = self.state.sounding.program, value
        # No new note of the pitch of a due note-off sounds, so that this note-off is a given one.
        is_given = bool(self.due) and token in (self._next_id(self.due[0]), self._note_on_id())
        if kind in ("note_on", "drum"):
            self.is_new.append(not is_given)
        if kind in ev.KINDS and is_given:
            self.next_index += 1
        elif kind == "note_on":
            self.held[key] += 1
        elif kind == "note_off":
            self.held[key] -= 1
        self.changes = self.state.advance(token)
        self.piece.append(token)
        self._update()


class EventInfill(Infill):
    """A region of event tokens. New notes that sound at the end of a gap are released within
    :data:`WINDOW_SECONDS` after it.

    parts   the programs of new notes, which are then no drums; ``None``: any programs, and drums
    origin  the step of the score at which the stream begins; all other steps count from it
    past    the events so far
    given   the given events that are not yet written
    held    (program, pitch) of each new note that sounds
    """

    tokenizer: PerformanceTokenizer
    row: EventRow

    def __init__(self, bundle: Bundle, brief: Brief) -> None:
        super().__init__(bundle, brief)
        tokenizer = self.tokenizer
        self.vocabulary, self.step_seconds = tokenizer.vocabulary, tokenizer.step_seconds
        self.parts = None if brief.parts is None else [n for n in brief.parts if n != DRUMS]
        music, begin, end = brief.given, brief.begin, brief.end
        first = self._to_step(tokenizer.clock(music).offset) if len(music) else self._to_step(begin)
        self.origin = min(first, self._to_step(begin))
        ids = self.vocabulary.as_ids(tokenizer.encode(music))
        events = ev.from_ids(ids, self.vocabulary)[0]
        events["step"] += first - self.origin
        self.step, self.stop = (self._to_step(at) - self.origin for at in (begin, end))
        self.done = self.step >= self.stop
        self.past = events[events["step"] < self.step]
        self.given = events[events["step"] >= self.step]
        self.held: list[tuple[int, int]] = []
        self.is_new = [False] * int(ev.is_onset(self.past).sum())

    def _to_step(self, seconds: float) -> int:
        """The step nearest to ``seconds``."""
        return int(np.floor(seconds / self.step_seconds + 0.5))

    @property
    def _last_step(self) -> int:
        """The step at which the last new note ends at the latest."""
        return self.stop + (self._to_step(WINDOW_SECONDS) if self.brief.is_gap else 0)

    def ids_so_far(self, first: int = 0) -> np.ndarray:
        """The ids so far, from the event with the index ``first`` on."""
        past, begin = self.past[first:].copy(), 0
        if first:
            begin = int(past["step"][0]) if len(past) else self.step
        past["step"] -= begin
        return ev.to_ids(past, self.vocabulary, self.step - begin)

    def finish_notes(self, notes: np.ndarray) -> np.ndarray:
        notes = notes.copy()
        for name in ("start", "end"):
            notes[name] = np.minimum(notes[name], self._last_step * self.step_seconds)
            notes[name] += self.origin * self.step_seconds
        return notes

    def rows(self, count: int) -> list[EventRow]:
        limits = NewNoteLimits(
            self.vocabulary,
            end=self.stop if self.brief.is_gap else None,
            parts=self.parts,
            habits=self.brief.habits,
            pitches=pitch_set(self.sampling, self.primer, self.tokenizer),
        )
        mark = [self.vocabulary.id(HERE)]  # the second one allows a time shift in an empty piece
        state = self.tokenizer.grammar(np.concatenate([mark, self.ids_so_far(), mark]))
        segment = np.inf if self.brief.is_gap else max(1, self._to_step(SEGMENT_SECONDS))
        last_step = int(min(self._last_step, self.step + segment))
        arguments = self.given, self.held, last_step
        return [EventRow(limits, state.copy(), *arguments) for _ in range(count)]

    def append_ids(self) -> None:
        ids = np.append(self.ids_so_far(), self.row.piece).astype(int)
        self.past, self.step = ev.from_ids(ids, self.vocabulary)
        # The model may have drawn other velocities for given notes: restore the given ones.
        onsets = np.flatnonzero(ev.is_onset(self.past))[len(self.is_new) :]
        given_onsets = onsets[~np.array(self.row.is_new, bool)]
        given = self.given[: self.row.next_index]
        self.past["velocity_bin"][given_onsets] = given["velocity_bin"][ev.is_onset(given)]
        self.given = self.given[self.row.next_index :]
        self.held = list(self.row.held.elements())
        self.done = self.step >= self.stop and not (self.brief.is_gap and self.held)

    def prompt(self, levels: Sequence[int]) -> np.ndarray:
        room = int(PAST_SHARE * self.context)
        # The index of the first event of the past that fits; each length requires an encoding.
        first = bisect_left(
            range(len(self.past)), True, key=lambda index: len(self.ids_so_far(index)) <= room
        )
        past, given = self.ids_so_far(first), self.given.copy()
        given["step"] -= self.step
        window = build_window(
            self.vocabulary,
            levels,
            past,
            np.empty(0, np.int64),
            ev.to_ids(given, self.vocabulary),
            budget=len(past) + 1 + IDS_AROUND + int(AHEAD_SHARE * self.context),
        )
        return np.concatenate([[CUT if first else BOS], window.prefix, window.past])
