"""What makes ids likelier or rarer in music in bars, as functions of its state.

A bias yields ids and the nats that are added to their logits: of the state of a piece
(:mod:`.bar_copying`, :mod:`.bar_feedback`), or around given notes of the constraint on a row
(:mod:`.infill_biases`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from musictx.sampling.constraints import RowPenalty
from musictx.songs.bar_grammar import BarState
from musictx.tokens.vocab import Vocabulary

#: Ids and the nats that are added to their logits.
Nats = Iterator[tuple[slice | int, np.ndarray | float]]
#: A bias of music in bars.
Bias = Callable[[BarState], Nats]


def penalty_of(table: Vocabulary, *biases: Bias) -> RowPenalty:
    """The penalty of one row that takes off the sum of its ``biases``."""
    return lambda state, past: taken_off(table, (bias(state) for bias in biases))  # type: ignore


def taken_off(table: Vocabulary, gains: Iterable[Nats]) -> np.ndarray | None:
    """(V,) the sum of all ``gains``, as nats that are taken off; ``None`` if there are none."""
    nats = None
    for some in gains:
        for ids, gain in some:
            nats = np.zeros(table.size) if nats is None else nats
            nats[ids] -= gain
    return nats
