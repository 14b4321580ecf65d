"""Soft constraints on repetition: of a pitch within seconds, and of long runs of pitches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musictx.evaluate.note_limits import STRIKES_WITHIN
from musictx.tokens.vocab import GrammarState, NoteEvents

#: Of so many strikes, those are counted whose pitch was struck within so many seconds before.
RECENT_STRIKES, AGAIN_SECONDS = 32, 0.5
#: Runs of pitches that count as repeated, shortest and longest; strikes that are searched for them.
SHORTEST_RUN, LONGEST_RUN, SEARCHED_STRIKES = 12, 24, 2048


@dataclass(frozen=True)
class Repetition:
    """Makes it costly to strike a pitch again within :data:`AGAIN_SECONDS`: ``cost`` nats for each
    such note among the last :data:`RECENT_STRIKES` beyond ``usual``, their share in the corpus."""

    events: NoteEvents
    cost: float
    usual: float

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        costs = np.zeros((len(states), len(self.events.strike)))
        for row, state in zip(costs, states):
            last: dict[int, float] = {}  # when each pitch was struck last
            repeats, strikes = 0, state.sounding.recent(RECENT_STRIKES)
            for at, pitch in reversed(strikes):
                repeats += at - last.get(pitch, -np.inf) < AGAIN_SECONDS - 1e-6
                last[pitch] = at
            over = repeats - self.usual * len(strikes)
            late = [p for p, at in last.items() if state.seconds - at < AGAIN_SECONDS - 1e-6]
            if over > 0 and late:
                row[among(self.events.strike, late)] = self.cost * over
        return costs


@dataclass(frozen=True)
class Strikes:
    """A pitch is struck ``most`` times at most within two seconds, infinite cost beyond."""

    events: NoteEvents
    most: int

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        costs = np.zeros((len(states), len(self.events.strike)))
        for row, state in zip(costs, states):
            since = state.seconds - STRIKES_WITHIN + 1e-6
            recent = [pitch for at, pitch in state.sounding.recent() if at >= since]
            if len(recent) >= self.most:
                often = [pitch for pitch, count in Counter(recent).items() if count >= self.most]
                row[among(self.events.strike, often)] = np.inf
        return costs


@dataclass(frozen=True)
class Phrases:
    """Going on with a run of pitches that was there before costs up to ``cost`` nats.

    A pitch that makes the last n pitches equal to n of those before costs nothing up to n = 11, the
    whole from n = 24 on, and in between in proportion: motifs may come back, pages may not.
    """

    pitch_of: np.ndarray
    cost: float

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        costs = np.zeros((len(past), len(self.pitch_of)))
        for row, ids in zip(costs, past):
            pitches = self.pitch_of[ids]
            lengths = repeated(pitches[pitches >= 0][-SEARCHED_STRIKES:])
            share = np.clip((lengths - SHORTEST_RUN + 1) / (LONGEST_RUN - SHORTEST_RUN + 1), 0, 1)
            row[:] = np.where(self.pitch_of >= 0, self.cost * share[self.pitch_of], 0.0)
        return costs


def repeated(pitches: np.ndarray) -> np.ndarray:
    """(128,) for each pitch: the length, at most :data:`LONGEST_RUN`, of the longest run it would
    end and that was there before; 0 for one that has not come yet."""
    lengths = np.zeros(128, int)
    ends = np.arange(len(pitches))  # where the run before may end, with the pitch in question
    lengths[pitches] = 1
    for back in range(1, min(LONGEST_RUN, len(pitches))):
        ends = ends[ends >= back]
        ends = ends[pitches[ends - back] == pitches[len(pitches) - back]]
        lengths[pitches[ends]] = back + 1
    return lengths


def among(values: np.ndarray, some: Sequence[int]) -> np.ndarray:
    """Which of ``values``, -1 to 128, are among ``some`` (below 256): ``np.isin`` for few numbers,
    in less time than a step of the model."""
    table = np.zeros(257, bool)
    table[some] = True
    table[-1] = False
    return table[values]
