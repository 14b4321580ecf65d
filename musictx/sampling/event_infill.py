"""Given notes around new ones, among strikes and releases: see :mod:`.infill` and
:mod:`.infill_constraint`.

The model reads given notes in the layout of ``tokens/layout.py``: those ahead as K, those before as
the stream up to ``here``. Given events are written at their steps, with their program and velocity:
releases first, strikes before the next shift of time. Before a given strike the model may draw any
velocity, since it cannot predict the right one; that velocity does not begin a new note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.config import SamplingConfig
from musictx.model.transformer import MusicTransformer
from musictx.notes import DRUMS, Score
from musictx.sampling import note_limits
from musictx.sampling.infill import Infill
from musictx.sampling.infill_constraint import GivenRow, NewNotes
from musictx.sampling.strengths import AHEAD_SHARE, PAST_SHARE, SEGMENT_SECONDS
from musictx.tokens import events as ev
from musictx.tokens import layout
from musictx.tokens.controls import HERE
from musictx.tokens.grammar import PerformanceState
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS, CUT

#: Kinds of ids that only describe the event after them.
LEADS = ("program", "velocity")


class EventRow(GivenRow):
    """The constraint on one row.

    step_seconds  of one step of time
    given    the events (:data:`musictx.tokens.events.EVENT`) that are still to be written, in
             order, their steps counted on the clock of ``state``
    past     the events that are written already
    held     (program, pitch) of the notes among them that the model may end
    until    the row is done at this step at the latest; if ``new`` has an ``end``, as soon as this
             end is reached and no new note sounds
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
        """Whether the last id, a program or a velocity, is that of ``event``."""
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
        """Allow strikes only of pitches that new notes may have, and releases only of new notes."""
        ids, sounding = self.new.ids, self.state.sounding
        tones = self._tones(sounding.program, now)
        mask[ids["note_on"]] &= tones[self.new.values("note_on")]
        if self._has_programs:  # a full program may be chosen only to release a note
            busy = {*self.new.habits, *(program for program, _ in sounding.notes)} & self._parts
            ends = set() if sounding.struck else {key[0] for key, n in self.held.items() if n}
            full = [p for p in busy - ends if not self._tones(p, now).any()]
            mask[[ids["program"].start + program for program in full]] = False
        if not tones.any() and not mask[ids.get("drum", slice(0))].any():
            mask[ids["velocity"]] = False  # no event could follow it
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
        """Allow no new event but the release of a new note."""
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


class EventInfill(Infill):
    """Notes composed from ``begin`` to ``end``; new notes that sound at the end of a gap end within
    :data:`WINDOW_SECONDS`.

    origin  the step of the score at which the stream's clock begins; all others count from it
    past, given  the events that are written, and that are still to be
    held    (program, pitch) of new notes that sound
    """

    anew, time = False, "time_shift"
    tokenizer: PerformanceTokenizer
    row: EventRow

    def __init__(
        self,
        model: MusicTransformer,
        tokenizer: PerformanceTokenizer,
        music: Score,
        begin: float,
        end: float,
        **options: Any,
    ) -> None:
        super().__init__(model, tokenizer, music, **options)
        self.vocabulary, self.step_seconds = tokenizer.vocabulary, tokenizer.step_seconds
        if self.parts is not None:  # drums are not composed
            self.parts = [part for part in self.parts if part != DRUMS]
        first = self._step(tokenizer.clock(music).begins) if len(music) else self._step(begin)
        self.origin = min(first, self._step(begin))
        ids = ev.as_ids(tokenizer.encode(music), self.vocabulary)
        events = ev.read(ids, self.vocabulary)[0]
        events["step"] += first - self.origin
        self.begin, self.stop = (self._step(at) - self.origin for at in (begin, end))
        self.here = self.begin
        self.past = events[events["step"] < self.here]
        self.given = events[events["step"] >= self.here]
        self.held: list[tuple[int, int]] = []
        self.is_new = [False] * int(ev.struck(self.past).sum())

    def _step(self, seconds: float) -> int:
        return int(np.floor(seconds / self.step_seconds + 0.5))

    @property
    def done(self) -> bool:  # type: ignore[override]
        return self.here >= self.stop and not (self.closes and self.held)

    @property
    def _until(self) -> int:
        """The step at which the last new note ends."""
        return self.stop + (self._step(WINDOW_SECONDS) if self.closes else 0)

    def written(self) -> np.ndarray:
        return ev.write(self.past, self.vocabulary, self.here)

    def placed(self, notes: np.ndarray) -> np.ndarray:
        notes = notes.copy()
        for name in ("start", "end"):
            notes[name] = np.minimum(notes[name], self._until * self.step_seconds)
            notes[name] += self.origin * self.step_seconds
        return notes

    def rows(self, count: int, sampling: SamplingConfig) -> list[EventRow]:  # type: ignore[override]
        new = NewNotes(
            self.vocabulary,
            end=self.stop if self.closes else None,
            parts=self.parts,
            habits=self.habits,
            pitches=note_limits.pitch_sets(sampling, [self.around])[0],
        )
        mark = [self.vocabulary.id(HERE)]  # time may be shifted after it, at the beginning too
        state = self.tokenizer.grammar(np.concatenate([mark, self.written(), mark]))
        segment = np.inf if self.closes else max(1, self._step(SEGMENT_SECONDS))
        return [
            EventRow(
                new,
                state.copy(),
                step_seconds=self.step_seconds,
                given=self.given,
                past=self.past,
                held=self.held,
                until=int(min(self._until, self.here + segment)),
            )
            for _ in range(count)
        ]

    def absorb(self) -> None:
        ids = list(self.row.piece)
        while ids and self.vocabulary.token(ids[-1])[0] in LEADS:
            ids.pop()  # it waited for a note
        both = np.concatenate([self.written().astype(np.int64), np.array(ids, np.int64)])
        self.past, self.here = ev.read(both, self.vocabulary)
        struck = np.flatnonzero(ev.struck(self.past))[len(self.is_new) :]
        given = self.given[: self.row.next]
        of_given = struck[~np.array(self.row.is_new, bool)]
        self.past["bin"][of_given] = given["bin"][ev.struck(given)]
        self.given = self.given[self.row.next :]
        self.held = list(self.row.held.elements())

    def prompt(self, levels: Sequence[int]) -> np.ndarray:
        first = self._first_of_past(int(PAST_SHARE * self.context))
        base = int(np.append(self.past["step"], self.here)[first]) if first else 0
        past, given = self.past[first:].copy(), self.given.copy()
        for events in (past, given):
            events["step"] -= base
        here = self.here - base
        given["step"] -= here
        written, none = ev.write(past, self.vocabulary, here), np.empty(0, np.int64)
        room = layout.IDS_AROUND + int(AHEAD_SHARE * self.context)
        made = layout.build_window(
            self.vocabulary,
            levels,
            written,
            none,
            ev.write(given, self.vocabulary),
            budget=room + len(written) + 1,
        )
        return np.concatenate([[BOS if first == 0 else CUT], made.prefix, made.past])

    def _first_of_past(self, room: int) -> int:
        """The first event of the past from which on it has ``room``."""
        low, high = 0, len(self.past)
        while low < high:
            middle = (low + high) // 2
            kept = self.past[middle:].copy()
            if middle:
                kept["step"] -= kept["step"][0]
            end = self.here - (int(self.past["step"][middle]) if middle else 0)
            fits = len(ev.write(kept, self.vocabulary, end)) <= room
            low, high = (low, middle) if fits else (middle + 1, high)
        return low
