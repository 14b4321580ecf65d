"""What single ids cost in music of strikes and releases where its character was asked for; see
:mod:`.soft`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import GrammarState, SoftConstraint, Tokenizer

#: Nats for each ten of MIDI velocity that the music is too loud and ten that a note is; for each
#: octave that it is too high and octave that a note is; for each octave (twice as many notes at
#: once) that it is too full (scripts/LOG.md).
LOUDNESS_PULL, REGISTER_PULL, POLYPHONY_PULL = 0.5, 1.5, 5.0
#: Ids that are looked back at.
REACH = 1024


class EventFeedback:
    """What was asked of each row is fed back: ``loudness``, ``register`` and ``polyphony``, in the
    units of the controls. The first two are measured over all notes, known ones too, that began in
    the last :data:`WINDOW_SECONDS` seconds; what is not asked is left alone.

    loudness   the louder a note, the more it costs where the music is too loud, be the velocity
               said before it or still in force
    register   the higher a note, the more it costs where the music is too high
    polyphony  a release gains where too many notes sound and costs where too few do; a strike
               costs where too many do
    """

    def __init__(
        self, tokenizer: PerformanceTokenizer, values: Sequence[Mapping[str, float]]
    ) -> None:
        self.values, self.events, self._size = values, tokenizer.note_events, tokenizer.size
        self._loud = np.zeros(tokenizer.size)
        low, high = tokenizer.vocabulary.range("velocity")
        self._loud[low:high] = tokenizer.velocities.of_bin[1:]
        self._leads = self._loud > 0

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        costs, strike = np.zeros((len(states), self._size)), self.events.strike
        for row, state, ids, values in zip(costs, states, past, self.values):
            since = state.seconds - WINDOW_SECONDS - 1e-6
            recent = [pitch for seconds, pitch in state.sounding.recent() if seconds > since]
            if target := values.get("polyphony"):
                excess = POLYPHONY_PULL * np.log2(max(len(state.sounding), 0.5) / target)
                row[self.events.release >= 0] -= excess
            if (target := values.get("register")) and recent:
                excess = REGISTER_PULL * (np.mean(recent) - target) / 12
                row[strike >= 0] += excess * (strike[strike >= 0] - target) / 12
            if target := values.get("loudness"):
                force, heard = self._loudness(ids[-REACH:], len(recent))
                if len(heard):
                    excess = LOUDNESS_PULL * (heard.mean() - target) / 10
                    row[self._leads] += excess * (self._loud[self._leads] - target) / 10
                    row[strike >= 0] += excess * (force - target) / 10
        return costs

    def _loudness(self, ids: np.ndarray, count: int) -> tuple[float, np.ndarray]:
        """The velocity in force after ``ids``, and those of the last ``count`` strikes, as far as
        ``ids`` tell them."""
        loud = self._loud[ids]
        force = loud[np.maximum.accumulate(np.where(loud > 0, np.arange(len(ids)), 0))]
        struck = force[(self.events.strike[ids] >= 0) & (force > 0)]
        return float(force[-1]), struck[max(len(struck) - count, 0) :]


def of(tokenizer: Tokenizer, values: Sequence[Mapping[str, float]]) -> list[SoftConstraint]:
    """That constraint for rows of which something is asked; none for other tokens."""
    if not isinstance(tokenizer, PerformanceTokenizer) or not any(values):
        return []
    return [EventFeedback(tokenizer, values)]
