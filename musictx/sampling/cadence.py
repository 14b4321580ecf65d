"""A natural ending: before its end the music calms down, closes on a chord and falls silent.

The last seconds of a piece (:func:`closing`) have three phases. In the first, strikes are penalised
more and more. In the second, from half-way on, the first note must be the keynote in the bass, and
only notes of its triad may join it. In the third, no note is struck; the sounding notes are
released, older notes first, and once nothing sounds the piece ends. So no note is cut off.

The key is that of the request, or else estimated from the piece so far. Continued songs end with a
:class:`ClosingBar` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from musictx import keys
from musictx.notes import Score
from musictx.sampling.constants import (
    CHORD_BONUS,
    CHORD_SECONDS,
    CHORD_START,
    END_BONUS,
    ENDING_SECONDS,
    ENDING_SHARE,
    LOWEST_BASS_PITCH,
    SILENCE_START,
    STRIKE_PENALTY,
)
from musictx.sampling.constraints import RowConstraint
from musictx.tokens.tokenizer import GrammarState, Tokenizer
from musictx.tokens.vocab import EOS

#: Mode -> the tones of the last chord, in semitones above the keynote.
TRIADS = {"major": (0, 4, 7), "minor": (0, 3, 7)}
#: Notes that join the last chord get a bonus until it has this number; its maximum is twice that.
CHORD_NOTES = len(TRIADS["major"])
#: The share of the ending after which time may not pass until all notes are released.
RELEASE_DEADLINE = (1 + SILENCE_START) / 2


class ClosingBar(NamedTuple):
    """A bar written by a rule after the composed music, from ``begin`` to ``end`` in seconds of the
    piece. ``notes`` is a function (the piece up to the bar) -> the notes of the bar."""

    begin: float
    end: float
    notes: Callable[[Score], np.ndarray]


def closing(length: float) -> float:
    """Seconds before its end at which music of ``length`` seconds begins to close."""
    return min(ENDING_SECONDS, ENDING_SHARE * length)


class Ending:
    """A penalty of one row that brings the piece to a close. It is applied before most others.

    begin  the time at which the ending begins, in seconds of the tokens
    end    the time by which the piece has ended, in seconds of the tokens
    key    (keynote, mode); ``None``: estimated from the piece so far
    low    the lowest pitch that may be struck; ``None``: any

    If tokens write notes with their length, only ``eos`` is affected: it is forbidden before the
    ending, and then becomes more and more likely.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        begin: float,
        end: float,
        key: tuple[int, str] | None = None,
        low: int | None = None,
    ) -> None:
        self.pitch_of, self.begin, self.length = tokenizer.pitch_of, begin, end - begin
        self.key = key
        self.events: Any = tokenizer.note_events  # None if tokens write notes with their length
        first = LOWEST_BASS_PITCH if low is None else low
        self.bass = max(first, int(self.pitch_of[self.pitch_of >= 0].min(initial=127)))

    def __call__(self, row: RowConstraint, ids: np.ndarray) -> np.ndarray:
        state, nats = row.state, np.zeros(len(self.pitch_of))
        progress = (state.seconds - self.begin) / self.length
        if progress < 0:
            nats[EOS] = np.inf
        elif self.events is None:
            nats[EOS] = -END_BONUS * progress
        elif self.key is None:
            pitches = self.pitch_of[ids]
            self.key = keys.estimate(pitches[pitches >= 0, None])
        if self.events is not None:
            self._add_event_penalties(nats, state, progress)
        return nats

    def _add_event_penalties(self, nats: np.ndarray, state: GrammarState, progress: float) -> None:
        """Add the penalties of strikes, releases and waits to ``nats`` (V,). ``progress`` is the
        share of the ending that is over, negative before the ending."""
        chord_begin = self.begin + CHORD_START * self.length
        strikes = [
            strike for strike in state.sounding.recent_onsets() if strike.seconds >= chord_begin
        ]
        chord = {strike.pitch for strike in strikes}  # the last chord; empty before it begins
        older = [pitch for _, pitch in state.sounding if pitch not in chord]
        chord_releases = np.isin(self.events.note_off, list(chord))
        if chord and state.seconds - strikes[-1].seconds < CHORD_SECONDS:
            chord_tones = self._chord_tones(chord)
            nats[self.events.begins_note & ~chord_tones] = np.inf
            if len(chord) < CHORD_NOTES:
                nats[chord_tones] -= CHORD_BONUS
            nats[self._waits_until(1.0, state) | chord_releases] = np.inf
            if older:  # no long wait, so that older notes are released soon
                nats[self.events.shift_seconds > 2 * CHORD_SECONDS] = np.inf
        elif chord or progress >= SILENCE_START:
            self._fall_silent(nats, state, bool(older) or progress >= RELEASE_DEADLINE)
            if (state.allowed() & (self.events.shift_seconds > 0) & np.isfinite(nats)).any():
                nats[chord_releases] = np.inf
            if len(state.sounding):
                nats[np.isin(self.events.note_off, older)] = -CHORD_BONUS
        else:
            nats[self._waits_until(SILENCE_START, state)] = np.inf
            if progress >= CHORD_START:
                self._begin_chord(nats)
            elif progress > 0:
                nats[self.events.begins_note] += STRIKE_PENALTY * progress / CHORD_START

    def _waits_until(self, progress: float, state: GrammarState) -> np.ndarray:
        """(V,) bool: waits that end when the share ``progress`` of the ending is over, or later."""
        at = state.seconds + self.events.shift_seconds
        return (self.events.shift_seconds > 0) & (at >= self.begin + progress * self.length - 1e-6)

    def _begin_chord(self, nats: np.ndarray) -> None:
        """Favour strikes, of which only the keynote in the bass is allowed."""
        strike = self.events.note_on
        nats[self.events.begins_note] -= CHORD_BONUS
        nats[self.events.note_off >= 0] -= CHORD_BONUS  # earlier notes should end before the chord
        if self.key is not None:
            low = (strike >= self.bass) & (strike < self.bass + 24)
            nats[(strike >= 0) & ~(low & (strike % 12 == self.key[0]))] = np.inf

    def _chord_tones(self, chord: set[int]) -> np.ndarray:
        """(V,) bool: ids that may join the pitches ``chord``: strikes above its bass that belong to
        its triad, and ids that prepare such a strike."""
        strike = self.events.note_on
        tones = (strike > min(chord)) & ~np.isin(strike, list(chord))
        if self.key is not None:
            keynote, mode = self.key
            tones &= np.isin((strike - keynote) % 12, TRIADS[mode])
        tones &= len(chord) < 2 * CHORD_NOTES
        return tones | (self.events.describes_note & tones.any())

    def _fall_silent(self, nats: np.ndarray, state: GrammarState, must_release: bool) -> None:
        """Forbid strikes; once nothing sounds, allow only the end of the piece. With
        ``must_release`` waits are forbidden, so that a note is released now."""
        sounding, waits = state.sounding, self.events.shift_seconds > 0
        nats[self.events.begins_note] = np.inf
        if not len(sounding):
            nats[:] = np.inf
            nats[EOS] = 0.0
            return
        other_programs = [program for program, _ in sounding if program != sounding.program]
        nats[np.isin(self.events.program, other_programs)] = 0.0
        nats[self._waits_until(1.0, state)] = np.inf
        if not sounding.has_onset:
            # To hold the chord, allow only the longest wait, which another wait may follow, and
            # waits up to the release of the notes.
            too_short = (
                self.events.shift_seconds < self.events.shift_seconds.max()
            ) & ~self._waits_until(RELEASE_DEADLINE, state)
            nats[waits & (too_short | must_release)] = np.inf
