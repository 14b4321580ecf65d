"""Penalties that make music of events repeat itself: intervals are continued as they were before
(:class:`MelodyRepetition`), and the first phrase returns (:class:`Reprise`)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from musictx.sampling.constraints import RowConstraint
from musictx.sampling.strengths import (
    BREATH_QUANTILE,
    INTERVALS_AGREE,
    INTERVALS_COMPARED,
    MELODY_GAIN,
    ONSET_SECONDS,
    PHRASE_SECONDS,
    REPRISE_SECONDS,
)
from musictx.tokens import events as ev
from musictx.tokens.tokenizer import GrammarState, NoteEvents
from musictx.tokens.vocab import Vocabulary


class MelodyRepetition:
    """A penalty of one row that makes one pitch more likely: the pitch that continues the top line
    in the way in which the same intervals were continued earlier.

    The last intervals of the top line are compared with earlier ones, at any transposition, at a
    distance of at least the longest duration of a first phrase (:data:`PHRASE_SECONDS`). The
    longest run of at least :data:`INTERVALS_AGREE` equal intervals is chosen; of equally long runs
    one at the same pitch is preferred, then the latest. The top line is the highest pitch of each
    onset, and an onset the notes struck within :data:`ONSET_SECONDS`.
    """

    def __init__(self, events: NoteEvents) -> None:
        self.events = events
        #: The (number of notes, whether a strike would join the last onset) that `_nats` is for.
        self._for: tuple[int, bool] | None = None
        self._nats: np.ndarray | None = None

    def __call__(self, row: RowConstraint, ids: np.ndarray) -> np.ndarray | None:
        state = row.state
        last = state.sounding.recent()
        joins = bool(last) and state.seconds - last[0].seconds < ONSET_SECONDS + 1e-6
        if self._for != (state.notes, joins):
            self._for = state.notes, joins
            strike = self.events.strike[ids]
            struck = strike >= 0
            at = np.cumsum(self.events.wait[ids])[struck]
            following, intervals = _continuation(strike[struck], at, joins)
            gain = -MELODY_GAIN * intervals * (self.events.strike == following)
            self._nats = gain if intervals else None
        return self._nats


def _continuation(pitch: np.ndarray, at: np.ndarray, joins: bool) -> tuple[int, int]:
    """(the pitch that continues the top line, the number of intervals that agree); (-1, 0) if there
    is no such pitch.

    pitch  (n,) pitches of the strikes
    at     (n,) seconds of the strikes
    joins  whether the next strike would still join the last onset
    """
    nothing = -1, 0
    first = np.flatnonzero(np.diff(at, prepend=-np.inf) > ONSET_SECONDS + 1e-6)
    old = np.searchsorted(at, at[-1] - PHRASE_SECONDS[1], "right") if len(at) else 0
    onsets = int(np.searchsorted(first, old))
    if onsets <= INTERVALS_COMPARED + 2:  # the first onset may be incomplete
        return nothing
    line = np.maximum.reduceat(pitch, first)
    in_onset = pitch[first[-1] :] if joins else ()
    steps = np.diff(line[: len(line) - joins])
    ends = np.arange(INTERVALS_COMPARED + 1, onsets - 1)  # index of the last note of each run
    run, same = np.zeros(len(ends), int), np.ones(len(ends), bool)
    for back in range(1, INTERVALS_COMPARED + 1):
        same &= steps[ends - back] == steps[len(steps) - back]
        run += same
    order = 2 * run + (line[ends] == line[len(steps)])
    best = len(run) - 1 - int(order[::-1].argmax())
    agree, end = int(run[best]), int(ends[best])
    following = int(line[len(steps)] + line[end + 1] - line[end])
    is_static = not steps[len(steps) - agree :].any()  # a repeated pitch is not a melody
    if agree < INTERVALS_AGREE or is_static or following in in_onset:
        return nothing
    return following, agree


class Subject(NamedTuple):
    """The first phrase of a piece.

    events   its strikes and releases (:data:`musictx.tokens.events.EVENT`), with steps from 0 on
    opening  the pitches of its first onset
    breath   the quantile :data:`BREATH_QUANTILE` of the waits between onsets, in steps
    """

    events: np.ndarray
    opening: frozenset[int]
    breath: float


def subject_of(ids: np.ndarray, table: Vocabulary, step: float) -> Subject | None:
    """The first phrase of the music ``ids``. Among the onsets within :data:`PHRASE_SECONDS`
    (earliest, latest) after the first one, it ends before the onset that follows the longest wait.
    ``None`` if there is no such onset. ``step`` is the length of a step in seconds."""
    events, _ = ev.read(table.as_ids(ids), table)
    struck = events[events["action"] == ev.ON]
    if not len(struck):
        return None
    events["step"] -= struck["step"][0]
    at = struck["step"] - struck["step"][0]
    onsets = at[np.diff(at, prepend=-np.inf) > ONSET_SECONDS / step + 1e-6]
    waits, (earliest, latest) = np.diff(onsets), np.array(PHRASE_SECONDS) / step
    ends = np.flatnonzero((onsets[1:] >= earliest) & (onsets[1:] <= latest))
    if not len(ends):
        return None
    stop = onsets[1 + ends[waits[ends].argmax()]]
    opening = struck["pitch"][at < onsets[1]]
    # The first onset may be spread over several steps; it returns as one.
    events["step"][(events["action"] == ev.ON) & (events["step"] < onsets[1])] = 0
    return Subject(
        events[events["step"] < stop],
        frozenset(opening.tolist()),
        float(np.quantile(waits, BREATH_QUANTILE)),
    )


class Reprise:
    """A penalty of one row that makes the first phrase of its piece, the subject, return.

    The penalty has no effect until the model, :data:`REPRISE_SECONDS` or more after the end of the
    subject, begins a phrase with the highest note of the subject's first onset and with no note
    outside that onset. Then all ids are forbidden except the subject's notes and waits, and any
    velocity, until the subject is complete. Notes that sounded before are released.

    primer  ids that are continued; if they are too short for a subject, the new music completes it
    """

    def __init__(self, table: Vocabulary, events: NoteEvents, primer: np.ndarray) -> None:
        self.table, self.note_events, self.step = table, events, events.step_seconds
        self.subject = subject_of(primer, table, self.step)
        self.left: float | None = None
        #: The next strikes and releases of the subject: (step, whether it is a strike, pitch).
        self.due: deque[tuple[int, bool, int]] = deque()

    def __call__(self, row: RowConstraint, ids: np.ndarray) -> np.ndarray | None:
        state = row.state
        if self.left is None:
            self.left = state.seconds
        if self.subject is None and state.seconds > PHRASE_SECONDS[1]:
            self.subject = subject_of(ids, self.table, self.step)
        if self.subject is not None and not self.due:
            self._fill_due(state, ids, self.subject)
        return self._only_next(state, ids)

    def _fill_due(self, state: GrammarState, ids: np.ndarray, subject: Subject) -> None:
        """If the last id begins the subject again, fill ``due`` with the rest of the subject."""
        away = state.seconds - (self.left or 0.0)
        if away < REPRISE_SECONDS or self.note_events.strike[ids[-1]] != max(subject.opening):
            return
        recent = state.sounding.recent()
        at = np.array([strike.seconds for strike in recent])
        number = int(np.argmax(np.append(at[:-1] - at[1:] > ONSET_SECONDS + 1e-6, True))) + 1
        onset = {strike.pitch for strike in recent[:number]}
        if number == len(recent) or not onset <= subject.opening:
            return
        if at[number - 1] - at[number] < subject.breath * self.step - 1e-6:
            return
        now = round(state.seconds / self.step)
        due = [
            (now + step, action == ev.ON, pitch)
            for step, action, pitch in subject.events[["step", "action", "pitch"]].tolist()
            if step > 0 or pitch not in onset
        ]
        soon = min(step for step, _, _ in due if step > now)
        older = [pitch for _, pitch in state.sounding]
        for pitch in onset:
            older.remove(pitch)
        due += [(soon, False, pitch) for pitch in older]
        self.due.extend(sorted(due, key=lambda event: event[:2]))

    def _only_next(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        """Nats that forbid all ids but those that lead to the next event due; ``None`` if no event
        is due."""
        now = round(state.seconds / self.step)
        while self.due:
            step, strikes, pitch = self.due[0]
            token = self.table.id("note_on" if strikes else "note_off", pitch)
            if step == now and (token == ids[-1] or not (strikes or state.allowed()[token])):
                self.due.popleft()
                continue
            self.left = state.seconds
            if step < now:  # another rule has forbidden the event: give up
                self.due.clear()
                return None
            if step > now:
                longest = int(self.table.values("time_shift").max())
                token = self.table.id("time_shift", min(step - now, longest))
            nats = np.full(self.table.size, np.inf)
            nats[token] = 0.0
            if strikes and step == now:
                nats[self.note_events.prepares_strike] = 0.0
            return nats
        return None
