"""Notes as they begin and end, while they are composed: what each drawn id does to them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from musictx.errors import UserError
from musictx.notes import DRUMS, NOTE
from musictx.tokens.vocab import NoteEvents, Tokenizer


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
#: New notes (:data:`musictx.notes.NOTE`), tracks as in :class:`Event`, in seconds of the tokens ->
#: as the finished piece has them.
Placed = Callable[[np.ndarray], np.ndarray]


class Teller:
    """The ids of one piece as they are drawn -> its events, as the finished piece has them.

    past    ids before the first that is drawn
    placed  may leave notes out, by where they begin;  tell  is called with each event

    Notes of tokens that write them with their length are told at the end, but for those in groups
    (:mod:`musictx.sampling.group_events`).
    """

    def __init__(
        self, tokenizer: Tokenizer, past: np.ndarray, placed: Placed, tell: Callable[[Event], None]
    ) -> None:
        self._tokenizer, self._placed, self._tell = tokenizer, placed, tell
        self._programs = "program" in tokenizer.kinds
        self._open: dict[tuple[int, int], np.ndarray] = {}
        self._read: Reader | None = None
        self.after(past)

    def after(self, past: np.ndarray) -> None:
        """The next ids are drawn after ``past``; what sounds goes on."""
        with contextlib.suppress(UserError):
            self._read = reader(self._tokenizer, past)

    def drawn(self, token_id: int, seconds: float, own: bool = True) -> None:
        """An id, and the time of the tokens after it; ``own``: notes that it strikes are new."""
        changes = self._read(token_id, seconds) if self._read is not None else []
        for at, on, pitch, velocity, track in changes:
            key = track, pitch
            if not on or (own and key in self._open):
                self._end(key, at)
            if on and own:
                self._open[key] = self._note(at, pitch, velocity, track)
                self._say(self._open[key], True)

    def close(self, notes: np.ndarray) -> None:
        """The piece is done, ``notes`` are its new ones: they say where ends what still sounds."""
        if self._read is None:
            return tell_all(notes, self._tell)
        for key in sorted(self._open):
            for event in self._last(self._open[key], notes):
                self._tell(event)
        self._open.clear()

    def _last(self, note: np.ndarray, notes: np.ndarray) -> Iterator[Event]:
        """The end of ``note`` as ``notes``, those of the finished piece, have it."""
        for start, _, pitch, *_, track in self._placed(note).tolist():
            same = (notes["pitch"] == pitch) & (np.abs(notes["start"] - start) < 1e-3)
            end = float(notes["end"][same].max(initial=start))
            yield Event(end, False, pitch, 0, track)

    def _note(self, start: float, pitch: int, velocity: int, track: int) -> np.ndarray:
        drum = track == DRUMS
        program = track if self._programs and not drum else 0
        return np.array([(start, start, pitch, velocity, program, drum, track)], NOTE)

    def _end(self, key: tuple[int, int], seconds: float) -> None:
        if (note := self._open.pop(key, None)) is not None:
            note["end"] = max(seconds, float(note["start"][0]))
            self._say(note, False)

    def _say(self, note: np.ndarray, on: bool) -> None:
        for start, end, pitch, velocity, _, _, track in self._placed(note).tolist():
            self._tell(Event(start if on else end, on, pitch, velocity if on else 0, track))


def tell_all(notes: np.ndarray, tell: Callable[[Event], None]) -> None:
    """The events of finished ``notes`` (:data:`musictx.notes.NOTE`), in their order."""
    found = []
    for start, end, pitch, velocity, _, _, track in notes.tolist():
        found.append((start, 1, Event(start, True, pitch, velocity, track)))
        found.append((end, 0 if end > start else 2, Event(end, False, pitch, 0, track)))
    for _, _, event in sorted(found):
        tell(event)


#: Called with an id and the time after it: (seconds, on, pitch, velocity, track) of what it does.
Reader = Callable[[int, float], list[tuple[float, bool, int, int, int]]]


def reader(tokenizer: Tokenizer, past: np.ndarray) -> Reader:
    """What each next id does to notes, after the ids ``past``; ``UserError`` where that shows too
    late."""
    events = tokenizer.note_events
    if events is not None and events.longest_wait is not None:
        return _ReadEvents(tokenizer, events, past)
    if tokenizer.voices:
        return _ReadSteps(tokenizer, past)
    raise UserError(
        f"stream: {tokenizer.name} tokens write notes with their length; expected a model with "
        "tokenizer=performance or ensemble"
    )


class _ReadEvents:
    """Strikes and releases one by one; notes that the past has left sounding are ended too."""

    def __init__(self, tokenizer: Tokenizer, events: NoteEvents, past: np.ndarray) -> None:
        self._events, self._program = events, 0
        strike = int(np.flatnonzero(events.strike >= 0)[0])
        leads = np.flatnonzero(events.lead & (events.program < 0)).tolist()
        probes = {lead: tokenizer.decode([lead, strike]).notes["velocity"][0] for lead in leads}
        self._velocities = {lead: int(velocity) for lead, velocity in probes.items()}
        self._velocity = int(tokenizer.decode([strike]).notes["velocity"][0])
        drums = tokenizer.kinds.index("drum") if "drum" in tokenizer.kinds else -1
        self._drums = np.flatnonzero(tokenizer.kind_of == drums).tolist()
        self._decode = tokenizer.decode
        for token_id in _last(past, leads), _last(past, np.flatnonzero(events.program >= 0)):
            if token_id is not None:
                self(token_id, 0.0)

    def __call__(self, token_id: int, seconds: float) -> list[tuple[float, bool, int, int, int]]:
        events = self._events
        self._velocity = self._velocities.get(token_id, self._velocity)
        if events.program[token_id] >= 0:
            self._program = int(events.program[token_id])
        elif events.strike[token_id] >= 0:
            pitch = int(events.strike[token_id])
            return [(seconds, True, pitch, self._velocity, self._program)]
        elif events.release[token_id] >= 0:
            return [(seconds, False, int(events.release[token_id]), 0, self._program)]
        elif token_id in self._drums:
            pitch = int(self._decode([token_id]).notes["pitch"][0])
            stroke = (True, pitch, self._velocity), (False, pitch, 0)
            return [(seconds, *one, DRUMS) for one in stroke]
        return []


def _last(past: np.ndarray, ids: np.ndarray | list[int]) -> int | None:
    """The last of ``past`` that is one of ``ids``."""
    found = past[np.isin(past, ids)]
    return int(found[-1]) if len(found) else None


class _ReadSteps:
    """Voices that take turns: a step is known when its last voice is written. A voice holds its
    pitch by a tie, or where the tokens know none by writing it again."""

    def __init__(self, tokenizer: Tokenizer, past: np.ndarray) -> None:
        self._pitch_of, self._new = tokenizer.pitch_of, list[int]()
        ties = tokenizer.kinds.index("tie") if "tie" in tokenizer.kinds else None
        self._ties = tokenizer.kind_of == (-1 if ties is None else ties)
        self._held, self._since, self._written = [-1] * tokenizer.align, 0.0, 0
        sounding = int(np.flatnonzero(self._pitch_of >= 0)[0])
        self._velocity = int(tokenizer.decode([sounding]).notes["velocity"][0])
        for token_id in past.tolist():
            self(token_id, 0.0)
        self._since = tokenizer.grammar(past).seconds
        self._written = len(self._new)  # voices of the first step that the past has written

    def __call__(self, token_id: int, seconds: float) -> list[tuple[float, bool, int, int, int]]:
        self._new.append(token_id)
        if len(self._new) < len(self._held):
            return []
        found = []
        for voice, (before, new) in enumerate(zip(self._held, self._new)):
            pitch = int(self._pitch_of[new])
            if self._ties[new] or (not self._ties.any() and pitch == before):
                continue
            self._held[voice] = pitch
            if before >= 0:
                found.append((self._since, False, before, 0, voice))
            if pitch >= 0 and voice >= self._written:
                found.append((self._since, True, pitch, self._velocity, voice))
        self._new, self._since, self._written = [], seconds, 0
        return found
