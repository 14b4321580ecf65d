"""Repetition of melodies: the pitch that followed the last intervals earlier becomes likelier."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musictx.sampling.strengths import (
    INTERVALS_AGREE,
    INTERVALS_COMPARED,
    MELODY_GAIN,
    MELODY_REACH,
    ONSET_SECONDS,
    RETURN_SECONDS,
)
from musictx.tokens.grammar import GrammarState
from musictx.tokens.tokenizer import NoteEvents, Tokenizer


class _Strikes(NamedTuple):
    """The strikes among the last ids of a row.

    pitch, at  (n,) pitches and seconds
    number     (n,) of ids
    old        of them were struck :data:`RETURN_SECONDS` before the last one or earlier
    first      the id on which ``old`` depends: sums of waits from another one on may be rounded to
               the other side of what lies on the border; infinite where nothing lies there
    """

    pitch: np.ndarray
    at: np.ndarray
    number: np.ndarray
    old: int
    first: float

    @classmethod
    def of(cls, events: NoteEvents, ids: np.ndarray) -> _Strikes:
        begin = max(len(ids) - MELODY_REACH, 0)
        pitch = events.strike[ids[begin:]]
        at = np.cumsum(events.wait[ids[begin:]]) * (events.longest_wait or 0.0)
        struck = np.flatnonzero(pitch >= 0)
        pitch, at = pitch[struck], at[struck]
        border = at[-1] - RETURN_SECONDS if len(at) else 0.0
        near, old, far = np.searchsorted(at, [border - 1e-6, border, border + 1e-6], "right")
        return cls(pitch, at, begin + struck, int(old), np.inf if near == far else begin)


class MelodyRepetition:
    """A penalty of one row that makes one pitch likelier: the one that continues its top line as
    after earlier notes.

    The last intervals are compared with those :data:`RETURN_SECONDS` ago and earlier, at any
    transposition. The longest run of equal ones counts, of equally long runs one at the same pitch,
    of these the latest; it has at least :data:`INTERVALS_AGREE`. The top line is the highest pitch
    of each onset: of what is struck within :data:`ONSET_SECONDS`.

    The result is cached until the next strike, or until an id that it depends on is out of reach.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.note_events is not None
        self.events: NoteEvents = tokenizer.note_events
        self._for: tuple[GrammarState, int, int] | None = None  # state, its notes, ids
        self._first = np.inf
        self._nats: list[np.ndarray | None] = [None, None]

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        length, before = len(ids), self._for
        self._for = state, state.notes, length
        same = before is not None and before[0] is state and before[1:] == (state.notes, length - 1)
        if not same or length - MELODY_REACH > self._first:
            self._look(ids)
        last = state.sounding.recent()
        return self._nats[bool(last) and state.seconds - last[0][0] < ONSET_SECONDS + 1e-6]

    def _look(self, ids: np.ndarray) -> None:
        """Nats where a strike would begin an onset, and where it would join the last one; they stay
        as they are as long as the ids from ``_first`` on are in reach."""
        struck = _Strikes.of(self.events, ids)
        self._first = struck.first
        for joins in (0, 1):
            pitch, intervals, first = _continuation(struck, joins)
            self._first = min(self._first, first)
            gain = -MELODY_GAIN * intervals * (self.events.strike == pitch)
            self._nats[joins] = gain if intervals else None


def _continuation(struck: _Strikes, joins: int) -> tuple[int, int, float]:
    """(the pitch that continues the top line, how many intervals agree, the first id that this
    depends on); 0 intervals if nothing does. The last onset is still open where a strike ``joins``
    it."""
    nothing = -1, 0, np.inf
    first = np.flatnonzero(np.diff(struck.at, prepend=-np.inf) > ONSET_SECONDS + 1e-6)
    old = int(np.searchsorted(first, struck.old))
    if old <= INTERVALS_COMPARED + 2:  # the first onset may be cut
        return nothing
    line = np.maximum.reduceat(struck.pitch, first)
    here = struck.pitch[first[-1] :] if joins else ()
    steps = np.diff(line[: len(line) - joins])
    ends = np.arange(INTERVALS_COMPARED + 1, old - 1)  # of runs: the note that they lead to
    run, same = np.zeros(len(ends), int), np.ones(len(ends), bool)
    for back in range(1, INTERVALS_COMPARED + 1):
        same &= steps[ends - back] == steps[len(steps) - back]
        run += same
    order = 2 * run + (line[ends] == line[len(steps)])
    best = len(run) - 1 - int(order[::-1].argmax())
    agree, end = int(run[best]), int(ends[best])
    pitch = int(line[len(steps)] + line[end + 1] - line[end])
    still = not steps[len(steps) - agree :].any()  # a pitch that is repeated comes from nowhere
    if agree < INTERVALS_AGREE or still or pitch in here:
        return nothing
    return pitch, agree, int(struck.number[first[end - INTERVALS_COMPARED] - 1])
