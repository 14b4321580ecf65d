"""Repetition of melodies: the pitch that followed the last intervals earlier becomes likelier."""

from __future__ import annotations

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


class MelodyRepetition:
    """A penalty of one row that makes one pitch likelier: the one that continues its top line as
    after earlier notes.

    The last intervals are compared with those :data:`RETURN_SECONDS` ago and earlier, at any
    transposition. The longest run of equal ones counts, of equally long runs one at the same pitch,
    of these the latest; it has at least :data:`INTERVALS_AGREE`. The top line is the highest pitch
    of each onset: of what is struck within :data:`ONSET_SECONDS`. The result is cached until the
    next strike.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.note_events is not None
        self.events: NoteEvents = tokenizer.note_events
        self._for: tuple[GrammarState, int] | None = None  # state and its number of notes
        self._nats: list[np.ndarray | None] = [None, None]

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        if self._for is None or self._for[0] is not state or self._for[1] != state.notes:
            self._for = state, state.notes
            self._nats = self._look(ids[-MELODY_REACH:])
        last = state.sounding.recent()
        return self._nats[bool(last) and state.seconds - last[0][0] < ONSET_SECONDS + 1e-6]

    def _look(self, ids: np.ndarray) -> list[np.ndarray | None]:
        """Nats where a strike would begin an onset, and where it would join the last one."""
        strike = self.events.strike[ids]
        struck = np.flatnonzero(strike >= 0)
        pitch = strike[struck]
        at = (np.cumsum(self.events.wait[ids]) * self.events.longest_wait)[struck]
        nats: list[np.ndarray | None] = []
        for joins in (False, True):
            goes_on, intervals = _continuation(pitch, at, joins)
            gain = -MELODY_GAIN * intervals * (self.events.strike == goes_on)
            nats.append(gain if intervals else None)
        return nats


def _continuation(pitch: np.ndarray, at: np.ndarray, joins: bool) -> tuple[int, int]:
    """(the pitch that continues the top line of strikes, how many intervals agree); 0 intervals if
    nothing does. The last onset is still open where a strike ``joins`` it.

    pitch, at  (n,) pitches and seconds of strikes
    """
    nothing = -1, 0
    first = np.flatnonzero(np.diff(at, prepend=-np.inf) > ONSET_SECONDS + 1e-6)
    old = np.searchsorted(at, at[-1] - RETURN_SECONDS, "right") if len(at) else 0
    onsets = int(np.searchsorted(first, old))
    if onsets <= INTERVALS_COMPARED + 2:  # the first onset may be cut
        return nothing
    line = np.maximum.reduceat(pitch, first)
    here = pitch[first[-1] :] if joins else ()
    steps = np.diff(line[: len(line) - joins])
    ends = np.arange(INTERVALS_COMPARED + 1, onsets - 1)  # of runs: the note that they lead to
    run, same = np.zeros(len(ends), int), np.ones(len(ends), bool)
    for back in range(1, INTERVALS_COMPARED + 1):
        same &= steps[ends - back] == steps[len(steps) - back]
        run += same
    order = 2 * run + (line[ends] == line[len(steps)])
    best = len(run) - 1 - int(order[::-1].argmax())
    agree, end = int(run[best]), int(ends[best])
    following = int(line[len(steps)] + line[end + 1] - line[end])
    still = not steps[len(steps) - agree :].any()  # a pitch that is repeated comes from nowhere
    if agree < INTERVALS_AGREE or still or following in here:
        return nothing
    return following, agree
