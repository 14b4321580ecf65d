"""Penalties that make music in event tokens repeat itself: melodies continue as they did earlier
(:class:`MelodyRepetition`), and the first phrase returns (:class:`Reprise`)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from musictx.sampling.constants import (
    BREATH_QUANTILE,
    INTERVALS_AGREE,
    INTERVALS_COMPARED,
    MELODY_GAIN,
    ONSET_SECONDS,
    PHRASE_SECONDS,
    REPRISE_SECONDS,
)
from musictx.sampling.constraints import RowConstraint
from musictx.tokens import events as ev
from musictx.tokens.tokenizer import GrammarState, NoteEvents
from musictx.tokens.vocab import Vocabulary


class MelodyRepetition:
    """A penalty of one row that favours one pitch: the one that continues the top line as the same
    intervals were continued earlier.

    The top line has the highest pitch of each onset, the notes that begin within
    :data:`ONSET_SECONDS`. The last intervals of the top line are compared with those that are
    older than the longest first phrase (:data:`PHRASE_SECONDS`), in any transposition. The longest
    run of at least :data:`INTERVALS_AGREE` equal intervals is chosen; of equally long runs one at
    the same pitch is preferred, then the latest.
    """

    def __init__(self, events: NoteEvents) -> None:
        self.events = events
        #: The cached penalty, and what it depends on: (number of notes, whether a note-on would
        #: join the last onset).
        self._key: tuple[int, bool] | None = None
        self._nats: np.ndarray | None = None

    def __call__(self, row: RowConstraint, ids: np.ndarray) -> np.ndarray | None:
        state = row.state
        recent = state.sounding.recent_onsets()
        joins = bool(recent) and state.seconds - recent[0].seconds < ONSET_SECONDS + 1e-6
        if self._key != (state.notes, joins):
            self._key = state.notes, joins
            pitches = self.events.note_on[ids]
            is_note_on = pitches >= 0
            times = np.cumsum(self.events.shift_seconds[ids])[is_note_on]
            pitch, count = _next_pitch(pitches[is_note_on], times, joins)
            self._nats = -MELODY_GAIN * count * (self.events.note_on == pitch) if count else None
        return self._nats


def _next_pitch(pitches: np.ndarray, times: np.ndarray, joins: bool) -> tuple[int, int]:
    """(the pitch that continues the top line, the number of intervals that agree); (-1, 0) if there
    is no such pitch. ``pitches`` and ``times``, in seconds, are those of the n note-ons; ``joins``:
    whether the next note-on would join the last onset."""
    starts = np.flatnonzero(np.diff(times, prepend=-np.inf) > ONSET_SECONDS + 1e-6)  # of onsets
    old = np.searchsorted(times, times[-1] - PHRASE_SECONDS[1], "right") if len(times) else 0
    onsets = int(np.searchsorted(starts, old))  # the number of onsets to compare with
    if onsets <= INTERVALS_COMPARED + 2:  # the first onset may be incomplete
        return -1, 0
    line = np.maximum.reduceat(pitches, starts)
    last_onset = pitches[starts[-1] :] if joins else ()
    intervals = np.diff(line[:-1] if joins else line)
    ends = np.arange(INTERVALS_COMPARED + 1, onsets - 1)  # index of the last note of each run
    counts, is_equal = np.zeros(len(ends), int), np.ones(len(ends), bool)
    for back in range(1, INTERVALS_COMPARED + 1):
        is_equal &= intervals[ends - back] == intervals[len(intervals) - back]
        counts += is_equal
    rank = 2 * counts + (line[ends] == line[len(intervals)])  # the same pitch breaks ties
    best = len(counts) - 1 - int(rank[::-1].argmax())  # the last index of the maximum
    count, end = int(counts[best]), int(ends[best])
    pitch = int(line[len(intervals)] + line[end + 1] - line[end])
    is_static = not intervals[len(intervals) - count :].any()  # a repeated pitch is not a melody
    if count < INTERVALS_AGREE or is_static or pitch in last_onset:
        return -1, 0
    return pitch, count


class Subject(NamedTuple):
    """The first phrase of a piece.

    events   its note-ons and note-offs (:data:`musictx.tokens.events.EVENT`); steps count from 0
    opening  the pitches of its first onset
    breath   the quantile :data:`BREATH_QUANTILE` of the waits between onsets, in steps
    """

    events: np.ndarray
    opening: frozenset[int]
    breath: float


def subject_of(ids: np.ndarray, table: Vocabulary, step: float) -> Subject | None:
    """The first phrase of the music ``ids``. Among the onsets within :data:`PHRASE_SECONDS`
    (earliest, latest) after the first one, the onset after the longest wait begins the next phrase.
    ``None`` if there is no such onset. ``step`` is the length of a step in seconds."""
    events, _ = ev.from_ids(table.as_ids(ids), table)
    note_ons = events[events["action"] == ev.ON]
    if not len(note_ons):
        return None
    events["step"] -= note_ons["step"][0]
    times = note_ons["step"] - note_ons["step"][0]
    onsets = times[np.diff(times, prepend=-np.inf) > ONSET_SECONDS / step + 1e-6]
    waits, (earliest, latest) = np.diff(onsets), np.array(PHRASE_SECONDS) / step
    ends = np.flatnonzero((onsets[1:] >= earliest) & (onsets[1:] <= latest))
    if not len(ends):
        return None
    stop = onsets[1 + ends[waits[ends].argmax()]]
    opening = frozenset(note_ons["pitch"][times < onsets[1]].tolist())
    # The first onset may be spread over several steps; it returns as one.
    events["step"][(events["action"] == ev.ON) & (events["step"] < onsets[1])] = 0
    breath = float(np.quantile(waits, BREATH_QUANTILE))
    return Subject(events[events["step"] < stop], opening, breath)


class Reprise:
    """A penalty of one row that makes the first phrase of its piece, the subject, return.

    The penalty has no effect until the model begins a phrase with the highest note of the subject's
    first onset and with no note outside that onset, :data:`REPRISE_SECONDS` or more after new music
    began or the subject last returned. Then it forbids all ids but those of the subject, with any
    velocities, until the subject is complete. Notes that sounded before are released.

    primer  the ids of the primer; if they are too short for a subject, new music completes it
    """

    def __init__(self, table: Vocabulary, events: NoteEvents, primer: np.ndarray) -> None:
        self.table, self.note_events, self.step = table, events, events.step_seconds
        self.subject = subject_of(primer, table, self.step)
        #: The time since which the subject has been absent, in seconds.
        self.absent_since: float | None = None
        #: The next events of the subject: (step, whether it is a note-on, pitch).
        self.due: deque[tuple[int, bool, int]] = deque()

    def __call__(self, row: RowConstraint, ids: np.ndarray) -> np.ndarray | None:
        state = row.state
        if self.absent_since is None:
            self.absent_since = state.seconds
        if self.subject is None and state.seconds > PHRASE_SECONDS[1]:
            self.subject = subject_of(ids, self.table, self.step)
        if self.subject is not None and not self.due:
            self._fill_due(state, ids, self.subject)
        return self._forbid_others(state, ids)

    def _fill_due(self, state: GrammarState, ids: np.ndarray, subject: Subject) -> None:
        """If the last id begins the subject again, fill ``due`` with the rest of the subject."""
        absence = state.seconds - (self.absent_since or 0.0)
        if absence < REPRISE_SECONDS or self.note_events.note_on[ids[-1]] != max(subject.opening):
            return
        recent = state.sounding.recent_onsets()
        times = np.array([note.seconds for note in recent])
        gaps = np.append(times[:-1] - times[1:] > ONSET_SECONDS + 1e-6, True)
        count = int(gaps.argmax()) + 1  # the number of notes in the last onset
        onset = {note.pitch for note in recent[:count]}
        if count == len(recent) or not onset <= subject.opening:
            return
        if times[count - 1] - times[count] < subject.breath * self.step - 1e-6:
            return
        now = round(state.seconds / self.step)
        due = [
            (now + step, action == ev.ON, pitch)
            for step, action, pitch in subject.events[["step", "action", "pitch"]].tolist()
            if step > 0 or pitch not in onset
        ]
        next_step = min(step for step, _, _ in due if step > now)
        older = [pitch for _, pitch in state.sounding]
        for pitch in onset:
            older.remove(pitch)
        due += [(next_step, False, pitch) for pitch in older]
        self.due.extend(sorted(due, key=lambda event: event[:2]))

    def _forbid_others(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        """(V,) nats that forbid all ids but those that lead to the next due event; ``None`` if no
        event is due."""
        now = round(state.seconds / self.step)
        while self.due:
            step, is_note_on, pitch = self.due[0]
            token = self.table.id("note_on" if is_note_on else "note_off", pitch)
            # An event is written, or a note-off is not possible since the note no longer sounds.
            if step == now and (token == ids[-1] or not (is_note_on or state.allowed()[token])):
                self.due.popleft()
                continue
            self.absent_since = state.seconds
            if step < now:  # another rule has forbidden the event: abandon the reprise
                self.due.clear()
                return None
            if step > now:
                longest = int(self.table.values("time_shift").max())
                token = self.table.id("time_shift", min(step - now, longest))
            nats = np.full(self.table.size, np.inf)
            nats[token] = 0.0
            if is_note_on and step == now:
                nats[self.note_events.describes_note] = 0.0
            return nats
        return None
