"""Report beginnings and ends of notes while a piece is composed, as in the finished piece."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from musictx.notes import DRUMS, NOTE
from musictx.tokens.grammar import NoteChange


class Event(NamedTuple):
    """The beginning (``on``) or end of a note.

    seconds   in a stream: seconds of new music, never decreasing; while a piece is composed:
              seconds of its score
    velocity  1 to 127; 0 if the note ends
    track     in a piece with a primer or given notes: the track of the score. In a stream or a new
              piece: the voice of a chorale (0: the highest), the program in an ensemble, or 0;
              :data:`DRUMS` for drums, which end as they begin
    """

    seconds: float
    on: bool
    pitch: int
    velocity: int
    track: int = 0


#: Called with the index of a piece, from 0, and an event of it.
OnEvent = Callable[[int, Event], None]
#: Converts new notes (:data:`musictx.notes.NOTE`) to those of the finished piece. It may drop notes
#: that begin outside the new music, or together with a louder note of the same pitch. An
#: :class:`Emitter` applies it to each note alone, and so reports both notes in the second case.
FinishNotes = Callable[[np.ndarray], np.ndarray]


class Emitter:
    """Calls ``on_event`` for each note that the ids of one piece begin or end
    (:class:`musictx.tokens.grammar.NoteChange`), after ``finish`` has been applied to the note."""

    def __init__(self, finish: FinishNotes, on_event: Callable[[Event], None]) -> None:
        self._finish, self.on_event = finish, on_event
        #: The notes that have not ended, by (part, pitch); by (part, pitch, start) if the end is
        #: certain only in the finished piece.
        self._open: dict[tuple[float, ...], np.ndarray] = {}
        self._ends: list[Event] = []  # a heap of the ends still to report
        self._is_certain = True  # False after changes that are known only in the finished piece

    def report(self, changes: Sequence[NoteChange] | None, is_new: bool = True) -> None:
        """Report the ``changes`` of an id; ``None`` if they are known only in the finished piece.
        ``is_new``: whether a note that the id begins is new, not given."""
        self._is_certain &= changes is not None
        for change in changes or ():
            key = change.part, change.pitch
            if change.end is None and (is_new or not change.on):
                self._end(key, change.seconds)
            if change.on and is_new:
                self._begin(change)

    def close(self, notes: np.ndarray) -> None:
        """Report all remaining ends. ``notes`` are the new notes of the finished piece, which have
        the ends of notes that still sound; all of them are reported if none could be before."""
        if not self._is_certain:
            return emit_all(notes, self.on_event)
        for note in self._open.values():
            for start, _, pitch, *_, track in self._finish(note).tolist():
                same = (notes["pitch"] == pitch) & (np.abs(notes["start"] - start) < 1e-3)
                end = float(notes["end"][same].max(initial=start))
                heapq.heappush(self._ends, Event(end, False, pitch, 0, track))
        self._report_ends(np.inf)

    def stop(self, seconds: float) -> None:
        """End all sounding notes at ``seconds``."""
        for key in sorted(self._open):
            self._end(key, seconds)

    def _begin(self, change: NoteChange) -> None:
        drum = change.part == DRUMS
        end = change.seconds if change.end is None else change.end
        program = 0 if drum else change.part
        note = np.array(
            [(change.seconds, end, change.pitch, change.velocity, program, drum, change.part)], NOTE
        )
        if change.end is None:
            self._open[change.part, change.pitch] = note
        elif np.isinf(end):
            note["end"] = note["start"]
            self._open[change.part, change.pitch, change.seconds] = note
        for start, end, pitch, velocity, _, _, track in self._finish(note).tolist():
            self._report_ends(start)
            self.on_event(Event(start, True, pitch, velocity, track))
            if change.end is not None and np.isfinite(change.end):
                heapq.heappush(self._ends, Event(end, False, pitch, 0, track))
                self._report_ends(start)

    def _end(self, key: tuple[float, ...], seconds: float) -> None:
        if (note := self._open.pop(key, None)) is not None:
            note["end"] = max(seconds, float(note["start"][0]))
            for _, end, pitch, *_, track in self._finish(note).tolist():
                self._report_ends(end)
                self.on_event(Event(end, False, pitch, 0, track))

    def _report_ends(self, seconds: float) -> None:
        """Report the pending ends up to ``seconds``."""
        while self._ends and self._ends[0].seconds <= seconds:
            self.on_event(heapq.heappop(self._ends))


def emit_all(notes: np.ndarray, on_event: Callable[[Event], None]) -> None:
    """Call ``on_event`` for the events of finished ``notes`` (:data:`musictx.notes.NOTE`), in order
    of time."""
    events = []  # (seconds, rank, event): ends come before onsets, but not of notes of length 0
    for start, end, pitch, velocity, _, _, track in notes.tolist():
        events.append((start, 1, Event(start, True, pitch, velocity, track)))
        events.append((end, 0 if end > start else 2, Event(end, False, pitch, 0, track)))
    for _, _, event in sorted(events):
        on_event(event)
