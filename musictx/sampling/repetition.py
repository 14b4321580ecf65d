"""Soft constraints on repetition: of a pitch within seconds, and of long runs of pitches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musictx.evaluate.note_limits import STRIKES_WITHIN
from musictx.tokens.vocab import GrammarState, NoteEvents

#: Strikes among which those of a pitch struck within so many seconds before are counted.
OF, AGAIN = 32, 0.5
#: Runs of pitches that count as repeated, shortest and longest; strikes that are searched for them.
SHORTEST, LONGEST, SEARCHED = 12, 24, 2048


@dataclass(frozen=True)
class Repetition:
    """Striking a pitch again within :data:`AGAIN` seconds costs ``cost`` nats for each such note
    that the last :data:`OF` have beyond ``usual``, the share of them in the corpus."""

    events: NoteEvents
    cost: float
    usual: float

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        costs = np.zeros((len(states), len(self.events.strike)))
        for row, state in zip(costs, states):
            last: dict[int, float] = {}  # when each pitch was struck last
            found, strikes = 0, state.sounding.recent(OF)
            for at, pitch in reversed(strikes):
                found += at - last.get(pitch, -np.inf) < AGAIN - 1e-6
                last[pitch] = at
            over = found - self.usual * len(strikes)
            late = [p for p, at in last.items() if state.seconds - at < AGAIN - 1e-6]
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
            lengths = repeated(pitches[pitches >= 0][-SEARCHED:])
            share = np.clip((lengths - SHORTEST + 1) / (LONGEST - SHORTEST + 1), 0, 1)
            row[:] = np.where(self.pitch_of >= 0, self.cost * share[self.pitch_of], 0.0)
        return costs


def repeated(pitches: np.ndarray) -> np.ndarray:
    """(128,) for each pitch: the length, :data:`LONGEST` at most, of the longest run that it would
    end and that was there before; 0 for one that has not come yet."""
    lengths = np.zeros(128, int)
    ends = np.arange(len(pitches))  # where the run before may end, with the pitch in question
    lengths[pitches] = 1
    for back in range(1, min(LONGEST, len(pitches))):
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
