"""Repetition of motifs: the pitch that followed a motif earlier becomes likelier."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musictx.sampling.strengths import (
    AGREE,
    LAST_STRIKES,
    LINE_GAIN,
    MOTIF_REACH,
    ONSET_SECONDS,
    RETURN_SECONDS,
    STRIKE_GAIN,
)
from musictx.tokens.tokenizer import GrammarState, NoteEvents, Tokenizer


class _Strikes(NamedTuple):
    """The strikes among the last ids of a row.

    pitch, at  (n,) pitches and seconds
    number     (n,) of ids
    begin      of the ids in reach
    old        of them were struck :data:`RETURN_SECONDS` before the last one or earlier
    certain    whether ``old`` is the same where fewer ids are in reach: sums of waits from another
               id on may be rounded to the other side of what lies on the border
    """

    pitch: np.ndarray
    at: np.ndarray
    number: np.ndarray
    begin: int
    old: int
    certain: bool

    @classmethod
    def of(cls, events: NoteEvents, ids: np.ndarray) -> _Strikes:
        begin = max(len(ids) - MOTIF_REACH, 0)
        pitch = events.strike[ids[begin:]]
        at = np.cumsum(events.wait[ids[begin:]]) * (events.longest_wait or 0.0)
        struck = np.flatnonzero(pitch >= 0)
        pitch, at = pitch[struck], at[struck]
        border = at[-1] - RETURN_SECONDS if len(at) else 0.0
        near, old, far = np.searchsorted(at, [border - 1e-6, border, border + 1e-6], "right")
        return cls(pitch, at, begin + struck, begin, int(old), bool(near == far))


class _Next(NamedTuple):
    """``pitch`` gains ``nats``; this depends on the ids from number ``first`` on."""

    pitch: int
    nats: float
    first: int


class MotifRepetition:
    """Makes two pitches likelier, each the one that followed an earlier motif.

    Of strikes: the last :data:`LAST_STRIKES` pitches are compared with those before each strike at
    least :data:`RETURN_SECONDS` ago. The best match counts, of equal ones the latest, if at least
    :data:`AGREE` pitches agree. The pitch that was struck after it gains.

    Of the top line, at any transposition: the last intervals are compared with earlier ones, as
    long ago. The longest match counts, of equal ones one at the same pitch, of these the latest, if
    the intervals of at least :data:`AGREE` notes agree. The pitch that continues the line in the
    same way gains. A note of the line is the highest pitch struck within :data:`ONSET_SECONDS`.

    The result is cached until the next strike, or until an id that it depends on is out of reach.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.note_events is not None
        self.events: NoteEvents = tokenizer.note_events
        self._for: tuple[GrammarState, int, int] | None = None  # state, its notes, ids
        self._first, self._nats = np.inf, [None, None]

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        length, before = len(ids), self._for
        self._for = state, state.notes, length
        same = before is not None and before[0] is state and before[1:] == (state.notes, length - 1)
        if not same or length - MOTIF_REACH > self._first:
            self._look(ids)
        last = state.sounding.recent()
        return self._nats[bool(last) and state.seconds - last[0][0] < ONSET_SECONDS + 1e-6]

    def _look(self, ids: np.ndarray) -> None:
        """Nats where a strike would begin an onset, and where it would join the last one; they stay
        as they are as long as the ids from ``_first`` on are in reach."""
        struck = _Strikes.of(self.events, ids)
        self._first, self._nats = np.inf if struck.certain else struck.begin, []
        strikes = _after_strikes(struck)
        for line in [_after_line(struck, joins) for joins in (0, 1)]:
            continuations = [one for one in (strikes, line) if one is not None]
            self._first = min([self._first, *(one.first for one in continuations)])
            gains = [one.nats * (self.events.strike == one.pitch) for one in continuations]
            self._nats.append(-np.sum(gains, axis=0) if gains else None)


def _after_strikes(struck: _Strikes) -> _Next | None:
    """What followed the strikes most like the last ones."""
    count = struck.old - LAST_STRIKES
    if count <= 0:
        return None
    agree = np.zeros(count, int)
    for nth, last in enumerate(struck.pitch[-LAST_STRIKES:].tolist()):
        agree += struck.pitch[nth : nth + count] == last
    best = count - 1 - int(agree[::-1].argmax())
    if agree[best] < AGREE:
        return None
    nats = STRIKE_GAIN * int(agree[best])
    return _Next(int(struck.pitch[best + LAST_STRIKES]), nats, int(struck.number[best]))


def _after_line(struck: _Strikes, joins: int) -> _Next | None:
    """What continues the top line, whose last onset is open where a strike ``joins`` it."""
    first = np.flatnonzero(np.diff(struck.at, prepend=-np.inf) > ONSET_SECONDS + 1e-6)
    old = int(np.searchsorted(first, struck.old))
    if old <= LAST_STRIKES + 2:  # the first onset may be cut
        return None
    line = np.maximum.reduceat(struck.pitch, first)
    here = struck.pitch[first[-1] :] if joins else ()
    steps = np.diff(line[: len(line) - joins])
    ends = np.arange(LAST_STRIKES + 1, old - 1)  # of runs: the note that they lead to
    run, same = np.zeros(len(ends), int), np.ones(len(ends), bool)
    for back in range(1, LAST_STRIKES + 1):
        same &= steps[ends - back] == steps[len(steps) - back]
        run += same
    order = 2 * run + (line[ends] == line[len(steps)])
    best = len(run) - 1 - int(order[::-1].argmax())
    agree, end = int(run[best]), int(ends[best])
    pitch = int(line[len(steps)] + line[end + 1] - line[end])
    still = not steps[len(steps) - agree :].any()  # a pitch that is repeated comes from nowhere
    if agree < AGREE - 1 or still or pitch in here:
        return None
    return _Next(pitch, LINE_GAIN * agree, int(struck.number[first[end - LAST_STRIKES] - 1]))
