"""Report beginnings and ends of notes while a piece is composed, as in the finished piece."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from musictx.notes import DRUMS, NOTE
from musictx.tokens.grammar import NoteChange


class Event(NamedTuple):
    """A note that begins (``on``) or ends.

    seconds   of a stream: since the new music began, never less than those of the event before; of
              a piece that is being composed: of its score
    velocity  1 to 127; 0 where a note ends
    track     voice of a chorale from the highest, program of an ensemble, else 0; :data:`DRUMS`,
              whose strokes begin and end at once. Of a piece that goes on with a given one, or lies
              around its notes: the track of the score
    """

    seconds: float
    on: bool
    pitch: int
    velocity: int
    track: int = 0


#: Called with the number of a piece, from 0, and what one of its notes does.
OnEvent = Callable[[int, Event], None]
#: New notes (:data:`musictx.notes.NOTE`), tracks as in :class:`Event`, in seconds of the ids -> as
#: the finished piece has them; it may leave notes out, by where they begin, or since a louder one
#: begins there on the same pitch, but then both are reported.
FinishNotes = Callable[[np.ndarray], np.ndarray]


class Emitter:
    """Calls ``on_event`` for each note that the ids of one piece begin or end
    (:class:`musictx.tokens.grammar.NoteChange`), after ``finish`` has been applied to the note."""

    def __init__(self, finish: FinishNotes, on_event: Callable[[Event], None]) -> None:
        self._finish, self.on_event = finish, on_event
        #: (part, pitch) -> a note that has not ended yet; (part, pitch, seconds of its beginning)
        #: for a note whose end is certain only in the finished piece.
        self._open: dict[tuple[float, ...], np.ndarray] = {}
        self._ends: list[Event] = []  # a heap of the ends still to report
        self._whole = True  # whether all changes so far were certain

    def changes(self, changes: Sequence[NoteChange] | None, new: bool = True) -> None:
        """Report the ``changes`` of an id; ``new``: whether a note that it begins is new."""
        self._whole &= changes is not None
        for change in changes or ():
            key = change.part, change.pitch
            if change.end is None and (new or not change.on):
                self._end(key, change.seconds)
            if change.on and new:
                self._begin(change)

    def close(self, notes: np.ndarray) -> None:
        """Report all remaining ends of the finished piece. ``notes`` are its new notes, from which
        the ends of notes that still sound are taken."""
        if not self._whole:
            return emit_all(notes, self.on_event)
        for note in self._open.values():
            for start, _, pitch, *_, track in self._finish(note).tolist():
                same = (notes["pitch"] == pitch) & (np.abs(notes["start"] - start) < 1e-3)
                end = float(notes["end"][same].max(initial=start))
                heapq.heappush(self._ends, Event(end, False, pitch, 0, track))
        self._until(np.inf)

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
            self._until(start)
            self.on_event(Event(start, True, pitch, velocity, track))
            if change.end is not None and np.isfinite(change.end):
                heapq.heappush(self._ends, Event(end, False, pitch, 0, track))
                self._until(start)

    def _end(self, key: tuple[float, ...], seconds: float) -> None:
        if (note := self._open.pop(key, None)) is not None:
            note["end"] = max(seconds, float(note["start"][0]))
            for _, end, pitch, *_, track in self._finish(note).tolist():
                self._until(end)
                self.on_event(Event(end, False, pitch, 0, track))

    def _until(self, seconds: float) -> None:
        """Report the pending ends up to ``seconds``."""
        while self._ends and self._ends[0].seconds <= seconds:
            self.on_event(heapq.heappop(self._ends))


def emit_all(notes: np.ndarray, on_event: Callable[[Event], None]) -> None:
    """Call ``on_event`` for the events of finished ``notes`` (:data:`musictx.notes.NOTE`), in the
    order of time."""
    ordered = []
    for start, end, pitch, velocity, _, _, track in notes.tolist():
        ordered.append((start, 1, Event(start, True, pitch, velocity, track)))
        ordered.append((end, 0 if end > start else 2, Event(end, False, pitch, 0, track)))
    for _, _, event in sorted(ordered):
        on_event(event)
