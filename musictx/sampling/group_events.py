"""Notes in bars (tokens/bar_tokens.py) as they are composed: each is told with its length."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from musictx.notes import DRUMS
from musictx.sampling.events import Event, Placed, Teller
from musictx.tokens.bar_ids import LONGEST, write
from musictx.tokens.bar_tokens import BarTokenizer
from musictx.tokens.bars import PER_SECOND
from musictx.tokens.controls import KNOWN
from musictx.tokens.stream import BAR, NOTE, NoteStream
from musictx.tokens.vocab import Tokenizer


class GroupTeller(Teller):
    """As :class:`Teller`, for notes that are written whole: they begin when their last id is drawn,
    and end before a note begins that is not earlier. The ends of the longest ones, which may be
    continued, are told at the end."""

    def __init__(
        self,
        tokenizer: BarTokenizer,
        past: np.ndarray,
        placed: Placed,
        tell: Callable[[Event], None],
    ) -> None:
        table = tokenizer.vocabulary
        self._opens = {table.id(kind): kind for kind in ("bar", KNOWN) if kind in table.kinds}
        self._line = write(
            NoteStream(np.array([(4, 2, 0)], BAR), np.empty(0, NOTE)), table
        ).tolist()
        self._longest = table.id("length", LONGEST)
        self._ahead = False
        self._ends: list[Event] = []  # a heap
        self._sounding: list[np.ndarray] = []
        super().__init__(tokenizer, past, placed, tell)

    def after(self, past: np.ndarray) -> None:
        self._group = past[len(past) - len(past) % len(self._line) :].tolist()

    def drawn(self, token_id: int, seconds: float, own: bool = True) -> None:
        self._group.append(token_id)
        if len(self._group) < len(self._line):
            return
        group, self._group = self._group, []
        if group[0] in self._opens:
            self._ahead = self._opens[group[0]] == KNOWN
        notes = self._tokenizer.decode([*self._line, *group]).notes.copy()
        if not own or self._ahead or not len(notes):
            return
        notes["end"] += seconds - notes["start"]
        notes["start"] = seconds
        for name in ("start", "end"):  # on whole steps: what ends where another begins ends first
            notes[name] = np.round(notes[name] * PER_SECOND) / PER_SECOND
        notes["track"] = np.where(notes["drum"], DRUMS, notes["program"])
        for start, end, pitch, velocity, _, _, track in self._placed(notes).tolist():
            self._finish(start)
            self._tell(Event(start, True, pitch, velocity, track))
            if group[3] == self._longest:
                self._sounding.append(notes)
            else:
                heapq.heappush(self._ends, Event(end, False, pitch, 0, track))

    def close(self, notes: np.ndarray) -> None:
        for note in self._sounding:
            for event in self._last(note, notes):
                heapq.heappush(self._ends, event)
        self._finish(np.inf)

    def _finish(self, seconds: float) -> None:
        while self._ends and self._ends[0].seconds <= seconds:
            self._tell(heapq.heappop(self._ends))


def teller(
    tokenizer: Tokenizer, past: np.ndarray, placed: Placed, tell: Callable[[Event], None]
) -> Teller:
    """What tells the notes of these tokens."""
    if isinstance(tokenizer, BarTokenizer):
        return GroupTeller(tokenizer, past, placed, tell)
    return Teller(tokenizer, past, placed, tell)
