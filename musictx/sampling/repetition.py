"""Soft constraints on the repetition of a pitch within seconds, and of a pattern for seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from musictx.tokens.vocab import GrammarState, NoteEvents

#: Of so many strikes, those are counted whose pitch was struck within so many seconds before.
RECENT_STRIKES, AGAIN_SECONDS = 32, 0.5
#: A pattern of so many pitches at most, repeated so many times, may go on for so many seconds: of
#: 193 excerpts of 45 s of MAESTRO's validation pieces 2 in 100 have one that goes on for longer.
LONGEST_PATTERN, TURNS, PATTERN_SECONDS = 16, 3, 3.0


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
class Patterns:
    """Makes it costly to go on with a pattern of pitches that was repeated for longer than
    :data:`PATTERN_SECONDS`: ``cost`` nats a second beyond, for the pitch that comes next in it."""

    events: NoteEvents
    cost: float

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        costs = np.zeros((len(states), len(self.events.strike)))
        for row, state in zip(costs, states):
            strikes = state.sounding.recent()
            pitches = [pitch for _, pitch in strikes]
            for period in range(1, LONGEST_PATTERN + 1):
                same = sum(takewhile(bool, map(int.__eq__, pitches, pitches[period:])))
                if same < period * (TURNS - 1):
                    continue
                over = strikes[0][0] - strikes[same + period - 1][0] - PATTERN_SECONDS
                if over > 0:
                    row[self.events.strike == strikes[period - 1][1]] = self.cost * over
                    break  # longer ones are turns of this one
        return costs


def among(values: np.ndarray, some: Sequence[int]) -> np.ndarray:
    """Which of ``values``, -1 to 128, are among ``some`` (below 256): ``np.isin`` for few numbers,
    in less time than a step of the model."""
    table = np.zeros(257, bool)
    table[some] = True
    table[-1] = False
    return table[values]
