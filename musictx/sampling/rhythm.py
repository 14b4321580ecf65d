"""Parts of music in bars keep their rhythm as long as songs do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from musictx.config import SamplingConfig
from musictx.sampling.constraints import by_row
from musictx.tokens.bar_grammar import ONSET_BARS
from musictx.tokens.bar_tokens import BarTokenizer
from musictx.tokens.stream import DRUM_PART
from musictx.tokens.vocab import SoftConstraint, Tokenizer

#: Nats of an onset of a part where none of its last bars had one, and of leaving one out where all
#: of them had one (scripts/LOG.md).
NEW_ONSET, LEFT_OUT = 0.5, 0.25


class _Usual(NamedTuple):
    """What is usual in the bar that begins at the line numbered ``line`` of ``state``.

    places  of each part that has played in each of the last bars: where it struck in any of them
    every   (part, place) where such a part struck in all of them
    """

    state: Any
    line: int
    places: dict[int, set[int]]
    every: set[tuple[int, int]]


@dataclass(frozen=True)
class BarRhythm:
    """What parts do that have played in each of the last bars, :data:`ONSET_BARS` but the present
    one, all as long as this one: a note costs :data:`NEW_ONSET` where its part struck in none of
    them, and so does a place where no such part did, but at the beginning and the middle of the
    bar, where chords stand; what passes over a place costs :data:`LEFT_OUT` for each part that
    struck there in all of them."""

    tokenizer: BarTokenizer
    _found: dict[int, _Usual] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __call__(self, states: Sequence[Any], past: np.ndarray) -> np.ndarray | None:
        return by_row([self._row(row, state) for row, state in enumerate(states)])

    def _row(self, row: int, state: Any) -> np.ndarray | None:
        place, part = state.at
        if state.written > 1 or place < 0 or len(state.onsets()) < ONSET_BARS:
            return None
        usual = self._found.get(row)
        if usual is None or usual.state is not state or usual.line != state.lines:
            usual = self._found[row] = _usual(state)
        if not usual.places:
            return None
        steps, here = state.onsets()[-1]
        known = {0, steps // 2}.union(*usual.places.values())
        table = self.tokenizer.vocabulary
        costs = np.zeros(self.tokenizer.size)
        if state.written:
            for one, places in usual.places.items() if place in known else ():
                token = table.id("drums") if one == DRUM_PART else table.id("program", one)
                costs[token] = NEW_ONSET * (place not in places)
            return costs
        first, end = table.range("place")
        passed = np.zeros(end - first + 1)
        for one, at in usual.every - here:
            if (at, one) > (place, part):
                passed[at + 1] += LEFT_OUT
        passed = np.cumsum(passed)
        costs[first:end] = passed[:-1] + NEW_ONSET
        for at in known | {place}:
            costs[first + at] -= NEW_ONSET
        costs[table.id("bar")] = passed[-1]
        return costs


def _usual(state: Any) -> _Usual:
    *before, (steps, _) = state.onsets()
    bars = [onsets for length, onsets in before if length == steps]
    places: dict[int, set[int]] = {}
    every: set[tuple[int, int]] = set()
    if len(bars) == len(before):
        for part in set.intersection(*({part for part, _ in onsets} for onsets in bars)):
            places[part] = {at for onsets in bars for one, at in onsets if one == part}
        every = {one for one in set.intersection(*bars) if one[0] in places}
    return _Usual(state, state.lines, places, every)


def of(tokenizer: Tokenizer, sampling: SamplingConfig) -> list[SoftConstraint]:
    """That of music in bars; none for other tokens and where ``sampling`` leaves habits out."""
    if not isinstance(tokenizer, BarTokenizer) or not sampling.habits:
        return []
    return [BarRhythm(tokenizer)]
