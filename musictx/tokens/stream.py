"""Notes on whole steps: what stands between a Score and its ids, whatever spells them.

A step is 10 ms for events in seconds (:mod:`.performance`), a 24th of a quarter note for notes in
bars (:mod:`.bar_tokens`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musictx.notes import DRUMS

#: Steps in a quarter note where time is counted in bars.
STEPS = 24
#: Parts beside the programs 0 to 127: chords, which come first at a step, and drums, which come
#: last.
CHORD, DRUM_PART = -1, DRUMS

#: What begins at the step ``start``: a note of a ``part``, or a chord, whose ``pitch`` is its root
#: and ``length`` its quality. Drum strokes have no length. ``velocity_bin`` is 0 for chords, and
#: for what continues a note that is longer than can be written.
NOTE = np.dtype(
    [
        ("start", "i8"),
        ("part", "i8"),
        ("pitch", "i8"),
        ("length", "i8"),
        ("velocity_bin", "i8"),
    ]
)
#: A bar of ``numerator`` / 2 ** ``exponent``, and the step at which it ends early (0: it does not).
BAR = np.dtype([("numerator", "i8"), ("exponent", "i8"), ("cut", "i8")])


class NoteStream(NamedTuple):
    """``notes`` (:data:`NOTE`) in the order of writing, in ``bars`` (:data:`BAR`), of which the
    first begins at step 0."""

    bars: np.ndarray
    notes: np.ndarray

    @property
    def lines(self) -> np.ndarray:
        """(B + 1,) int64: the steps of the bar lines, and where the last bar ends."""
        full = self.bars["numerator"] * 4 * STEPS // 2 ** self.bars["exponent"]
        cut = self.bars["cut"]
        return np.append(0, np.cumsum(np.where(cut > 0, np.minimum(cut, full), full)))

    @property
    def bar(self) -> np.ndarray:
        """(n,) the number of the bar in which each note begins."""
        found: np.ndarray = np.searchsorted(self.lines, self.notes["start"], side="right") - 1
        return found

    def only(self, notes: np.ndarray) -> NoteStream:
        """These ``notes`` in the same bars."""
        return NoteStream(self.bars, notes)

    def between(self, first: int, stop: int | None = None) -> NoteStream:
        """The bars from the number ``first`` to before ``stop``, and the notes in them."""
        bar, lines = self.bar, self.lines
        bars = self.bars[first:stop]
        notes = self.notes[(bar >= first) & (bar < first + len(bars))].copy()
        notes["start"] -= lines[first] if first < len(lines) else 0
        return NoteStream(bars, notes)
