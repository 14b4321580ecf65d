"""Soft constraints on the repetition of a pitch within seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musictx.tokens.vocab import GrammarState, NoteEvents

#: Of so many strikes, those are counted whose pitch was struck within so many seconds before.
RECENT_STRIKES, AGAIN_SECONDS = 32, 0.5


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


def among(values: np.ndarray, some: Sequence[int]) -> np.ndarray:
    """Which of ``values``, -1 to 128, are among ``some`` (below 256): ``np.isin`` for few numbers,
    in less time than a step of the model."""
    table = np.zeros(257, bool)
    table[some] = True
    table[-1] = False
    return table[values]
