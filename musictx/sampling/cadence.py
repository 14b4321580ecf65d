"""A natural ending: towards its time the music calms down, closes on a chord and falls silent.

The last seconds of a piece (:func:`closing`) have three parts. At first strikes cost more and more.
From half-way on the first note that is struck is the keynote in the bass, and only notes of its
chord may join it. Then nothing is struck any more; what sounds is let go, the older notes first,
and once nothing sounds the piece ends. So no note is cut off.

The key is the one asked for, or else that of the piece so far. Tokens that write notes with their
length have no releases to wait for: there only the end is held back, and then drawn on.
"""

from __future__ import annotations

import numpy as np

from musictx import keys
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
from musictx.tokens.tokenizer import GrammarState, NoteEvents, Tokenizer
from musictx.tokens.vocab import EOS, SPECIALS

#: Semitones above the keynote of the tones of the last chord.
TRIADS = {"major": (0, 4, 7), "minor": (0, 3, 7)}
#: It has so many notes, and no fewer where the model would agree; at most twice as many.
CHORD_NOTES = len(TRIADS["major"])
#: The share of the ending after which all notes end.
RELEASED_FROM = (1 + SILENT_FROM) / 2


def closing(length: float) -> float:
    """Seconds before its end at which music of ``length`` seconds begins to close."""
    return min(MOST_SECONDS, MOST_SHARE * length)


class CadencePlanner:
    """A penalty of one row; it is to come before most others.

    begins  the seconds of its tokens at which it begins to close
    until   those at which it has ended
    key     keynote and mode; ``None`` = as the piece has it so far
    low     the lowest pitch that may be struck, ``None`` = any
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        begins: float,
        until: float,
        key: tuple[int, str] | None = None,
        low: int | None = None,
    ) -> None:
        events = tokenizer.note_events
        self.events = None if events is None or events.longest_wait is None else events
        self.pitch_of, self.begins, self.until = tokenizer.pitch_of, begins, until
        self._key = key
        first = LOWEST_BASS_PITCH if low is None else low
        self._bass = max(first, int(self.pitch_of[self.pitch_of >= 0].min(initial=127)))

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray:
        nats = np.zeros(len(self.pitch_of))
        part = (state.seconds - self.begins) / (self.until - self.begins)
        if part < 0:
            nats[EOS] = np.inf
        elif self.events is None:
            nats[EOS] = -END_NATS * part
        elif self._key is None:
            pitches = self.pitch_of[ids]
            self._key = keys.estimate(pitches[pitches >= 0, None])
        if self.events is not None:
            _Moment(self.events, state, self.begins, self.until, self._key).weigh(nats, self._bass)
        return nats


class _Moment:
    """Where one row stands in its ending."""

    def __init__(
        self,
        events: NoteEvents,
        state: GrammarState,
        begins: float,
        until: float,
        key: tuple[int, str] | None,
    ) -> None:
        self.events, self.state, self.key = events, state, key
        self.begins, self.left = begins, until - begins
        since = begins + CHORD_FROM * self.left
        struck = [(at, pitch) for at, pitch in state.sounding.recent() if at >= since]
        #: The last chord, if it has begun.
        self.chord = {pitch for _, pitch in struck}
        self.sounded = state.seconds - min((at for at, _ in struck), default=np.inf)
        #: Ids that strike, drums too, or lead to a strike.
        self.strikes = (events.release < 0) & (events.wait == 0)
        self.strikes[: len(SPECIALS)] = False

    def weigh(self, row: np.ndarray, bass: int) -> None:
        """Add up what each id costs (V,)."""
        part = (self.state.seconds - self.begins) / self.left
        if self.chord and self.sounded < CHORD_SECONDS:
            joining = self._joining()
            row[self.strikes & ~joining] = np.inf
            if len(self.chord) < CHORD_NOTES:
                row[joining] -= CHORD_NATS
            row[self._waits_to(1.0)] = np.inf
            row[np.isin(self.events.release, list(self.chord))] = np.inf
            if self._older():  # it is let go soon
                waits = self.events.wait * (self.events.longest_wait or 0.0)
                row[waits > 2 * CHORD_SECONDS] = np.inf
        elif self.chord or part >= SILENT_FROM:
            self._fall_silent(row, part)
        else:
            row[self._waits_to(SILENT_FROM)] = np.inf
            if part >= CHORD_FROM:
                self._call_chord(row, bass)
            elif part > 0:
                row[self.strikes] += STRIKE_NATS * part / CHORD_FROM

    def _waits_to(self, part: float) -> np.ndarray:
        """(V,) bool: ids by which time comes to that part of the ending, or beyond."""
        at = self.state.seconds + self.events.wait * (self.events.longest_wait or 0.0)
        return (self.events.wait > 0) & (at >= self.begins + part * self.left - 1e-6)

    def _call_chord(self, row: np.ndarray, bass: int) -> None:
        strike = self.events.strike
        row[self.strikes] -= CHORD_NATS
        row[self.events.release >= 0] -= CHORD_NATS  # what was there before makes room
        if self.key is not None:
            low = (strike >= bass) & (strike < bass + 24)
            row[(strike >= 0) & ~(low & (strike % 12 == self.key[0]))] = np.inf

    def _joining(self) -> np.ndarray:
        """(V,) bool: ids that may join the chord: above its bass and of its harmony."""
        strike = self.events.strike
        joins = (strike > min(self.chord)) & ~np.isin(strike, list(self.chord))
        if self.key is not None:
            keynote, mode = self.key
            joins &= np.isin((strike - keynote) % 12, TRIADS[mode])
        joins &= len(self.chord) < 2 * CHORD_NOTES
        return joins | (self.events.lead & joins.any())

    def _fall_silent(self, row: np.ndarray, part: float) -> None:
        sounding = self.state.sounding
        row[self.strikes] = np.inf
        if not len(sounding):
            row[:] = np.inf
            row[EOS] = 0.0
            return
        others = [program for program, _ in sounding if program != sounding.program]
        row[np.isin(self.events.program, others)] = 0.0
        row[self._waits_to(1.0)] = np.inf
        waits = self.events.wait > 0
        if not sounding.struck and (part >= RELEASED_FROM or self._older()):
            row[waits] = np.inf
        elif not sounding.struck:
            # The chord is held: only waits that can be followed by another, or that are enough.
            row[waits & (self.events.wait < 1) & ~self._waits_to(RELEASED_FROM)] = np.inf
        if (self.state.allowed() & waits & np.isfinite(row)).any():
            row[np.isin(self.events.release, list(self.chord))] = np.inf
        for pitch in self._older():
            row[self.events.release == pitch] = -CHORD_NATS

    def _older(self) -> list[int]:
        """The pitches that sound but are not of the chord."""
        return [pitch for _, pitch in self.state.sounding if pitch not in self.chord]
