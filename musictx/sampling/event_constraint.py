"""The constraint that keeps given notes, among strikes and releases: see
:mod:`.infill_constraint`.

Given events are written at their steps, with their program and velocity: releases at once, strikes
before time goes on. The model may draw any velocity before a given strike: it does not know the
right one, and the velocity that it draws there must not begin a new note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np

from musictx.sampling.infill_constraint import GivenRow, NewNotes
from musictx.tokens import events as ev
from musictx.tokens.grammar import PerformanceState

#: Kinds of ids that stand for nothing but what follows.
LEADS = ("program", "velocity")


class EventRow(GivenRow):
    """The constraint on one row.

    step_seconds  of one step of time
    given    the events (:data:`musictx.tokens.events.EVENT`) that are still to be written, in
             order, their steps counted on the clock of ``state``
    past     the events that are written already
    held     (program, pitch) of the notes among them that the model may end
    until    the row is done at this step at the latest; where there is an ``end`` of new notes,
             when that has come and they have ended
    """

    state: PerformanceState

    def __init__(
        self,
        new: NewNotes,
        state: PerformanceState,
        *,
        step_seconds: float,
        given: np.ndarray,
        past: np.ndarray,
        held: Collection[tuple[int, int]] = (),
        until: int,
    ) -> None:
        super().__init__(new, state)
        self.step_seconds, self.given, self.until = step_seconds, given, until
        self.held = Counter(held)
        self.next = 0  # of the given events
        self._steps = given["step"].tolist()
        self._last = ""  # kind of the last id
        self._velocity = ev.loudness(past)
        self._has_programs = "program" in new.ids
        self._program = ev.program(past) if self._has_programs else 0
        parts = range(128) if new.parts is None else new.parts
        self._parts = {part for part in parts if new.tones(part).any()}
        self._foreign = np.zeros(self.table.size, bool)  # programs and drums not for new notes
        if self._has_programs:
            self._foreign[new.ids["program"]] = ~np.isin(new.values("program"), [*self._parts])
            self._foreign[new.ids["drum"]] = new.parts is not None or not self._parts
        self._end()

    @property
    def step(self) -> int:
        return round(self.state.seconds / self.step_seconds)

    def _now(self) -> np.ndarray:
        """The given events that are to be written at this step and are not yet."""
        stop, step = self.next, self.step
        while stop < len(self._steps) and self._steps[stop] <= step:
            stop += 1
        return self.given[self.next : stop]

    def _token(self, event: np.ndarray) -> int:
        """The next id on the way to a given event."""
        what = int(event["what"])
        in_force = event["program"] in (self._program, ev.UNKNOWN)
        if self._has_programs and what != ev.DRUM and not in_force:
            return self.table.id("program", int(event["program"]))
        if what != ev.OFF and event["bin"] not in (self._velocity, ev.UNKNOWN):
            return self.table.id("velocity", int(event["bin"]))
        return self.table.id(ev.KINDS[what], int(event["pitch"]))

    def _leads_to(self, event: np.ndarray) -> bool:
        """Whether the last id, a program or a velocity, is one that ``event`` needs."""
        drum = event["what"] == ev.DRUM
        if self._last == "program":
            return not drum and bool(event["program"] == self._program)
        right = drum or event["program"] in (self._program, ev.UNKNOWN)
        return bool(event["what"] != ev.OFF and event["bin"] == self._velocity and right)

    def forced(self) -> list[int]:
        now = self._now()
        if not len(now):
            return []
        if self._last in LEADS:
            token = self._token(now[0])  # a velocity after a program is for no drum
            return [token] if self._leads_to(now[0]) and self.state.allowed()[token] else []
        if now[0]["what"] == ev.OFF:
            return [self._token(now[0])]
        if not self.state.sounding.struck:
            for event in now[now["what"] == ev.ON]:  # new notes of a pitch that is struck now
                if self.held[int(event["program"]), int(event["pitch"])]:
                    release = event.copy()
                    release["what"] = ev.OFF
                    return [self._token(release)]
        return []

    def onward(self) -> int | None:
        now = self._now()
        if forced := self.forced():
            return forced[0]
        return None if self._last in LEADS or not len(now) else self._token(now[0])

    def _strike(self) -> int | None:
        """The id that strikes the next given note now, at the velocity that is in force."""
        now, sounding = self._now()[:1], self.state.sounding
        if not len(now) or now["what"][0] != ev.ON or self._last == "program":
            return None
        program, pitch = int(now["program"][0]), int(now["pitch"][0])
        sounds = (sounding.program, pitch) in sounding.notes
        wrong = sounds or program not in (self._program, ev.UNKNOWN)
        return None if wrong else self.table.id("note_on", pitch)

    def due(self) -> list[int]:
        return [token for token in (self.onward(), self._strike()) if token is not None]

    def restrict(self, mask: np.ndarray) -> None:
        mask &= ~self._foreign
        now, strike = self._now(), self._strike()
        may_strike = strike is not None and mask[strike]
        self._restrict_new(mask, now)
        if may_strike:
            mask[strike] = True
        if self.new.end is not None and self.step >= self.new.end:
            self._only_end(mask)
        shifts = self.new.ids["time_shift"]
        if len(now):
            mask[shifts] = False
            if (token := self.onward()) is not None:
                mask[token] = True
        elif self.next < len(self._steps):
            gap = self._steps[self.next] - self.step
            mask[shifts.start + gap : shifts.stop] = False

    def _restrict_new(self, mask: np.ndarray, now: np.ndarray) -> None:
        """Strikes of new notes where they may be, releases of new notes alone."""
        ids, sounding = self.new.ids, self.state.sounding
        tones = self._tones(sounding.program, now)
        mask[ids["note_on"]] &= tones[self.new.values("note_on")]
        if self._has_programs:  # where no pitch may be struck there is something to end, or nothing
            busy = {*self.new.habits, *(program for program, _ in sounding.notes)} & self._parts
            ends = set() if sounding.struck else {key[0] for key, n in self.held.items() if n}
            full = [p for p in busy - ends if not self._tones(p, now).any()]
            mask[[ids["program"].start + program for program in full]] = False
        if not tones.any() and not mask[ids.get("drum", slice(0))].any():
            mask[ids["velocity"]] = False  # there is nothing that it could be for
        for pitch in sounding.here():
            if not self.held[sounding.program, pitch]:
                mask[self.table.id("note_off", pitch)] = False

    def _tones(self, program: int, now: np.ndarray) -> np.ndarray:
        """(128,) bool: the pitches of which a new note may begin on ``program``."""
        if program not in self._parts:
            return np.zeros(128, bool)
        tones = self.new.tones(program).copy()
        tones[[pitch for of, pitch in self.state.sounding.notes if of == program]] = False
        tones[now["pitch"][(now["what"] == ev.ON) & (now["program"] == program)]] = False
        if program in self.new.habits:
            held = sum(n for (of, _), n in self.held.items() if of == program)
            tones &= held < self.new.habits[program].voices
        return tones

    def _only_end(self, mask: np.ndarray) -> None:
        """Nothing new but the ends of new notes."""
        ids = self.new.ids
        for kind in ("note_on", "velocity", "drum", "program"):
            if kind in ids:
                mask[ids[kind]] = False
        if self._has_programs and not self.state.sounding.struck and self._last != "program":
            for (program, _), count in self.held.items():
                if count and program != self._program:
                    mask[ids["program"].start + program] = True

    def advance(self, token: int) -> None:
        kind, value = self.table.token(token)
        now, key = self._now(), (self.state.sounding.program, value)
        # A given release comes first; at its step no new note of its pitch sounds.
        is_given = len(now) > 0 and token in (self._token(now[0]), self._strike())
        if kind == "note_off":
            is_given = is_given and bool(now["what"][0] == ev.OFF)
            self.held[key] -= not is_given
        elif kind in ("note_on", "drum"):
            self.is_new.append(not is_given)
            self.held[key] += kind == "note_on" and not is_given
        self.next += is_given and kind in ev.KINDS
        self.changes = self.state.advance(token)
        self.piece.append(token)
        self._last = kind
        if kind == "velocity":
            self._velocity = value
        elif kind == "program":
            self._program = value
        self._end()

    def _end(self) -> None:
        if self._last in LEADS or len(self._now()):
            return
        end = self.new.end
        over = end is not None and self.step >= end and not any(self.held.values())
        self.done = over or self.step >= self.until
