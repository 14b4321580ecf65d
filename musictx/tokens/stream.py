"""Streams of notes: the intermediate form between a Score and its ids. All times are whole steps.

A step is 10 ms by default for events in seconds (:mod:`.performance`), and a 24th of a quarter note
for notes in bars (:mod:`musictx.songs.bar_tokens`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from musictx.notes import DRUMS

#: Steps in a quarter note of music in bars.
STEPS_PER_QUARTER = 24
#: The part of chords. At each step chords come first, then programs 0 to 127, then ``DRUMS``.
CHORD = -1

#: UNKNOWN: the part or velocity bin of notes before the first program or velocity token of their
#: window. OPEN: the length of a note that does not end within its stream.
UNKNOWN, OPEN = -2, -1

#: A note, a drum stroke or a chord that begins at the step ``start``. A note too long for one token
#: is written as several tied notes.
#:
#: =============  =================  ============  ==============================
#: ``part``       ``pitch``          ``length``    ``velocity_bin``
#: =============  =================  ============  ==============================
#: 0 to 127       pitch              steps         from 1; 0 continues a note
#: DRUMS          drum               0             from 1
#: CHORD          root               quality       0
#: =============  =================  ============  ==============================
STREAM_NOTE = np.dtype(
    [(name, "i8") for name in ("start", "part", "pitch", "length", "velocity_bin")]
)
#: The end, at the step ``stop``, of a note that began before the stream.
END = np.dtype([("stop", "i8"), ("part", "i8"), ("pitch", "i8")])
#: A bar with the meter ``numerator`` / 2 ** ``exponent``. ``early_end``: its length in steps if it
#: is shorter than a full bar, else 0.
BAR = np.dtype([("numerator", "i8"), ("exponent", "i8"), ("early_end", "i8")])


def bar_steps(numerator: Any, exponent: Any) -> Any:
    """The length in steps of a full bar with the meter ``numerator`` / 2 ** ``exponent``."""
    return numerator * 4 * STEPS_PER_QUARTER // 2**exponent


class NoteStream(NamedTuple):
    """The notes of a piece, or of a window of one.

    bars   the bars (:data:`BAR`) from step 0; empty for events in seconds
    notes  the notes (:data:`STREAM_NOTE`), in the order of their tokens
    ends   events in seconds: the ends (:data:`END`) of notes that began before the stream
    stop   events in seconds: the length of the stream in steps
    """

    bars: np.ndarray = np.empty(0, BAR)
    notes: np.ndarray = np.empty(0, STREAM_NOTE)
    ends: np.ndarray = np.empty(0, END)
    stop: int = 0

    @property
    def lines(self) -> np.ndarray:
        """(B + 1,) int64: the steps of the bar lines, including the end of the last bar."""
        full = bar_steps(self.bars["numerator"], self.bars["exponent"])
        early = self.bars["early_end"]
        return np.append(0, np.cumsum(np.where(early > 0, np.minimum(early, full), full)))

    @property
    def bar(self) -> np.ndarray:
        """(n,) int64: the index of the bar in which each note begins."""
        return np.searchsorted(self.lines, self.notes["start"], side="right") - 1

    def in_bars(self, first: int, stop: int | None = None) -> NoteStream:
        """The bars ``first`` to ``stop`` - 1 (``None``: to the last), and the notes that begin in
        them, counted from the first bar line."""
        bar, lines = self.bar, self.lines
        bars = self.bars[first:stop]
        notes = self.notes[(bar >= first) & (bar < first + len(bars))].copy()
        notes["start"] -= lines[first] if first < len(lines) else 0
        return NoteStream(bars, notes)

    @property
    def note_ends(self) -> np.ndarray:
        """(n,) int64: the step at which each note ends; ``stop`` for notes that are open."""
        length = self.notes["length"]
        return np.where(length == OPEN, self.stop, self.notes["start"] + length)

    def in_steps(self, first: int, stop: int | None = None) -> NoteStream:
        """The notes that begin at the steps ``first`` to ``stop`` - 1 (``None``: to the last),
        counted from ``first``. Notes that end at ``stop`` or later are :data:`OPEN`. Of notes that
        began before ``first``, only the ends remain, in ``ends``."""
        stop = np.iinfo(np.int64).max if stop is None else stop
        start, end = self.notes["start"], self.notes["start"] + self.notes["length"]
        has_end = (self.notes["length"] != OPEN) & (self.notes["part"] != DRUMS)
        inside = (start >= first) & (start < stop)
        notes = self.notes[inside].copy()
        notes["length"][(has_end & (end >= stop))[inside]] = OPEN
        notes["start"] -= first
        older = self.notes[has_end & (start < first) & (end >= first) & (end < stop)]
        new_ends = np.empty(len(older), END)
        new_ends["stop"] = older["start"] + older["length"]
        new_ends["part"], new_ends["pitch"] = older["part"], older["pitch"]
        old_ends = self.ends[(self.ends["stop"] >= first) & (self.ends["stop"] < stop)]
        ends = np.concatenate([old_ends, new_ends])
        ends["stop"] -= first
        return NoteStream(self.bars, notes, ends, min(self.stop, stop) - first)


class Velocities:
    """At most ``max_bins`` bins of equal width for the MIDI velocities 1 to 127, as in note-seq.

    Velocity v is in bin (v - 1) // width + 1, where width = ceil(127 / max_bins). A bin is decoded
    as its middle velocity; note-seq decodes it as its lowest.

    bins    the number of bins
    of_bin  (bins + 1,) int64: the MIDI velocity of each bin; index 0 is unused
    """

    def __init__(self, max_bins: int) -> None:
        self._width = math.ceil(127 / max_bins)
        self.bins: int = self.bin(127)
        lowest = np.arange(self.bins) * self._width + 1
        middle = (lowest + np.minimum(lowest + self._width - 1, 127)) // 2
        self.of_bin = np.concatenate([[0], middle]).astype(np.int64)

    def bin(self, velocity: Any) -> Any:
        """The bin, from 1, of a MIDI velocity or of an array of them."""
        return (velocity - 1) // self._width + 1
