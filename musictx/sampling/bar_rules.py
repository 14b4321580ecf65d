"""What a piece in bars is held to while notes are composed around known ones."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from musictx.card import WINDOW_SECONDS, Habit
from musictx.chords import Chord
from musictx.tokens.bars import PER_SECOND, STEP_SECONDS
from musictx.tokens.repeats import likeness, stretches
from musictx.tokens.stream import CHORD, DRUM_PART, NoteStream
from musictx.tokens.vocab import Vocabulary

#: A group of ids, and what orders it: (place, part, tone).
Key = tuple[int, int, int]

#: Bars say bars again that stand so many before them at least, where they belong to so many in a
#: row whose known notes are alike by more than this share.
NEAREST, TOGETHER, SHARE = 4, 4, 0.6


def part_of(table: Vocabulary, ids: Sequence[int]) -> int:
    """The part of a group."""
    kind, value = table.token(ids[1])
    return {"harmony": CHORD, "drums": DRUM_PART}.get(kind, value)


def key_of(table: Vocabulary, ids: Sequence[int]) -> Key:
    """What orders a group."""
    return int(table.value_of[ids[0]]), part_of(table, ids), int(table.value_of[ids[2]])


def returns(known: NoteStream) -> dict[int, int]:
    """Of bars whose ``known`` notes repeat earlier ones: the number of the bar, and of the earlier
    one, the nearest of those that are most alike."""
    notes = known.only(known.notes[known.notes["part"] != CHORD])
    best, found = np.full(len(known.bars), SHARE), np.full(len(known.bars), -1)
    for back in range(NEAREST, len(known.bars) - TOGETHER + 1):
        for first, share in enumerate(stretches(likeness(notes, back), TOGETHER), back):
            mine = slice(first, first + TOGETHER)
            better = best[mine] < share
            best[mine][better] = share
            found[mine][better] = np.arange(first, first + TOGETHER)[better] - back
    return {bar: one for bar, one in enumerate(found.tolist()) if one >= 0}


@dataclass(frozen=True)
class BarRules:
    """What is the same for all rows.

    table   the vocabulary
    lines   (B + 1,) steps of the bar lines, and where the last bar ends
    opening (B, 5) the groups of the bar lines; below 0 where the model draws
    known   of each bar its known groups in order: (key, ids)
    ahead   bar -> the ids of the groups ahead that stand before its line
    begin, end   steps between which new notes begin
    parts   of new groups: programs, :data:`DRUM_PART`, :data:`CHORD`
    returns bar -> the earlier one that its known notes say again
    habits  part -> how many of its notes sound at once, and of new ones between which pitches they
            lie, how many there are in a second, at least and in few, and how long they last
    pitches (128,) bool: those that new notes may have
    varies  whether that is what it varies
    avoided (bar, key) of new groups that cost ``nats`` each
    fits    whether new notes pay for what they do beside given ones (:mod:`.harmonic_fit`)
    """

    table: Vocabulary
    lines: np.ndarray
    opening: np.ndarray
    known: Sequence[Sequence[tuple[Key, list[int]]]]
    ahead: dict[int, list[int]]
    begin: int
    end: int
    parts: Collection[int]
    returns: Mapping[int, int] = field(default_factory=dict)
    habits: Mapping[int, Habit] = field(default_factory=dict)
    fits: bool = False
    varies: bool = False
    pitches: np.ndarray = field(default_factory=lambda: np.ones(128, bool))
    avoided: Collection[tuple[int, Key]] = frozenset()
    nats: float = 0.0

    def __post_init__(self) -> None:
        sounding, chords = defaultdict(list), []
        lengths = self.table.range("length")[0]
        for bar, groups in enumerate(self.known):
            for (place, part, tone), ids in groups:
                start = int(self.lines[bar]) + place
                if part == CHORD:
                    chords.append((start, Chord(tone, int(self.table.value_of[ids[3]]))))
                elif part != DRUM_PART:
                    sounding[part, tone].append((start, start + 1 + ids[3] - lengths))
        object.__setattr__(self, "sounding", dict(sounding))
        object.__setattr__(self, "chords", chords)
        window = round(WINDOW_SECONDS * PER_SECOND)
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "ids", {k: slice(*self.table.range(k)) for k in self.table.kinds})

    ids: dict[str, slice] = None  # type: ignore[assignment]
    sounding: dict[tuple[int, int], list[tuple[int, int]]] = None  # type: ignore[assignment]
    chords: list[tuple[int, Chord]] = None  # type: ignore[assignment]
    window: int = None  # type: ignore[assignment]

    def free(self, part: int, tone: int, step: int) -> bool:
        """Whether no known note of this pitch sounds at ``step``."""
        return all(not a <= step < b for a, b in self.sounding.get((part, tone), ()))

    def room(self, part: int, tone: int, step: int) -> int | None:
        """Steps until the next known note of this pitch begins, or of a part of one note at a time
        any; None: there is none."""
        line = part in self.habits and self.habits[part].voices == 1
        same = [k for k in self.sounding if k[0] == part] if line else [(part, tone)]
        later = [a - step for k in same for a, _ in self.sounding.get(k, ()) if a > step]
        return min(later, default=None)

    def longest(self, part: int) -> int | None:
        """Steps that a new note of the part lasts at most; None: any number."""
        seconds = self.habits[part].longest if part in self.habits else np.inf
        return None if np.isinf(seconds) else max(round(seconds / STEP_SECONDS), 1)

    def full(self, part: int, step: int, own: int, begun: Sequence[int]) -> bool:
        """Whether with ``own`` new notes as many of the part sound at ``step`` as may at once, or
        as many new ones have ``begun``, at these steps in order, as may in a few seconds."""
        if part not in self.habits:
            return False
        habit = self.habits[part]
        recent = len(begun) - bisect_right(begun, step - self.window)
        if recent >= habit.densest or part == DRUM_PART:
            return recent >= habit.densest
        known = sum(not self.free(of, tone, step) for of, tone in self.sounding if of == part)
        return own + known >= habit.voices
