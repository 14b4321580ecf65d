"""What new notes in bars cost in the harmony of given notes and chords.

A model of a few million parameters holds some notes over the next chord for seconds, where songs
change them, and writes more semitones to a melody than songs have (scripts/LOG.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain

import numpy as np

from musictx.chords import Chord
from musictx.songs.strengths import (
    CHORD_OVERHANG,
    CLASH,
    CLASH_OVERHANG,
    CLASH_STEPS,
    OVERHANG_STEPS,
)


class HarmonicFit:
    """Given notes and chords of a piece.

    sounding  (part, pitch) -> (begin, end) of its given notes, steps
    chords    (step, chord) of the given chords, in order
    """

    def __init__(
        self,
        sounding: Mapping[tuple[int, int], Sequence[tuple[int, int]]],
        chords: Sequence[tuple[int, Chord]],
    ) -> None:
        tones = [[(begin, end, tone) for begin, end in sounding[_, tone]] for _, tone in sounding]
        self._notes = np.array([*chain(*tones)], np.int64).reshape(-1, 3)
        self._chords = [(step, chord.classes) for step, chord in chords]
        self.clashes = cache(self._clashes)

    def _clashes(self, step: int) -> np.ndarray:
        """(12,) nats of each pitch class of a note that begins at ``step``."""
        begin, end, tone = self._notes.T
        near = tone[(begin < step + CLASH_STEPS) & (step < end)]
        nats = np.zeros(12)
        nats[np.concatenate([near - 1, near + 1]) % 12] = CLASH
        return nats

    def lengths(self, pitch: int, step: int, lengths: np.ndarray, composed: bool) -> np.ndarray:
        """(n,) nats of each of ``lengths``, steps, of a note ``pitch`` that begins at ``step``;
        ``composed``: chords are, too."""
        off = [at for at, classes in self._chords if classes and pitch % 12 not in classes]
        nats = CHORD_OVERHANG * (lengths > _room(np.array(off, np.int64), step))
        if composed:
            begin, end, tone = self._notes.T
            clash = np.isin((tone - pitch) % 12, (1, 11)) & (end - begin >= OVERHANG_STEPS)
            nats = np.maximum(nats, CLASH_OVERHANG * (lengths > _room(begin[clash], step)))
        return nats


def _room(begins: np.ndarray, step: int) -> float:
    """Steps from ``step`` to the first of ``begins`` after it."""
    return float((begins[begins > step] - step).min(initial=10**9))
