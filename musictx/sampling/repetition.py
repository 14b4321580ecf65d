"""Soft constraints on the repetition of a pitch within seconds, and of a pattern for seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Generic, TypeVar

import numpy as np

from musictx.sampling.constraints import by_row
from musictx.tokens.vocab import GrammarState, NoteEvents

#: (seconds, pitch) of strikes, the last one first.
Strikes = list[tuple[float, int]]
Found = TypeVar("Found")

#: Of so many strikes, those are counted whose pitch was struck within so many seconds before.
RECENT_STRIKES, AGAIN_SECONDS = 32, 0.5
#: A pattern of so many pitches at most, repeated so many times, may go on for so many seconds: of
#: 193 excerpts of 45 s of MAESTRO's validation pieces 2 in 100 have one that goes on for longer.
LONGEST_PATTERN, TURNS, PATTERN_SECONDS = 16, 3, 3.0


class SinceStrike(Generic[Found]):
    """What ``find`` makes of a row and its last strikes; it is asked again only after a strike."""

    def __init__(self, find: Callable[[int, Strikes], Found]) -> None:
        self._find = find
        self._found: dict[int, tuple[Strikes, Found]] = {}

    def __call__(self, row: int, state: GrammarState) -> Found:
        strikes = state.sounding.recent()
        if row not in self._found or self._found[row][0] is not strikes:
            self._found[row] = strikes, self._find(row, strikes)
        return self._found[row][1]


@dataclass(frozen=True)
class Repetition:
    """Makes it costly to strike a pitch again within :data:`AGAIN_SECONDS`: ``cost`` nats for each
    such note among the last :data:`RECENT_STRIKES` beyond ``usual``, their share in the corpus."""

    events: NoteEvents
    cost: float
    usual: float

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
        return by_row([self._row(*one) for one in enumerate(states)])

    def _row(self, row: int, state: GrammarState) -> np.ndarray | None:
        over, last = self._repeats(row, state)
        if over <= 0:
            return None
        now = state.seconds
        late = [p for p, at in last.items() if now - at < AGAIN_SECONDS - 1e-6]
        return np.where(among(self.events.strike, late), self.cost * over, 0.0) if late else None

    @cached_property
    def _repeats(self) -> SinceStrike[tuple[float, dict[int, float]]]:
        """How many more notes than usual are such, and when each pitch was struck last."""

        def find(row: int, strikes: Strikes) -> tuple[float, dict[int, float]]:
            last: dict[int, float] = {}
            repeats, counted = 0, strikes[:RECENT_STRIKES]
            for at, pitch in reversed(counted):
                repeats += at - last.get(pitch, -np.inf) < AGAIN_SECONDS - 1e-6
                last[pitch] = at
            return repeats - self.usual * len(counted), last

        return SinceStrike(find)


@dataclass(frozen=True)
class Patterns:
    """Makes it costly to go on with a pattern of pitches that was repeated for longer than
    :data:`PATTERN_SECONDS`: ``cost`` nats a second beyond, for the pitch that comes next in it."""

    events: NoteEvents
    cost: float

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
        return by_row([self._costs(*one) for one in enumerate(states)])

    @cached_property
    def _costs(self) -> SinceStrike[np.ndarray | None]:
        def find(row: int, strikes: Strikes) -> np.ndarray | None:
            pitches = [pitch for _, pitch in strikes]
            for period in range(1, LONGEST_PATTERN + 1):
                same = sum(takewhile(bool, map(int.__eq__, pitches, pitches[period:])))
                if same < period * (TURNS - 1):
                    continue
                over = strikes[0][0] - strikes[same + period - 1][0] - PATTERN_SECONDS
                if over > 0:  # longer ones are turns of this one
                    comes_next = self.events.strike == strikes[period - 1][1]
                    return np.where(comes_next, self.cost * over, 0.0)
            return None

        return SinceStrike(find)


def among(values: np.ndarray, some: Sequence[int]) -> np.ndarray:
    """Which of ``values``, -1 to 128, are among ``some`` (below 256): ``np.isin`` for few numbers,
    in less time than a step of the model."""
    table = np.zeros(257, bool)
    table[some] = True
    table[-1] = False
    return table[values]
