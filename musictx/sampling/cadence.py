"""A natural ending: before its end the music calms down, closes on a chord and falls silent.

The last seconds of a piece (:func:`closing`) have three parts. In the first, strikes cost more and
more. In the second, from half-way on, the first note must be the keynote in the bass, and only
notes of its chord may join it. In the third, no note is struck; the sounding notes are released,
older notes first, and once nothing sounds the piece ends. So no note is cut off.

The key is that of the request, or else the key of the piece so far. Tokens that write notes with
their length have no releases to wait for. Continued songs end with a :class:`ClosingBar` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from musictx import keys
from musictx.notes import Score
from musictx.sampling.constraints import RowConstraint
from musictx.sampling.strengths import (
    CHORD_FROM,
    CHORD_NATS,
    CHORD_SECONDS,
    END_NATS,
    LOWEST_BASS_PITCH,
    MOST_SECONDS,
    MOST_SHARE,
    SILENT_FROM,
    STRIKE_NATS,
)
from musictx.tokens.tokenizer import GrammarState, Tokenizer
from musictx.tokens.vocab import EOS

#: Mode -> the tones of the last chord, in semitones above the keynote.
TRIADS = {"major": (0, 4, 7), "minor": (0, 3, 7)}
#: Notes join the last chord with a bonus until it has this many; it has at most twice as many.
CHORD_NOTES = len(TRIADS["major"])
#: The share of the ending after which all notes end.
RELEASED_FROM = (1 + SILENT_FROM) / 2


class ClosingBar(NamedTuple):
    """A bar that a rule writes after the composed music, from ``begin`` to ``end`` in seconds of
    the piece. ``notes`` is a function (the piece up to the bar) -> the notes of the bar."""

    begin: float
    end: float
    notes: Callable[[Score], np.ndarray]


def closing(length: float) -> float:
    """Seconds before its end at which music of ``length`` seconds begins to close."""
    return min(MOST_SECONDS, MOST_SHARE * length)


class Ending:
    """A penalty of one row that brings the piece to a close. It is applied before most others.

    begins  the time at which the ending begins, in seconds of the tokens
    until   the time at which the piece has ended, in the same seconds
    key     (keynote, mode); ``None`` = estimated from the piece so far
    low     the lowest pitch that may be struck; ``None`` = any

    If tokens write notes with their length, ``eos`` is only forbidden before the ending, and then
    becomes more and more likely.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        begins: float,
        until: float,
        key: tuple[int, str] | None = None,
        low: int | None = None,
    ) -> None:
        self.pitch_of, self.begins, self.length = tokenizer.pitch_of, begins, until - begins
        self.key = key
        self.events: Any = tokenizer.note_events  # None where notes have their length
        first = LOWEST_BASS_PITCH if low is None else low
        self.bass = max(first, int(self.pitch_of[self.pitch_of >= 0].min(initial=127)))

    def __call__(self, row: RowConstraint, ids: np.ndarray) -> np.ndarray:
        state, nats = row.state, np.zeros(len(self.pitch_of))
        part = (state.seconds - self.begins) / self.length  # of the ending is over
        if part < 0:
            nats[EOS] = np.inf
        elif self.events is None:
            nats[EOS] = -END_NATS * part
        elif self.key is None:
            pitches = self.pitch_of[ids]
            self.key = keys.estimate(pitches[pitches >= 0, None])
        if self.events is not None:
            self._weigh(nats, state, part)
        return nats

    def _weigh(self, nats: np.ndarray, state: GrammarState, part: float) -> None:
        """Add to ``nats`` the cost of each id; ``part`` is the share of the ending that is over."""
        since = self.begins + CHORD_FROM * self.length
        struck = [strike for strike in state.sounding.recent() if strike.seconds >= since]
        chord = {strike.pitch for strike in struck}  # the last chord; empty before it begins
        older = [pitch for _, pitch in state.sounding if pitch not in chord]
        of_chord = np.isin(self.events.release, list(chord))
        if chord and state.seconds - struck[-1].seconds < CHORD_SECONDS:
            joining = self._joining(chord)
            nats[self.events.strikes & ~joining] = np.inf
            if len(chord) < CHORD_NOTES:
                nats[joining] -= CHORD_NATS
            nats[self._waits_to(1.0, state) | of_chord] = np.inf
            if older:  # no long wait, so that older notes are released soon
                nats[self.events.wait > 2 * CHORD_SECONDS] = np.inf
        elif chord or part >= SILENT_FROM:
            self._fall_silent(nats, state, bool(older) or part >= RELEASED_FROM)
            if (state.allowed() & (self.events.wait > 0) & np.isfinite(nats)).any():
                nats[of_chord] = np.inf
            if len(state.sounding):
                nats[np.isin(self.events.release, older)] = -CHORD_NATS
        else:
            nats[self._waits_to(SILENT_FROM, state)] = np.inf
            if part >= CHORD_FROM:
                self._call_chord(nats)
            elif part > 0:
                nats[self.events.strikes] += STRIKE_NATS * part / CHORD_FROM

    def _waits_to(self, part: float, state: GrammarState) -> np.ndarray:
        """(V,) bool: ids that wait until the share ``part`` of the ending is over, or longer."""
        at = state.seconds + self.events.wait
        return (self.events.wait > 0) & (at >= self.begins + part * self.length - 1e-6)

    def _call_chord(self, nats: np.ndarray) -> None:
        strike = self.events.strike
        nats[self.events.strikes] -= CHORD_NATS
        nats[self.events.release >= 0] -= CHORD_NATS  # earlier notes should end before the chord
        if self.key is not None:
            low = (strike >= self.bass) & (strike < self.bass + 24)
            nats[(strike >= 0) & ~(low & (strike % 12 == self.key[0]))] = np.inf

    def _joining(self, chord: set[int]) -> np.ndarray:
        """(V,) bool: ids that may join the chord: strikes above its bass that belong to its triad,
        and ids that lead to such a strike."""
        strike = self.events.strike
        joins = (strike > min(chord)) & ~np.isin(strike, list(chord))
        if self.key is not None:
            keynote, mode = self.key
            joins &= np.isin((strike - keynote) % 12, TRIADS[mode])
        joins &= len(chord) < 2 * CHORD_NOTES
        return joins | (self.events.prepares_strike & joins.any())

    def _fall_silent(self, nats: np.ndarray, state: GrammarState, released: bool) -> None:
        """Forbid strikes; once nothing sounds, allow only the end of the piece. ``released``: all
        notes must be released now, so waits are forbidden."""
        sounding, waits = state.sounding, self.events.wait > 0
        nats[self.events.strikes] = np.inf
        if not len(sounding):
            nats[:] = np.inf
            nats[EOS] = 0.0
            return
        other_programs = [program for program, _ in sounding if program != sounding.program]
        nats[np.isin(self.events.program, other_programs)] = 0.0
        nats[self._waits_to(1.0, state)] = np.inf
        if not sounding.struck:
            # To hold the chord, allow only the longest wait, which another wait may follow, and
            # waits up to the release of the notes.
            too_short = (self.events.wait < self.events.wait.max()) & ~self._waits_to(
                RELEASED_FROM, state
            )
            nats[waits & (too_short | released)] = np.inf
