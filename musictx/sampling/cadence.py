"""A natural ending: before its end the music calms down, closes on a chord and falls silent.

The last seconds of a piece (:func:`closing`) have three phases. In the first, note-ons are
penalised more and more. In the second, from half-way on, the first note must be the keynote in the
bass, and only notes of its triad may join it. In the third, no note begins; the sounding notes are
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
    NOTE_ON_PENALTY,
    SILENCE_START,
)
from musictx.sampling.constraints import RowConstraint
from musictx.tokens.tokenizer import GrammarState, Tokenizer
from musictx.tokens.vocab import EOS

#: Mode -> the tones of the last chord, in semitones above the keynote.
TRIADS = {"major": (0, 4, 7), "minor": (0, 3, 7)}
#: The last chord has this number of notes if possible, at most twice as many.
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
    """The length of the ending of music of ``length`` seconds, in seconds."""
    return min(ENDING_SECONDS, ENDING_SHARE * length)


class Ending:
    """A penalty of one row that brings the piece to a close. It is applied before most others.

    begin  the time at which the ending begins, in seconds of the ids
    end    the time by which the piece has ended, in seconds of the ids
    key    (keynote, mode); ``None``: estimated from the piece so far
    low    the lowest allowed pitch; ``None``: any

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
        self.pitch_of, self.key = tokenizer.pitch_of, key
        self.begin, self.length = begin, end - begin
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
        """Add the penalties of note-ons, note-offs and waits to ``nats`` (V,). ``progress`` is the
        share of the ending that is over, negative before the ending."""
        events, chord_begin = self.events, self.begin + CHORD_START * self.length
        chord_onsets = [o for o in state.sounding.recent_onsets() if o.seconds >= chord_begin]
        chord = {onset.pitch for onset in chord_onsets}  # the last chord; empty before it begins
        older = [pitch for _, pitch in state.sounding if pitch not in chord]
        chord_releases = np.isin(events.note_off, list(chord))
        if chord and state.seconds - chord_onsets[-1].seconds < CHORD_SECONDS:
            chord_tones = self._chord_tones(chord)
            nats[events.begins_note & ~chord_tones] = np.inf
            if len(chord) < CHORD_NOTES:
                nats[chord_tones] -= CHORD_BONUS
            nats[self._waits_until(1.0, state) | chord_releases] = np.inf
            if older:  # no long wait, so that older notes are released soon
                nats[events.shift_seconds > 2 * CHORD_SECONDS] = np.inf
        elif chord or progress >= SILENCE_START:
            self._fall_silent(nats, state, bool(older) or progress >= RELEASE_DEADLINE)
            if (state.allowed() & (events.shift_seconds > 0) & np.isfinite(nats)).any():
                nats[chord_releases] = np.inf
            if len(state.sounding):
                nats[np.isin(events.note_off, older)] = -CHORD_BONUS
        else:
            nats[self._waits_until(SILENCE_START, state)] = np.inf
            if progress >= CHORD_START:
                self._begin_chord(nats)
            elif progress > 0:
                nats[events.begins_note] += NOTE_ON_PENALTY * progress / CHORD_START

    def _waits_until(self, progress: float, state: GrammarState) -> np.ndarray:
        """(V,) bool: time shifts to the share ``progress`` of the ending, or beyond it."""
        at = state.seconds + self.events.shift_seconds
        return (self.events.shift_seconds > 0) & (at >= self.begin + progress * self.length - 1e-6)

    def _begin_chord(self, nats: np.ndarray) -> None:
        """Favour note-ons, but allow only the keynote in the bass."""
        pitches = self.events.note_on
        nats[self.events.begins_note] -= CHORD_BONUS
        nats[self.events.note_off >= 0] -= CHORD_BONUS  # earlier notes should end before the chord
        if self.key is not None:
            is_bass = (pitches >= self.bass) & (pitches < self.bass + 24)
            nats[(pitches >= 0) & ~(is_bass & (pitches % 12 == self.key[0]))] = np.inf

    def _chord_tones(self, chord: set[int]) -> np.ndarray:
        """(V,) bool: ids that may follow in the chord with the pitches ``chord``: note-ons of its
        triad above its bass, and the programs and velocities before them."""
        pitches = self.events.note_on
        tones = (pitches > min(chord)) & ~np.isin(pitches, list(chord))
        if self.key is not None:
            keynote, mode = self.key
            tones &= np.isin((pitches - keynote) % 12, TRIADS[mode])
        tones &= len(chord) < 2 * CHORD_NOTES
        return tones | (self.events.describes_note & tones.any())

    def _fall_silent(self, nats: np.ndarray, state: GrammarState, must_release: bool) -> None:
        """Forbid note-ons; once nothing sounds, allow only the end of the piece. With
        ``must_release`` forbid waits, too, so that a note is released now."""
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
