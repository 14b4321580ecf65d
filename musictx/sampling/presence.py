"""Parts that play go on playing while music in bars is continued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from musictx.config import SamplingConfig
from musictx.sampling.constraints import by_row
from musictx.sampling.infill_biases import LEAST, PULL
from musictx.sampling.steer import FEWEST_NOTES
from musictx.tokens.bar_grammar import BarState
from musictx.tokens.bar_tokens import BarTokenizer
from musictx.tokens.stream import DRUM_PART
from musictx.tokens.vocab import GrammarState, SoftConstraint, Tokenizer

#: Seconds of the tokens in which a part has at least the share :data:`LEAST` of the notes that it
#: had in as many at the end of the primer: it may rest for half of them (scripts/LOG.md).
WITHIN = 16.0


class Presence:
    """Places and the part gain :data:`PULL` nats for each note that a part lacks.

    least  of each row, part -> notes that it has at least in :data:`WITHIN` seconds
    """

    def __init__(self, tokenizer: BarTokenizer, least: Sequence[Mapping[int, float]]) -> None:
        table, self.least = tokenizer.vocabulary, least
        self._size, self._places = tokenizer.size, slice(*table.range("place"))
        self._id = {
            part: table.id("drums") if part == DRUM_PART else table.id("program", part)
            for part in {part for row in least for part in row}
        }

    def __call__(self, states: Sequence[Any], past: np.ndarray) -> np.ndarray | None:
        return by_row([self._row(state, some) for state, some in zip(states, self.least)])

    def _row(self, state: Any, least: Mapping[int, float]) -> np.ndarray | None:
        if state.written > 1 or not least:
            return None
        count = state.counts(WITHIN)
        lacks = {part: some - count[part] for part, some in least.items() if some > count[part]}
        if not lacks:
            return None
        costs = np.zeros(self._size)
        if state.written:
            for part, lack in lacks.items():
                costs[self._id[part]] = -PULL * lack
        else:
            costs[self._places] = -PULL * max(lacks.values())
        return costs


def of(
    tokenizer: Tokenizer,
    sampling: SamplingConfig,
    states: Sequence[GrammarState],
    values: Sequence[Mapping[str, float]],
) -> list[SoftConstraint]:
    """That of the parts that have :data:`FEWEST_NOTES` or more in the last seconds of ``states``,
    which are those after the primers; none for other tokens, where ``sampling`` leaves habits out,
    and where a density is among the ``values`` that are asked for."""
    if not isinstance(tokenizer, BarTokenizer) or not sampling.habits:
        return []
    least: list[dict[int, float]] = []
    for state, of_row in zip(states, values):
        assert isinstance(state, BarState)
        count = {} if "density" in of_row else state.counts(WITHIN)
        least.append({part: LEAST * n for part, n in count.items() if n >= FEWEST_NOTES})
    return [Presence(tokenizer, least)] if any(least) else []
