"""A pull back to what music has said before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from musictx.config import SamplingConfig
from musictx.tokens.group_ids import RETURNS
from musictx.tokens.groups import GroupTokenizer
from musictx.tokens.vocab import GrammarState, NoteEvents, SoftConstraint, Tokenizer

#: A section returns from so many bars ago or earlier; what gains and what costs, nats
#: (scripts/LOG.md).
NEAREST_BARS, RETURN_PULL, STAY_PULL, NEAR_BARS, NEAR_COST = 7, 0.7, 1.2, 2, 0.5
#: In music of strikes: so many of the last strikes agree with those before another one that was
#: struck so many seconds ago or earlier, and it gains so many nats for each (scripts/LOG.md). So
#: many ids are looked back at.
LAST_STRIKES, AGREE, RETURN_SECONDS, STRIKE_PULL, REACH = 8, 3, 8.0, 0.9, 4096


@dataclass(frozen=True)
class BarReturns:
    """Makes it likelier that a bar says an earlier one again (:mod:`musictx.tokens.returns`), by
    :data:`RETURN_PULL` nats where that lies :data:`NEAREST_BARS` bars ago or earlier, and by
    :data:`STAY_PULL` more where it is as far away as the one that the bar before said again; and
    dearer by :data:`NEAR_COST` where it is one of the last :data:`NEAR_BARS`. Real songs say whole
    sections again; a model leaves them a little too soon at every bar, and lingers."""

    sections: range
    size: int

    @classmethod
    def of(cls, tokenizer: GroupTokenizer) -> BarReturns:
        return cls(range(*tokenizer.vocabulary.range("section")), tokenizer.size)

    def __call__(self, states: Sequence[Any], past: np.ndarray) -> np.ndarray:
        costs = np.zeros((len(states), self.size))
        far = RETURNS - 1 + NEAREST_BARS
        for row, state in zip(costs, states):
            if (said := state.said()) is None:
                continue
            row[self.sections[RETURNS] : self.sections[RETURNS + NEAR_BARS]] = NEAR_COST
            row[self.sections[far] : self.sections.stop] = -RETURN_PULL
            if said >= far:
                row[self.sections[said]] -= STAY_PULL
        return costs


@dataclass(frozen=True)
class StrikeReturns:
    """Makes likelier the pitch that followed the last time that pitches like the last ones were
    struck: of all strikes :data:`RETURN_SECONDS` ago or earlier that before which most of the last
    :data:`LAST_STRIKES` pitches agree, the latest if several do, where :data:`AGREE` of them do."""

    events: NoteEvents

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        costs, past = np.zeros((len(states), len(self.events.strike))), past[:, -REACH:]
        pitches = self.events.strike[past]
        seconds = np.cumsum(self.events.wait[past], axis=1) * (self.events.longest_wait or 0.0)
        for row, pitch, at in zip(costs, pitches, seconds):
            struck = np.flatnonzero(pitch >= 0)
            pitch, at = pitch[struck], at[struck]
            stop = int(np.searchsorted(at, at[-1] - RETURN_SECONDS, "right")) if len(at) else 0
            if stop <= LAST_STRIKES:
                continue
            agree = np.zeros(stop - LAST_STRIKES, int)
            for nth, last in enumerate(pitch[-LAST_STRIKES:].tolist()):
                agree += pitch[nth : nth + len(agree)] == last
            best = len(agree) - 1 - int(agree[::-1].argmax())
            if agree[best] >= AGREE:
                row[self.events.strike == pitch[best + LAST_STRIKES]] = -STRIKE_PULL * agree[best]
        return costs


def of(tokenizer: Tokenizer, sampling: SamplingConfig) -> list[SoftConstraint]:
    """The pull of these tokens; none for those whose time depends on the tempo or that are
    neither, and where ``sampling`` leaves habits out."""
    if isinstance(tokenizer, GroupTokenizer) and sampling.habits:
        return [BarReturns.of(tokenizer)]
    events = tokenizer.note_events
    if events is not None and events.longest_wait and sampling.habits:
        return [StrikeReturns(events)]
    return []
