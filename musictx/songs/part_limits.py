"""How many notes a part may have at once and within a few seconds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from musictx.card import WINDOW_SECONDS, Habit
from musictx.songs.bars import PER_SECOND

#: Steps of the sliding window in which the onsets of a part are counted.
WINDOW = round(WINDOW_SECONDS * PER_SECOND)


class PartLimits:
    """The limits of ``habits`` (part -> habit) on simultaneous notes and on onsets.

    begun  part -> the onset steps of its new notes, in order
    """

    def __init__(self, habits: Mapping[int, Habit]) -> None:
        self.habits = habits
        self.begun: defaultdict[int, list[int]] = defaultdict(list)

    def opens(self, part: int, ends: Collection[int]) -> float:
        """Return the first step at which ``part`` may begin another note, if its sounding notes end
        at the steps ``ends``; ``-inf`` if neither limit is reached."""
        habit = self.habits.get(part)
        if habit is None:
            return -math.inf
        onset = _from_last(self.begun[part], habit.densest)
        return max(_from_last(sorted(ends), habit.voices), onset + WINDOW)

    def copy(self) -> PartLimits:
        other = PartLimits(self.habits)
        other.begun.update({part: list(steps) for part, steps in self.begun.items()})
        return other


def _from_last(steps: Sequence[int], count: float) -> float:
    """The ``count``-th of ``steps`` from the end: from this step on, fewer than ``count`` of them
    are later. ``-inf`` if there are fewer steps, ``inf`` if none is allowed."""
    if count <= 0:
        return math.inf
    return steps[-math.ceil(count)] if count <= len(steps) else -math.inf
