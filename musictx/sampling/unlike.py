"""A pull away from earlier bars: a new section is to be another one than those before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from musictx.tokens.bar_ids import REPEATS
from musictx.tokens.bars import PER_SECOND
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS, NoteStream
from musictx.tokens.vocab import Vocabulary

#: Nats for the chord that an earlier section has at a place, and for a note of a pitch class that
#: begins there in one, to the sixteenth. The chord comes first, so it is what changes most.
#: For a bar line that says a bar of one again.
ROOT, TONE, RETURN = 3.0, 1.5, 8.0
#: Steps in a sixteenth.
SIXTEENTH = STEPS // 4


class Unlike:
    """Costs of what the bars of earlier sections have at the same place.

    table   the vocabulary, of notes in groups
    stream  the piece so far
    begins  the first bar of each earlier section of ``bars`` bars
    here    that of the new one, not counting a bar before them of ``pickup`` steps, 0 for none
    steps   of a bar: all others are equally long
    drums   whether strokes of drums are to be others too
    lines   how many bar lines stand before that of the bar ``here``
    """

    def __init__(
        self,
        table: Vocabulary,
        stream: NoteStream,
        begins: Sequence[int],
        bars: int,
        here: int,
        *,
        pickup: int = 0,
        steps: int,
        drums: bool,
        lines: int,
    ) -> None:
        self.lines, self.sections = lines, range(*table.range("section"))
        self.table, self.pickup, self.steps = table, pickup, steps
        parts = ["program", "drums"] if drums else ["program"]
        self.counted = {table.kinds.index(kind) for kind in parts}
        #: (bars, sixteenths, 12): pitch classes; (bars, steps): the root in force, -1 for none.
        self.tones = np.zeros((bars, -(-steps // SIXTEENTH), 12), bool)
        self.roots = np.full((len(begins), bars * steps), -1)
        self.here = here
        for number, begin in enumerate(begins):
            first = int(stream.lines[max(begin, 0)]) + min(begin, 0) * steps
            since = stream.notes["start"] - first
            inside = (since >= 0) & (since < bars * steps)
            mine, since = stream.notes[inside], since[inside]
            note = (mine["part"] != CHORD) & ((mine["part"] != DRUM_PART) | drums)
            bar, place = np.divmod(since[note], steps)
            self.tones[bar, place // SIXTEENTH, mine["pitch"][note] % 12] = True
            for at, one in zip(since, mine):
                if one["part"] == CHORD:
                    self.roots[number, at:] = one["pitch"]

    def __call__(self, states: Sequence[Any], past: np.ndarray) -> np.ndarray:
        found = np.zeros((len(states), self.table.size))
        for row, state, ids in zip(found, states, past):
            if state.said() is not None:
                own = REPEATS + max(state.lines - self.lines, 0)  # from here on: of another section
                row[self.sections[own:]] = RETURN
            place, part = (self.table.token(int(one)) for one in ids[-2:])
            if place[0] == "place" and part[0] in ("program", "drums", "harmony"):
                since = round(state.seconds * PER_SECOND) - self.pickup
                bar = since // self.steps - self.here
                if 0 <= bar < len(self.tones):
                    self._charge(row, bar, place[1], part[0])
        return found

    def _charge(self, row: np.ndarray, bar: int, place: int, part: str) -> None:
        kind = {"program": "pitch", "drums": "drum", "harmony": "root"}[part]
        ids = slice(*self.table.range(kind))
        values = np.asarray(self.table.value_of[ids])
        if part == "harmony":
            row[ids] = ROOT * np.isin(values, self.roots[:, bar * self.steps + place])
        elif self.table.kinds.index(part) in self.counted:
            at = min(place, self.steps - 1) // SIXTEENTH
            row[ids] = TONE * self.tones[bar, at][values % 12]
