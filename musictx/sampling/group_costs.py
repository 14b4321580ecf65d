"""What single ids cost in music in bars (:mod:`musictx.tokens.groups`); see :mod:`.soft`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from musictx.beats import BPM
from musictx.sampling.soft import ASKED_PULL, WINDOW_SECONDS
from musictx.tokens.bars import STEPS
from musictx.tokens.groups import GroupTokenizer
from musictx.tokens.velocities import Velocities
from musictx.tokens.vocab import SoftConstraint, Tokenizer

#: Nats for each note at once too many or too few and octave of a note's length; for each ten of
#: MIDI velocity that the music is too loud or too soft, and ten of a note's (scripts/LOG.md).
LENGTH_PULL, LOUDNESS_PULL = 0.5, 0.5


@dataclass(frozen=True)
class Once:
    """A note that was just written does not begin there a second time."""

    tokenizer: GroupTokenizer

    def __call__(self, states: Sequence[Any], past: np.ndarray) -> np.ndarray:
        costs, table = np.zeros((len(states), self.tokenizer.size)), self.tokenizer.vocabulary
        for row, state in zip(costs, states):
            if (last := state.again()) is not None:
                row[table.id(*last)] = np.inf
        return costs


class GroupFeedback:
    """What was asked of each row is fed back: ``density``, ``polyphony`` and ``loudness``, in the
    units of the controls. They are measured over all notes, known ones too, that began in the last
    :data:`WINDOW_SECONDS` seconds of the tokens; what is not asked is left alone.

    density    a new note costs :data:`ASKED_PULL` nats for each note a second too many, and less
               the later it begins; a bar line gains as much for the time until then. The first
               place of an empty bar, where its chord stands, costs nothing
    polyphony  the longer a note, the more it costs where too many sound
    loudness   the louder a note, the more it costs where the music is too loud
    """

    def __init__(self, tokenizer: GroupTokenizer, values: Sequence[Mapping[str, float]]) -> None:
        self.values, table = values, tokenizer.vocabulary
        self._size, self._chords, self._line = tokenizer.size, tokenizer.chords, table.id("bar")
        names = ("place", "program", "length", "velocity")
        self._ids = {name: slice(*table.range(name)) for name in names}
        self._drums = table.id("drums")
        count = self._ids["length"].stop - self._ids["length"].start
        self._octaves = np.log2(np.arange(1, count + 1) / STEPS)
        self._loudness = Velocities(tokenizer.velocity_bins).of_bin[1:]

    def __call__(self, states: Sequence[Any], past: np.ndarray) -> np.ndarray:
        costs, ids = np.zeros((len(states), self._size)), self._ids
        for row, state, values in zip(costs, states, self.values):
            span = min(max(state.seconds, 1.0), WINDOW_SECONDS)
            if state.written < 2 and (target := values.get("density")):
                excess = ASKED_PULL * (len(state.recent(span)) / span - target)
                if state.written == 1:
                    row[ids["program"]] = row[self._drums] = excess
                    continue
                waits = state.until(np.arange(ids["place"].stop - ids["place"].start))
                row[ids["place"]] = excess * (1.0 - np.clip(waits, 0.0, 1.0))
                row[ids["place"].start] *= not (self._chords and state.empty)
                row[self._line] = -excess * min(float(state.until()), 1.0)
            elif state.written == 3 and (target := values.get("polyphony")):
                steps = sum(length for _, length, _ in state.recent(span))
                excess = steps * 60.0 / (STEPS * BPM) / span - target
                row[ids["length"]] = LENGTH_PULL * excess * self._octaves
            elif state.written == 4 and (target := values.get("loudness")):
                bins = [bin for _, _, bin in state.recent(span)]
                if bins:
                    excess = (self._loudness[np.array(bins) - 1].mean() - target) / 10
                    above = (self._loudness - target) / 10
                    row[ids["velocity"]] = LOUDNESS_PULL * excess * above
        return costs


def of(tokenizer: Tokenizer, values: Sequence[Mapping[str, float]]) -> list[SoftConstraint]:
    """Both, for rows of which that is asked; none for tokens that are not in groups."""
    if not isinstance(tokenizer, GroupTokenizer):
        return []
    return [Once(tokenizer), *([GroupFeedback(tokenizer, values)] if any(values) else [])]
