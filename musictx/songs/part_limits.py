"""Which new notes parts may have, in continued and new music and around given notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.sampling.infill import NewNotes
from musictx.songs.bar_codec import part_id
from musictx.songs.bar_grammar import BarState, Group
from musictx.songs.bars import PER_SECOND, STEP_SECONDS
from musictx.tokens.stream import CHORD, DRUM_PART

#: Steps of the sliding window in which the onsets of a part are counted.
WINDOW = round(WINDOW_SECONDS * PER_SECOND)


@dataclass(frozen=True)
class PartLimits(NewNotes):
    """The limits on new notes in bars, applied to the next id of a state.

    The notes of a part are all that the state has of it, whoever wrote them. In all methods
    ``given`` are the given groups of the current bar that are still to be written, in order. A
    place is allowed only if a part is allowed there, and a part only if a tone is.
    """

    def restrict(self, mask: np.ndarray, state: BarState, given: Sequence[Group] = ()) -> None:
        """Restrict ``mask``, the ids that the grammar allows, to groups of new notes before the
        first of ``given``. Bar lines and ``eos`` are not restricted."""
        ids, field = self.ids, len(state.group)
        if field == 0:
            places = mask[ids["place"]]
            places[places] = [
                any(self._tones_at(state, place, part, given).any() for part in self.parts or ())
                for place in np.flatnonzero(places).tolist()
            ]
        elif state.in_line:
            return
        elif field == 1:
            mask[:] = False
            mask[[part_id(self.table, p) for p in self.parts_at(state, state.place, given)]] = True
        elif field == 2:
            kind = self.kind(state.part)
            tones = self._tones_at(state, state.place, state.part, given)
            mask[ids[kind]] &= tones[self.values(kind)]
        elif field == 3 and state.part in self.habits:
            longest = np.round(self.habits[state.part].longest / STEP_SECONDS)
            mask[ids["length"]] &= self.values("length") <= max(longest, 1)

    def penalty(self, row: Any, past: np.ndarray) -> np.ndarray | None:
        """The penalty on the next id of a row (:data:`.RowPenalty`) that forbids what
        :meth:`restrict` excludes."""
        if row.done:
            return None
        mask = row.state.allowed().copy()
        self.restrict(mask, row.state)
        return np.where(mask, 0.0, np.inf)

    def parts_at(self, state: BarState, place: int, given: Sequence[Group] = ()) -> list[int]:
        """The parts that may have a new group at ``place``, after the last group."""
        parts = self.parts or ()
        return [part for part in parts if self._tones_at(state, place, part, given).any()]

    def _tones_at(
        self, state: BarState, place: int, part: int, given: Sequence[Group]
    ) -> np.ndarray:
        """(128,) bool: the tones that a new group of ``part`` may have at ``place``."""
        step, here, end = state.bars[-1].begin + place, (place, part), self.end or np.inf
        last, following = state.last, given[0].key if given else (len(self.values("place")), 0, 0)
        in_order = last[:2] <= here <= following[:2] and (part != CHORD or last[:2] < here)
        if not (in_order and self.begin <= step < end) or self.is_full(state, part, step, given):
            return np.zeros(128, bool)
        tones = self.tones(part).copy()
        if last[:2] == here:
            tones[: last[2] + 1] = False
        if following[:2] == here:
            tones[following[2] :] = False
        tones[[*_sounding(state, part, step, given)]] = False
        return tones

    def is_full(self, state: BarState, part: int, step: int, given: Sequence[Group] = ()) -> bool:
        """Whether ``part`` may begin no further note at ``step``, since it has reached the limit of
        its habit on simultaneous notes or on onsets."""
        if part not in self.habits:
            return False
        habit, at_once = self.habits[part], len(_sounding(state, part, step, given))
        return at_once >= habit.voices or state.begun(part, step - WINDOW + 1) >= habit.densest


def _sounding(state: BarState, part: int, step: int, given: Sequence[Group]) -> set[int]:
    """The pitches of ``part`` that sound at ``step``. The given notes that begin there sound,
    too."""
    if part in (CHORD, DRUM_PART):
        return set()
    place = step - state.bars[-1].begin
    begin = {group.tone for group in given if group.part == part and group.place <= place}
    return begin | {pitch for _, pitch in state.sounding_at(part, step)}
