"""Which new notes parts may have, in continued and new music and around given notes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from musictx.data.statistics import WINDOW_SECONDS
from musictx.notes import DRUMS
from musictx.sampling.infill import NewNotes
from musictx.songs.bar_codec import part_id
from musictx.songs.bar_grammar import BarState, Group
from musictx.songs.bars import PER_SECOND, STEP_SECONDS
from musictx.tokens.stream import CHORD

#: Steps of the sliding window in which the onsets of a part are counted.
WINDOW = round(WINDOW_SECONDS * PER_SECOND)


@dataclass
class PartLimits:
    """The limits ``new`` on the notes that may follow in ``state``.

    A place is allowed only if a part is allowed there, and a part only if a tone is. All notes of a
    part in the state count, new and given.

    remaining  the given groups of this bar that are still to be written, in order; ``None`` where
               music is continued. There a pitch may be struck while it sounds, as tracks of one
               program do in songs
    """

    new: NewNotes
    state: BarState
    remaining: list[Group] | None = None

    def restrict(self, mask: np.ndarray) -> None:
        """Restrict ``mask``, the ids that the grammar allows, to groups of new notes before the
        remaining ones. Bar lines and ``eos`` are not restricted."""
        new, state, field = self.new, self.state, len(self.state.group)
        if field == 0:
            places, parts = mask[new.ids["place"]], new.parts or ()
            places[places] = [
                any(self._tones_at(place, part).any() for part in parts)
                for place in np.flatnonzero(places).tolist()
            ]
        elif state.in_line:
            return
        elif field == 1:
            mask[:] = False
            mask[[part_id(new.table, part) for part in self.parts_at(state.place)]] = True
        elif field == 2:
            kind = new.kind(state.part)
            mask[new.ids[kind]] &= self._tones_at(state.place, state.part)[new.values(kind)]
        elif field == 3 and state.part in new.habits:
            longest = np.round(new.habits[state.part].longest / STEP_SECONDS)
            mask[new.ids["length"]] &= new.values("length") <= max(longest, 1)

    def parts_at(self, place: int) -> list[int]:
        """The parts that may have a new group at ``place``, after the last group."""
        return [part for part in self.new.parts or () if self._tones_at(place, part).any()]

    def _tones_at(self, place: int, part: int) -> np.ndarray:
        """(128,) bool: the tones that a new group of ``part`` may have at ``place``."""
        new, last, here = self.new, self.state.last, (place, part)
        step, end = self.state.bars[-1].begin + place, new.end or np.inf
        following = self.remaining[0].key if self.remaining else (len(new.values("place")), 0, 0)
        in_order = last[:2] <= here <= following[:2] and (part != CHORD or last[:2] < here)
        if not (in_order and new.begin <= step < end) or self.is_full(part, step):
            return np.zeros(128, bool)
        tones = new.tones(part).copy()
        if last[:2] == here:
            tones[: last[2] + 1] = False
        if following[:2] == here:
            tones[following[2] :] = False
        if self.remaining is not None:
            tones[[*self._sounding(part, step)]] = False
        return tones

    def is_full(self, part: int, step: int) -> bool:
        """Whether ``part`` may begin no further note at ``step``, since it has reached the limit of
        its habit on simultaneous notes or on onsets."""
        if part not in self.new.habits:
            return False
        habit, recent = self.new.habits[part], self.state.begun(part, step - WINDOW + 1)
        return len(self._sounding(part, step)) >= habit.voices or recent >= habit.densest

    def _sounding(self, part: int, step: int) -> set[int]:
        """The pitches of ``part`` that sound at ``step``. The given notes that begin there sound,
        too."""
        if part in (CHORD, DRUMS):
            return set()
        place, given = step - self.state.bars[-1].begin, self.remaining or ()
        begin = {group.tone for group in given if group.part == part and group.place <= place}
        return begin | {pitch for _, pitch in self.state.sounding_at(part, step)}
