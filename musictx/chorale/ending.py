"""Where a chorale may end, and how soon it is pulled to an end.

A model of chorales knows how a piece ends but not how long this one has lasted, and of a small
probability at each of many steps nothing is left when only the likeliest ids are drawn: its free
pieces last too long, and some end on no chord. So ``eos`` may be drawn only where a piece closes,
and the longer it has lasted, the sooner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.chorale import voice_leading
from musictx.chorale.grid import STEP_SECONDS, VOICES
from musictx.chorale.ids import Ids
from musictx.tokens.vocab import EOS, GrammarState

#: Bars that 19 of 20 training pieces of the JSB corpus have, and nats for each further or missing
#: one: free pieces are then about as long as they are (scripts/LOG.md).
USUAL, PULL = 8.0, 0.25
BASS = len(VOICES) - 1


class Closing:
    """A soft constraint (:data:`musictx.tokens.vocab.SoftConstraint`): an end costs an infinity
    where the piece does not close, and less and less the longer it has lasted."""

    def __init__(self, tokenizer: Ids) -> None:
        self.tokenizer = tokenizer

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        """past (B, 1 + n): ``bos`` or ``cut`` first -> nats (B, V)."""
        costs = np.zeros((len(past), self.tokenizer.size))
        step, voice = divmod(past.shape[1] - 1, len(VOICES))
        if voice or not step:  # eos stands after whole steps only
            return costs
        table = self.tokenizer.pitches(past[:, 1:])
        never = is_open(table[:, -1:], table[:, :-1])[:, 0]
        bars = np.array([state.seconds for state in states]) / STEP_SECONDS
        bars /= voice_leading.STEPS_PER_BAR
        costs[:, EOS] = np.where(never, np.inf, -PULL * (bars - USUAL))
        return costs


def is_open(chords: np.ndarray, written: np.ndarray) -> np.ndarray:
    """(B, K) bool: whether a piece does not close (:func:`voice_leading.closes`) that ends on
    chords (B, K, 4) after written (B, T, 4)."""
    last = np.array([voice_leading.came_from(piece[:, BASS]) for piece in written])
    goal = chords[:, :, BASS] % 12
    came = np.where(goal == last[:, :1], last[:, 1:], last[:, :1])
    closed = voice_leading.closing(chords.reshape(-1, len(VOICES)), came.reshape(-1))
    return ~closed.reshape(goal.shape)
