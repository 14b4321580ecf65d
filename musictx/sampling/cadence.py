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
from musictx.tokens.tokenizer import GrammarState, Tokenizer
from musictx.tokens.vocab import EOS, SPECIALS

#: Semitones above the keynote of the tones of the last chord.
TRIADS = {"major": (0, 4, 7), "minor": (0, 3, 7)}
#: The last chord is favoured until it has so many notes; it has at most twice as many.
CHORD_NOTES = len(TRIADS["major"])
#: The share of the ending after which all notes end.
RELEASED_FROM = (1 + SILENT_FROM) / 2


def closing(length: float) -> float:
    """Seconds before its end at which music of ``length`` seconds begins to close."""
    return min(MOST_SECONDS, MOST_SHARE * length)


class CadencePlanner:
    """A penalty of one row, to be placed before most others.

    begins  where the piece begins to close, in seconds of its tokens
    until   where it has ended, in the same seconds
    key     keynote and mode; ``None`` = estimated from the piece so far
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
        self.releases = events is not None
        self.pitch_of, self.begins, self.length = tokenizer.pitch_of, begins, until - begins
        self.key = key
        first = LOWEST_BASS_PITCH if low is None else low
        self.bass = max(first, int(self.pitch_of[self.pitch_of >= 0].min(initial=127)))
        if events is not None:
            self.events, self.waits = events, events.wait
            #: Ids that strike, drums too, or lead to a strike.
            self.strikes = (events.release < 0) & (events.wait == 0)
            self.strikes[: len(SPECIALS)] = False

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray:
        nats = np.zeros(len(self.pitch_of))
        part = (state.seconds - self.begins) / self.length
        if part < 0:
            nats[EOS] = np.inf
        elif not self.releases:
            nats[EOS] = -END_NATS * part
        elif self.key is None:
            pitches = self.pitch_of[ids]
            self.key = keys.estimate(pitches[pitches >= 0, None])
        if self.releases:
            self._weigh(nats, state, part)
        return nats

    def _weigh(self, nats: np.ndarray, state: GrammarState, part: float) -> None:
        """Add to ``nats`` the cost of each id; ``part`` is the share of the ending that is over."""
        since = self.begins + CHORD_FROM * self.length
        struck = [one for one in state.sounding.recent() if one.seconds >= since]
        chord = {one.pitch for one in struck}  # the last one, if it has begun
        older = [pitch for _, pitch in state.sounding if pitch not in chord]
        of_chord = np.isin(self.events.release, list(chord))
        if chord and state.seconds - struck[-1].seconds < CHORD_SECONDS:
            joining = self._joining(chord)
            nats[self.strikes & ~joining] = np.inf
            if len(chord) < CHORD_NOTES:
                nats[joining] -= CHORD_NATS
            nats[self._waits_to(1.0, state) | of_chord] = np.inf
            if older:  # these notes are released soon
                nats[self.waits > 2 * CHORD_SECONDS] = np.inf
        elif chord or part >= SILENT_FROM:
            self._fall_silent(nats, state, bool(older) or part >= RELEASED_FROM)
            if (state.allowed() & (self.waits > 0) & np.isfinite(nats)).any():
                nats[of_chord] = np.inf
            if len(state.sounding):
                nats[np.isin(self.events.release, older)] = -CHORD_NATS
        else:
            nats[self._waits_to(SILENT_FROM, state)] = np.inf
            if part >= CHORD_FROM:
                self._call_chord(nats)
            elif part > 0:
                nats[self.strikes] += STRIKE_NATS * part / CHORD_FROM

    def _waits_to(self, part: float, state: GrammarState) -> np.ndarray:
        """(V,) bool: ids that wait until ``part`` of the ending is over, or longer."""
        at = state.seconds + self.waits
        return (self.waits > 0) & (at >= self.begins + part * self.length - 1e-6)

    def _call_chord(self, nats: np.ndarray) -> None:
        strike = self.events.strike
        nats[self.strikes] -= CHORD_NATS
        nats[self.events.release >= 0] -= CHORD_NATS  # earlier notes are released for it
        if self.key is not None:
            low = (strike >= self.bass) & (strike < self.bass + 24)
            nats[(strike >= 0) & ~(low & (strike % 12 == self.key[0]))] = np.inf

    def _joining(self, chord: set[int]) -> np.ndarray:
        """(V,) bool: ids that may join the chord: above its bass and of its harmony."""
        strike = self.events.strike
        joins = (strike > min(chord)) & ~np.isin(strike, list(chord))
        if self.key is not None:
            keynote, mode = self.key
            joins &= np.isin((strike - keynote) % 12, TRIADS[mode])
        joins &= len(chord) < 2 * CHORD_NOTES
        return joins | (self.events.lead & joins.any())

    def _fall_silent(self, nats: np.ndarray, state: GrammarState, released: bool) -> None:
        """Forbid strikes; once nothing sounds, the piece ends. ``released``: it is time to release
        all notes, so none may be held longer."""
        sounding, waits = state.sounding, self.waits > 0
        nats[self.strikes] = np.inf
        if not len(sounding):
            nats[:] = np.inf
            nats[EOS] = 0.0
            return
        others = [program for program, _ in sounding if program != sounding.program]
        nats[np.isin(self.events.program, others)] = 0.0
        nats[self._waits_to(1.0, state)] = np.inf
        if not sounding.struck:
            # The chord is held: only waits of the longest kind, which another wait may follow, or
            # waits until the notes are released.
            longest = (self.waits < self.waits.max()) & ~self._waits_to(RELEASED_FROM, state)
            nats[waits & (longest | released)] = np.inf
