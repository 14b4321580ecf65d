"""The hard constraint that known notes come back exactly, while others are composed around them.

A known event is a strike or a release with its step. Known events are written at their steps, with
their program and velocity: time never passes the next known event, releases are written at once and
strikes before time goes on. Where the model would let time pass, the next known event is written.
The model may draw any velocity before a known strike: it does not know the right one, and the
velocity that it draws there must not begin a new note. New notes never disturb known ones: no pitch
is struck while a known note of that pitch sounds or at the step where one begins; a new note ends
before a known note of its pitch begins; a known note ends only at its known release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from musictx.card import Habit
from musictx.sampling.constraints import Constraint
from musictx.tokens import events as ev
from musictx.tokens.grammar import PerformanceState
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import EOS, PAD, GrammarState


class KnownEvents(Constraint):
    """Holds each row to the known events, and says where new notes may begin.

    states   grammar states after the ids so far; advanced in place
    known    for all rows: the events that are still to be written, in order, their steps counted
             on the clock of ``states``
    past     the events that are written already
    own      (program, pitch) of the notes among them that the model may end
    span     own notes begin from now on and before this step; None: without end
    until    a row is done at this step at the latest; where there is a span, when it is over and
             its own notes have ended
    programs  of own notes; None: any
    habits   program -> how many own notes sound at once at most, and between which pitches
    pitches  (128,) bool: those that own notes may have; None: any
    """

    def __init__(
        self,
        tokenizer: PerformanceTokenizer,
        states: Sequence[PerformanceState],
        *,
        known: np.ndarray,
        past: np.ndarray,
        own: Collection[tuple[int, int]] = (),
        span: int | None = None,
        until: int,
        programs: Collection[int] | None = None,
        habits: Mapping[int, Habit] | None = None,
        pitches: np.ndarray | None = None,
    ) -> None:
        self.states: Sequence[GrammarState] = list(states)
        self._kind = torch.from_numpy(np.array(tokenizer.kind_of))
        rules = _Rules(tokenizer, known, span, until, programs, habits or {}, pitches)
        self.rows = [RowConstraint(rules, state, past, Counter(own)) for state in states]

    def allowed(self) -> Tensor:
        return torch.from_numpy(np.stack([row.allowed() for row in self.rows]))

    def advance(self, ids: Tensor) -> None:
        for row, token in zip(self.rows, ids.tolist()):
            if not row.done:
                row.advance(token)

    def done(self) -> Tensor:
        return torch.tensor([row.done for row in self.rows])

    def groups(self) -> Tensor:
        """(B, V): the kind of each id; but an id that must come before time may go on counts with
        the shifts of time, so that it gets what they would have had."""
        found = self._kind.repeat(len(self.rows), 1)
        for groups, row in zip(found, self.rows):
            token = None if row.done else row.due()
            if token is not None:
                groups[token] = row.rules.shift_kind
        return found


class _Rules:
    """What is the same for all rows."""

    def __init__(
        self,
        tokenizer: PerformanceTokenizer,
        known: np.ndarray,
        span: int | None,
        until: int,
        programs: Collection[int] | None,
        habits: Mapping[int, Habit],
        pitches: np.ndarray | None,
    ) -> None:
        table = tokenizer.vocabulary
        self.table, self.known, self.span, self.until = table, known, span, until
        self.habits = habits
        self.steps = known["step"].tolist()
        self.step_seconds = tokenizer.step_seconds
        self.ids = {kind: slice(*table.range(kind)) for kind in table.kinds}
        self.low = int(table.value_of[self.ids["note_on"].start])
        of_ids = np.asarray(table.value_of[self.ids["note_on"]])
        self.inside = np.ones(len(of_ids), bool) if pitches is None else pitches[of_ids]
        self.shift_kind = table.kinds.index("time_shift")
        self.has_programs = "program" in table.kinds
        if not self.inside.any():
            programs = ()
        self.programs = set(range(128)) if programs is None else set(programs)
        self.foreign = np.zeros(table.size, bool)  # programs, and drums, that are not for own notes
        if self.has_programs and programs is not None:
            first = self.ids["program"].start
            self.foreign[self.ids["program"]] = True
            self.foreign[[first + program for program in programs]] = False
            self.foreign[self.ids["drum"]] = True


class RowConstraint:
    """The constraint on one row: which known events are written, which sounding notes are new."""

    def __init__(
        self,
        rules: _Rules,
        state: PerformanceState,
        past: np.ndarray,
        own: Counter[tuple[int, int]],
    ) -> None:
        self.rules, self.state, self.own = rules, state, own
        self.next = 0  # of the known events
        self.last = ""  # kind of the last id
        self.velocity, self.program = ev.loudness(past), ev.program(past)
        if not rules.has_programs:
            self.program = 0
        self.own_strikes: list[bool] = []  # of each strike written here: is it the model's own?
        self.done = False
        self._end()

    @property
    def step(self) -> int:
        return round(self.state.seconds / self.rules.step_seconds)

    def _now(self) -> np.ndarray:
        """The known events that are to be written at this step and are not yet."""
        steps, stop = self.rules.steps, self.next
        step = self.step
        while stop < len(steps) and steps[stop] <= step:
            stop += 1
        return self.rules.known[self.next : stop]

    def _token(self, event: np.ndarray) -> int:
        """The next id on the way to a known event."""
        table, what = self.rules.table, int(event["what"])
        in_force = event["program"] in (self.program, ev.UNKNOWN)
        if self.rules.has_programs and what != ev.DRUM and not in_force:
            return table.id("program", int(event["program"]))
        if what != ev.OFF and event["bin"] not in (self.velocity, ev.UNKNOWN):
            return table.id("velocity", int(event["bin"]))
        return table.id(ev.KINDS[what], int(event["pitch"]))

    def _on_the_way(self, event: np.ndarray) -> bool:
        """The last id was a program or velocity that ``event`` needs."""
        if self.last == "velocity":
            return bool(event["what"] != ev.OFF and event["bin"] == self.velocity) and (
                event["what"] == ev.DRUM or event["program"] in (self.program, ev.UNKNOWN)
            )
        right = event["what"] != ev.DRUM and event["program"] == self.program
        return self.last == "program" and bool(right)

    def _forced(self) -> int | None:
        """The one id that may come next, if there is but one."""
        now = self._now()
        if len(now) and self._on_the_way(now[0]):
            token = self._token(now[0])
            if self.state.allowed()[token]:  # a velocity after a program is for no drum
                return token
        if self.last in ("program", "velocity") or not len(now):
            return None
        if now[0]["what"] == ev.OFF:
            return self._token(now[0])
        if not self.state.sounding.struck:
            for event in now[now["what"] == ev.ON]:  # own notes of a pitch that is struck now
                if self.own[int(event["program"]), int(event["pitch"])]:
                    release = event.copy()
                    release["what"] = ev.OFF
                    return self._token(release)
        return None

    def due(self) -> int | None:
        """The id that must come before time goes on, as far as it may come now."""
        forced, now = self._forced(), self._now()
        if forced is not None or not len(now):
            return forced
        return None if self.last in ("program", "velocity") else self._token(now[0])

    def strike(self) -> int | None:
        """The id that strikes the next known note now, at the velocity that is in force."""
        now, sounding = self._now()[:1], self.state.sounding
        if not len(now) or now["what"][0] != ev.ON or self.last == "program":
            return None
        program, pitch = int(now["program"][0]), int(now["pitch"][0])
        sounds = (sounding.program, pitch) in sounding.notes
        wrong = sounds or program not in (self.program, ev.UNKNOWN)
        return None if wrong else self.rules.table.id("note_on", pitch)

    def allowed(self) -> np.ndarray:
        rules = self.rules
        mask = np.zeros(rules.table.size, bool)
        if self.done:
            mask[PAD] = True
            return mask
        forced, now = self._forced(), self._now()
        if forced is not None:
            mask[forced] = True
            return mask
        mask = self.state.allowed().copy()
        mask[EOS] = False
        mask &= ~rules.foreign
        strike = self.strike()
        may_strike = strike is not None and mask[strike]
        self._keep_out_of_the_way(mask, now)
        if may_strike:
            mask[strike] = True
        if rules.span is not None and self.step >= rules.span:
            self._only_end(mask)
        shifts = rules.ids["time_shift"]
        if len(now):
            mask[shifts] = False
            token = self.due()
            if token is not None:
                mask[token] = True
        elif self.next < len(rules.steps):
            gap = rules.steps[self.next] - self.step
            mask[shifts.start + gap : shifts.stop] = False
        return mask

    def _keep_out_of_the_way(self, mask: np.ndarray, now: np.ndarray) -> None:
        rules, sounding = self.rules, self.state.sounding
        here = [pitch for program, pitch in sounding.notes if program == sounding.program]
        on, off = rules.ids["note_on"], rules.ids["note_off"]
        strikes = self._strikes(sounding.program, now)
        mask[on] &= strikes
        if rules.has_programs:  # where no pitch may be struck there is something to end, or nothing
            busy = {*rules.habits, *(program for program, _ in sounding.notes)} & rules.programs
            ends = set() if sounding.struck else {key[0] for key, n in self.own.items() if n}
            full = [p for p in busy - ends if not self._strikes(p, now).any()]
            mask[[rules.ids["program"].start + program for program in full]] = False
        drums = mask[rules.ids.get("drum", slice(0))].any()
        if not strikes.any() and not drums:
            mask[rules.ids["velocity"]] = False  # there is nothing that it could be for
        for pitch in here:
            if not self.own[sounding.program, pitch]:
                mask[off.start + pitch - rules.low] = False

    def _strikes(self, program: int, now: np.ndarray) -> np.ndarray:
        """Of each pitch whether an own note of it may begin on ``program``."""
        rules = self.rules
        strikes = rules.inside & (program in rules.programs)
        soon = now[(now["what"] == ev.ON) & (now["program"] == program)]["pitch"].tolist()
        for pitch in {*soon, *(p for of, p in self.state.sounding.notes if of == program)}:
            if 0 <= pitch - rules.low < len(strikes):
                strikes[pitch - rules.low] = False
        if program in rules.habits:
            voices, low, high, *_ = rules.habits[program]
            strikes[: max(low - rules.low, 0)] = False
            strikes[max(high + 1 - rules.low, 0) :] = False
            if sum(n for key, n in self.own.items() if key[0] == program) >= voices:
                strikes[:] = False
        return strikes

    def _only_end(self, mask: np.ndarray) -> None:
        """Nothing of its own but the ends of its notes."""
        for kind in ("note_on", "velocity", "drum", "program"):
            if kind in self.rules.ids:
                mask[self.rules.ids[kind]] = False
        if self.rules.has_programs and not self.state.sounding.struck and self.last != "program":
            for (program, _), count in self.own.items():
                if count and program != self.program:
                    mask[self.rules.ids["program"].start + program] = True

    def advance(self, token: int) -> None:
        kind, value = self.rules.table.token(token)
        now = self._now()
        key = (self.state.sounding.program, value)
        # A known release comes first; at its step no own note of its pitch sounds.
        is_known = len(now) > 0 and token in (self._token(now[0]), self.strike())
        if kind == "note_off":
            is_known = is_known and bool(now["what"][0] == ev.OFF)
            if not is_known:
                self.own[key] -= 1
        elif kind in ("note_on", "drum"):
            self.own_strikes.append(not is_known)
            if not is_known and kind == "note_on":
                self.own[key] += 1
        if is_known and kind in ev.KINDS:
            self.next += 1
        self.state.advance(token)
        self.last = kind
        if kind == "velocity":
            self.velocity = value
        elif kind == "program":
            self.program = value
        self._end()

    def _end(self) -> None:
        rules, step = self.rules, self.step
        if self.last in ("program", "velocity") or len(self._now()):
            return
        over = rules.span is not None and step >= rules.span and not any(self.own.values())
        self.done = over or step >= rules.until
