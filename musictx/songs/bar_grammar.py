"""The grammar of notes in bars: which ids may follow the ids so far.

The groups are described in :mod:`musictx.songs.bar_tokens`. The rules are:

- A piece begins with a bar line. ``eos`` may follow any complete group once there is a note.
- Groups are in the order of bar, place, part and pitch. A chord precedes the notes at its place.
- A bar line names an earlier bar of the piece that its bar repeats, or none. After ``cut`` any
  distance is allowed, since the piece has bars before the cut.
- A place is within its bar and on one of the grids of ``songs/bars.py``.
- ``tie`` may follow only at the end of a note of the same program and pitch that has the greatest
  length. This place may be off the grid.
- Groups of controls and groups ahead (``songs/bar_codec.py``) are never allowed. In a prefix they
  are skipped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from musictx.chords import NONE, Chord
from musictx.notes import DRUMS
from musictx.songs import bar_codec
from musictx.songs.bar_codec import FIELDS_PER_NOTE, FIRST_REPEAT, PART, PLACE, TONE, part_of
from musictx.songs.bars import LONGEST_BAR, ON_GRID, STEP_SECONDS, STEPS_PER_SECOND
from musictx.songs.repeats import FARTHEST_BARS
from musictx.tokens.controls import KNOWN
from musictx.tokens.grammar import NoteChange
from musictx.tokens.stream import CHORD, Velocities, bar_steps
from musictx.tokens.tokenizer import GrammarState
from musictx.tokens.vocab import Vocabulary

#: Place, part and tone of a group: the sort key of the groups in a bar.
GroupKey = tuple[int, int, int]
#: Keys less and greater than that of any group.
FIRST_KEY: GroupKey = (0, -2, -1)
END_KEY: GroupKey = (LONGEST_BAR, 0, 0)


class Group(NamedTuple):
    """A note, a drum stroke or a chord, with its place in its bar and its five ids. ``tone`` is the
    ``pitch`` of :data:`musictx.tokens.stream.STREAM_NOTE`; the other fields are the same."""

    place: int
    part: int
    tone: int
    length: int
    velocity_bin: int
    ids: list[int]

    @classmethod
    def of(cls, table: Vocabulary, ids: list[int]) -> Group:
        """Decode five ``ids``."""
        place, _, tone, length, velocity_bin = (table.tokens[token_id][1] for token_id in ids)
        return cls(place, part_of(table, ids), tone, length, velocity_bin, ids)

    @property
    def key(self) -> GroupKey:
        return self[:3]


class Bar(NamedTuple):
    """A bar that begins at the step ``begin`` and lasts ``steps``.

    back    the distance in bars to the earlier bar that this bar repeats; 0 if it repeats none
    groups  the notes and chords in the bar so far
    """

    begin: int
    steps: int
    back: int
    groups: list[Group]


class BarState(GrammarState):
    """State of a piece in the vocabulary of ``BarTokenizer``; see :class:`GrammarState`.

    velocities  (bins + 1,) the MIDI velocity of each value of the kind ``velocity``
    group       the ids of the current, incomplete group
    bars        the current bar, preceded by up to ``FARTHEST_BARS`` bars that it may repeat. A bar
                becomes current when its bar line is complete; the bar before the first one is empty
    line_count  the number of complete bar lines; after ``cut`` also ``FARTHEST_BARS`` earlier ones
    chord       the chord in force
    ends        {program: (step of the end, pitch) of its notes that end after its latest onset}
    onsets      {part: the steps at which its notes begin, in order}
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.group: list[int] = []
        self.bars = deque([Bar(0, 0, 0, [])], maxlen=FARTHEST_BARS + 1)
        self.line_count, self.chord = 0, NONE
        self._has_ended = False
        self.velocities = Velocities(len(vocabulary.values_in("velocity"))).of_bin
        #: {(program, pitch, step): how many notes end at the step and may be continued by a tie}.
        self._tied: Counter[tuple[int, int, int]] = Counter()
        self.ends: dict[int, list[tuple[int, int]]] = {}
        self.onsets: dict[int, list[int]] = {}
        self._known = vocabulary.id(KNOWN) if KNOWN in vocabulary.kinds else -1
        #: In a prefix: whether groups ahead are being skipped, and how many ids of the current
        #: group have been skipped.
        self._in_ahead, self._skipped = False, 0

    @property
    def last_key(self) -> GroupKey:
        """The key of the last group of the current bar; :data:`FIRST_KEY` in an empty bar."""
        groups = self.bars[-1].groups
        return groups[-1].key if groups else FIRST_KEY

    @property
    def in_line(self) -> bool:
        """Whether the current group is a bar line."""
        return self.group[:1] == [self.ids["bar"].start]

    @property
    def at_tone(self) -> bool:
        """Whether the next id is the pitch, drum or root of a note or a chord."""
        return len(self.group) == TONE and not self.in_line

    @property
    def at_repeat(self) -> bool:
        """Whether the next id is the ``section`` of a bar line, which names the repeated bar."""
        return len(self.group) == bar_codec.REPEAT_FIELD and self.in_line

    def value(self, field: int) -> int:
        """The value of a field of the current group."""
        return self.table.tokens[self.group[field]][1]

    def kind(self, field: int) -> str:
        """The kind of a field of the current group, whose first two ids are written."""
        return bar_codec.KINDS[self.table.tokens[self.group[1]][0]][field]

    @property
    def part(self) -> int:
        """The part of the current group."""
        return part_of(self.table, self.group)

    @property
    def place(self) -> int:
        """The place in the bar of the current group, or of the last one if no group has begun."""
        return self.value(PLACE) if self.group else self.last_key[PLACE]

    @property
    def step(self) -> int:
        """:attr:`place` as a step of the piece."""
        return self.bars[-1].begin + self.place

    @property
    def seconds(self) -> float:
        return (self.bars[-1].begin + self.last_key[PLACE]) * STEP_SECONDS

    def end_of_bars(self, bars: int) -> float | None:
        begin, steps, *_ = self.bars[-1]
        if not self.line_count:
            return None
        return (begin + (bars + 1 - self.line_count) * steps) * STEP_SECONDS

    def recent_notes(self, seconds: float, parts: Collection[int] | None = None) -> Iterator[Group]:
        """Yield the notes of ``parts`` (default: all) that began in the last ``seconds`` before
        :attr:`step`, as far as :attr:`bars` reach; the latest first."""
        since = self.step - (seconds + 1e-6) * STEPS_PER_SECOND
        for bar in reversed(self.bars):
            for group in reversed(bar.groups):
                if bar.begin + group.place <= since:
                    return
                if group.velocity_bin and (parts is None or group.part in parts):
                    yield group

    def count_onsets(self, part: int, since: float) -> int:
        """The number of notes of ``part`` that began at the step ``since`` or later."""
        onsets = self.onsets.get(part, [])
        return len(onsets) - bisect_left(onsets, since)

    def sounding_at(self, program: int, step: int) -> list[tuple[int, int]]:
        """(end, pitch) of the notes of ``program`` that sound at ``step``, which must be at or
        after its latest onset."""
        return [note for note in self.ends.get(program, ()) if note[0] > step]

    def _take(self, kind: str, value: int) -> list[NoteChange]:
        if kind == "eos":
            self._has_ended = True
            return []
        self.group.append(self.table.id(kind, value))
        if len(self.group) < FIELDS_PER_NOTE:
            return []
        ids, self.group = self.group, []
        if ids[0] == self.ids["bar"].start:
            self._begin_bar(*(self.table.tokens[token_id][1] for token_id in ids[1:]))
            return []
        return self._write(Group.of(self.table, ids))

    def _begin_bar(self, numerator: int, exponent: int, section: int, early_end: int) -> None:
        begin, steps, *_ = self.bars[-1]
        full = bar_steps(numerator, exponent)
        back = max(section + 1 - FIRST_REPEAT, 0)
        self.bars.append(Bar(begin + steps, min(early_end or full, full), back, []))
        self.line_count += 1

    def _write(self, group: Group) -> list[NoteChange]:
        place, part, tone, length, velocity_bin, _ = group
        begin, _, _, groups = self.bars[-1]
        groups.append(group)
        start = begin + place
        end = start + (length or bar_codec.DRUM_STEPS)
        stop = end / STEPS_PER_SECOND
        if part == CHORD:
            self.chord = Chord(tone, length)
        elif part != DRUMS:
            self.ends[part] = [*self.sounding_at(part, start), (end, tone)]
            if not velocity_bin:
                self._tied[part, tone, start] -= 1
            if length == bar_codec.LONGEST_NOTE:  # a tie may continue the note
                self._tied[part, tone, end] += 1
                stop = np.inf
        if not velocity_bin:
            return []
        self.notes += 1
        self.onsets.setdefault(part, []).append(start)
        velocity = int(self.velocities[velocity_bin])
        return [NoteChange(start / STEPS_PER_SECOND, True, tone, velocity, part, stop)]

    def _passes(self, token_id: int) -> bool:
        """As in the base class: skip groups of controls, and groups ahead with the given notes
        after them, up to the next bar line."""
        if self.group:
            return False
        if not self._skipped:
            bar = self.ids["bar"].start
            self._in_ahead = token_id == self._known or (self._in_ahead and token_id != bar)
            if not self._in_ahead and token_id < self.ids["none"].stop:  # controls have higher ids
                return False
        self._skipped = (self._skipped + 1) % FIELDS_PER_NOTE
        return True

    def _cut(self) -> None:
        self.line_count = FARTHEST_BARS

    def _allowed(self) -> np.ndarray:
        mask = np.zeros(self.table.size, dtype=bool)
        ids, count = self.ids, len(self.group)
        if self._has_ended:
            mask[ids["eos"]] = True
        elif not count:
            mask[ids["bar"]] = True
            mask[ids["eos"]] = self.notes > 0
            self._allow_places(mask[ids["place"]])
        elif count > 1:
            self._allow_field(mask, self.kind(count))
        elif self.in_line:
            mask[ids["numerator"]] = True
        else:
            place, part, _ = self.last_key
            part = part if self.place == place else FIRST_KEY[PART]
            mask[ids["harmony"]] = part < CHORD
            mask[ids["program"]][max(part, 0) :] = part < DRUMS
            mask[ids["drums"]] = True
        return mask

    def _allow_places(self, places: np.ndarray) -> None:
        begin, steps, *_ = self.bars[-1]
        places[:steps] = ON_GRID[:steps]
        for (_, _, end), count in self._tied.items():  # a tie may be off the grid
            if count and 0 <= end - begin < steps:
                places[end - begin] = True
        places[: self.last_key[PLACE]] = False

    def _allow_field(self, mask: np.ndarray, kind: str) -> None:
        """Allow in ``mask`` the values of ``kind`` for the third, fourth or fifth id of a group."""
        ids, place = self.ids, self.value(PLACE)
        field, values = mask[ids[kind]], self.table.values_in(kind)
        field[:] = True
        if kind in ("pitch", "drum"):
            if (place, self.part) == self.last_key[:2]:
                field &= values >= self.last_key[TONE]
        elif kind == "denominator":
            field[:] = bar_steps(self.value(1), values) <= LONGEST_BAR
        elif kind == "section":
            field[1:] = False
            field[FIRST_REPEAT : FIRST_REPEAT + self.line_count] = True
        elif kind == "place":  # the fifth field of a bar line: the step of an early end, or 0
            field[:] = ON_GRID
            field[bar_steps(self.value(1), self.value(2)) :] = False
        elif kind == "quality":
            field[:] = (values == NONE.quality) == (self.value(TONE) == NONE.root)
        elif kind == "velocity" and self.part != DRUMS:
            tied = self._tied[self.part, self.value(TONE), self.bars[-1].begin + place]
            mask[ids["tie"]] = tied > 0

    def copy(self) -> BarState:
        other = super().copy()
        *complete, bar = self.bars
        bar = bar._replace(groups=list(bar.groups))
        other.group, other.bars = list(self.group), deque([*complete, bar], self.bars.maxlen)
        other._tied, other.ends = self._tied.copy(), dict(self.ends)
        other.onsets = {part: list(steps) for part, steps in self.onsets.items()}
        return other
