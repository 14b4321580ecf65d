"""Given notes around new ones, among strikes and releases: see :mod:`.infill`.

The model reads them in the layout of ``tokens/layout.py``: what comes, as K; what was, as the
stream up to ``here``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.config import SamplingConfig
from musictx.model.transformer import MusicTransformer
from musictx.notes import DRUMS, Score
from musictx.sampling import pitches
from musictx.sampling.event_constraint import LEADS, EventRow
from musictx.sampling.infill import Infill
from musictx.sampling.infill_constraint import NewNotes
from musictx.sampling.strengths import (
    AHEAD_SHARE,
    PAST_SHARE,
    SEGMENT_SECONDS,
)
from musictx.tokens import events as ev
from musictx.tokens import layout
from musictx.tokens.controls import HERE
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS, CUT


class EventInfill(Infill):
    """Notes composed from ``begin`` to ``end``; new notes that sound at the end of a gap end within
    :data:`WINDOW_SECONDS`.

    origin  the step of the score at which the stream's clock begins; all others count from it
    past, given  the events that are written, and that are still to be
    held    (program, pitch) of new notes that sound
    """

    anew, time = False, "time_shift"
    tokenizer: PerformanceTokenizer
    row: EventRow

    def __init__(
        self,
        model: MusicTransformer,
        tokenizer: PerformanceTokenizer,
        music: Score,
        begin: float,
        end: float,
        **options: Any,
    ) -> None:
        super().__init__(model, tokenizer, music, **options)
        self.vocabulary, self.step_seconds = tokenizer.vocabulary, tokenizer.step_seconds
        if self.parts is not None:  # drums are not composed
            self.parts = [part for part in self.parts if part != DRUMS]
        first = self._step(tokenizer.clock(music).begins) if len(music) else self._step(begin)
        self.origin = min(first, self._step(begin))
        ids = ev.as_ids(tokenizer.encode(music), self.vocabulary)
        events = ev.read(ids, self.vocabulary)[0]
        events["step"] += first - self.origin
        self.begin, self.stop = (self._step(at) - self.origin for at in (begin, end))
        self.here = self.begin
        self.past = events[events["step"] < self.here]
        self.given = events[events["step"] >= self.here]
        self.held: list[tuple[int, int]] = []
        self.is_new = [False] * int(ev.struck(self.past).sum())

    def _step(self, seconds: float) -> int:
        return int(np.floor(seconds / self.step_seconds + 0.5))

    @property
    def done(self) -> bool:  # type: ignore[override]
        return self.here >= self.stop and not (self.closes and self.held)

    @property
    def _until(self) -> int:
        """The step at which the last new note ends."""
        return self.stop + (self._step(WINDOW_SECONDS) if self.closes else 0)

    def written(self) -> np.ndarray:
        return ev.write(self.past, self.vocabulary, self.here)

    def placed(self, notes: np.ndarray) -> np.ndarray:
        notes = notes.copy()
        for name in ("start", "end"):
            notes[name] = np.minimum(notes[name], self._until * self.step_seconds)
            notes[name] += self.origin * self.step_seconds
        return notes

    def rows(self, count: int, sampling: SamplingConfig) -> list[EventRow]:  # type: ignore[override]
        new = NewNotes(
            self.vocabulary,
            end=self.stop if self.closes else None,
            parts=self.parts,
            habits=self.habits,
            pitches=pitches.pitch_sets(sampling, [self.around])[0],
        )
        mark = [self.vocabulary.id(HERE)]  # time may be shifted after it, at the beginning too
        state = self.tokenizer.grammar(np.concatenate([mark, self.written(), mark]))
        segment = np.inf if self.closes else max(1, self._step(SEGMENT_SECONDS))
        return [
            EventRow(
                new,
                state.copy(),
                step_seconds=self.step_seconds,
                given=self.given,
                past=self.past,
                held=self.held,
                until=int(min(self._until, self.here + segment)),
            )
            for _ in range(count)
        ]

    def absorb(self) -> None:
        ids = list(self.row.piece)
        while ids and self.vocabulary.token(ids[-1])[0] in LEADS:
            ids.pop()  # it waited for a note
        both = np.concatenate([self.written().astype(np.int64), np.array(ids, np.int64)])
        self.past, self.here = ev.read(both, self.vocabulary)
        struck = np.flatnonzero(ev.struck(self.past))[len(self.is_new) :]
        given = self.given[: self.row.next]
        of_given = struck[~np.array(self.row.is_new, bool)]
        self.past["bin"][of_given] = given["bin"][ev.struck(given)]
        self.given = self.given[self.row.next :]
        self.held = list(self.row.held.elements())

    def prompt(self, levels: Sequence[int]) -> np.ndarray:
        first = self._first_of_past(int(PAST_SHARE * self.context))
        base = int(np.append(self.past["step"], self.here)[first]) if first else 0
        past, given = self.past[first:].copy(), self.given.copy()
        for events in (past, given):
            events["step"] -= base
        here = self.here - base
        given["step"] -= here
        written, none = ev.write(past, self.vocabulary, here), np.empty(0, np.int64)
        room = layout.IDS_AROUND + int(AHEAD_SHARE * self.context)
        made = layout.build_window(
            self.vocabulary,
            levels,
            written,
            none,
            ev.write(given, self.vocabulary),
            budget=room + len(written) + 1,
        )
        return np.concatenate([[BOS if first == 0 else CUT], made.prefix, made.past])

    def _first_of_past(self, room: int) -> int:
        """The first event of the past from which on it has ``room``."""
        low, high = 0, len(self.past)
        while low < high:
            middle = (low + high) // 2
            kept = self.past[middle:].copy()
            if middle:
                kept["step"] -= kept["step"][0]
            end = self.here - (int(self.past["step"][middle]) if middle else 0)
            fits = len(ev.write(kept, self.vocabulary, end)) <= room
            low, high = (low, middle) if fits else (middle + 1, high)
        return low
