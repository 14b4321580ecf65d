"""What may follow in a half-written piece of groups: see :mod:`musictx.songs.bar_tokens`.

- Before the first bar line only ``bar`` may come. ``eos`` may come where a group is complete and a
  note has been written.
- Groups are in the order of bar, place, part and pitch. A chord comes before all else at its place.
- A bar line repeats no bar or an earlier one. After ``cut`` any distance is allowed, since there
  were bars before.
- A place lies on a sixteenth, thirty-second or triplet of either, within its bar.
- ``tie`` may come only where a note of that program and pitch ends that can be continued. This
  place may lie off the grid.
- Groups of controls and groups ahead (``songs/bar_layout.py``) may not come. In a prefix they are
  skipped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from musictx.chords import NONE, Chord
from musictx.songs.bar_codec import (
    DRUM_STEPS,
    FIELDS_PER_NOTE,
    REPEAT_FIELD,
    REPEATS,
    part_of,
)
from musictx.songs.bars import ON_GRID, PER_SECOND, STEP_SECONDS
from musictx.songs.repeats import FARTHEST_BARS
from musictx.tokens.controls import KNOWN
from musictx.tokens.grammar import Change
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS, Velocities
from musictx.tokens.tokenizer import GrammarState
from musictx.tokens.vocab import Vocabulary

#: The kind of the second field of a group -> the kinds of its second to last fields.
SHAPES = {
    "program": ("program", "pitch", "length", "velocity"),
    "drums": ("drums", "drum", "none", "velocity"),
    "harmony": ("harmony", "root", "quality", "none"),
    "numerator": ("numerator", "denominator", "section", "place"),
}
#: The place, part and tone of a group, by which the groups of a bar are sorted.
Key = tuple[int, int, int]
#: Before the first group of a bar.
NOTHING: Key = (0, -2, -1)
#: The fields of a group that repeat with its bar: place, part and tone; those of its rhythm.
REPEATED, RHYTHM = 3, 2


class Group(NamedTuple):
    """A note, a stroke or a chord (:data:`musictx.tokens.stream.NOTE`) with its place in its bar,
    and the ids that say it."""

    place: int
    part: int
    tone: int
    length: int
    velocity_bin: int
    ids: list[int]

    @classmethod
    def of(cls, table: Vocabulary, ids: list[int]) -> Group:
        """The group that five ``ids`` say."""
        tokens = table.tokens
        (_, place), (_, tone), (_, length), (last, velocity) = (
            tokens[ids[n]] for n in (0, 2, 3, 4)
        )
        velocity_bin = velocity if last == "velocity" else 0
        return cls(place, part_of(table, ids), tone, length, velocity_bin, ids)

    @property
    def key(self) -> Key:
        return self[:3]


class Bar(NamedTuple):
    """A bar that begins at the step ``begin`` and repeats the one ``back`` bars before, 0 for none;
    ``groups`` are those written in it so far."""

    begin: int
    steps: int
    back: int
    groups: list[Group]


class BarState(GrammarState):
    """State of a piece in the vocabulary of ``BarTokenizer``; see :class:`GrammarState`.

    table  the vocabulary;  ids  kind -> its ids
    group  the ids of the present, incomplete group
    bars   the last bars, one more than may be repeated; the present one, whose line is complete, is
           the last. Before the first bar line it has no steps
    lines  the number of complete bar lines
    chord  in force
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.table, self.ids = vocabulary, self._ids
        self.group: list[int] = []
        self.bars = deque([Bar(0, 0, 0, [])], maxlen=FARTHEST_BARS + 1)
        self.lines, self.chord = 0, NONE
        self._over = False
        self._grid = np.tile(ON_GRID, self._size("place") // STEPS)
        self._longest = self._size("length")
        self._loudness = Velocities(self._size("velocity")).of_bin
        #: (program, pitch, where such a note can be continued) -> how many of them.
        self._tied: Counter[tuple[int, int, int]] = Counter()
        self._ends: dict[int, list[int]] = {}  # program -> where its notes end, of those that sound
        self._tones: Mapping[int, np.ndarray] | None = None
        self._voices: Mapping[int, int] = {}
        self._begun: dict[int, deque[int]] = {}  # part -> where the last of its new notes began
        self._window = 0
        self._known = vocabulary.id(KNOWN) if KNOWN in vocabulary.kinds else -1
        self._ahead, self._passed = False, 0  # of a prefix: ids passed over of the present group

    def hold(self, new: Any, window: int) -> None:
        """Restrict the notes that follow to what ``new`` ones may be. The same tone does not come
        twice at a place, and a place is allowed only if at least one note is allowed there.

        new     a :class:`musictx.sampling.infill.NewNotes`, which needs torch
        window  the steps in which the notes of a part are counted that begin
        """
        tones = {part: new.tones(part) for part in new.parts or ()}
        self._tones = {part: some for part, some in tones.items() if some.any()}
        self._voices = {part: habit.voices for part, habit in new.habits.items()}
        most = {part: one.densest for part, one in new.habits.items() if np.isfinite(one.densest)}
        self._begun = {part: deque(maxlen=int(count)) for part, count in most.items()}
        self._window, self._mask = window, None

    # ------------------------------------------------------------------------- what is written

    @property
    def last(self) -> Key:
        """The key of the last group of this bar; :data:`NOTHING` before the first."""
        groups = self.bars[-1].groups
        return groups[-1].key if groups else NOTHING

    @property
    def in_line(self) -> bool:
        """Whether the present group is a bar line."""
        return self.group[:1] == [self.ids["bar"].start]

    @property
    def at_repeat(self) -> bool:
        """Whether the next id is the field of a bar line that says which earlier bar it repeats."""
        return len(self.group) == REPEAT_FIELD and self.in_line

    def value(self, field: int) -> int:
        """The value of a field of the present group."""
        return self.table.tokens[self.group[field]][1]

    @property
    def part(self) -> int:
        """The part of the present group."""
        return part_of(self.table, self.group)

    @property
    def place(self) -> int:
        """The place in the bar of the present group, or else of the last one."""
        return self.value(0) if self.group else self.last[0]

    @property
    def step(self) -> int:
        """The same as a step of the piece."""
        return self.bars[-1].begin + self.place

    @property
    def seconds(self) -> float:
        return (self.bars[-1].begin + self.last[0]) * STEP_SECONDS

    def end_of_bars(self, bars: int) -> float | None:
        begin, steps, *_ = self.bars[-1]
        return (begin + (bars + 1 - self.lines) * steps) * STEP_SECONDS if self.lines else None

    def recent(self, seconds: float, parts: Collection[int] | None = None) -> Iterator[Group]:
        """The notes of ``parts`` in the last bars that began in the last ``seconds`` before
        :attr:`step`, the last one first."""
        since = self.step - (seconds + 1e-6) * PER_SECOND
        for bar in reversed(self.bars):
            for one in reversed(bar.groups):
                if bar.begin + one.place <= since:
                    return
                if one.velocity_bin and (parts is None or one.part in parts):
                    yield one

    def counts(self, seconds: float) -> Counter[int]:
        """Part -> the number of its :meth:`recent` notes."""
        return Counter(note.part for note in self.recent(seconds))

    def earlier(self, back: int) -> Sequence[Group]:
        """The groups of the bar ``back`` bars before this one; none if it is out of sight."""
        return self.bars[-1 - back].groups if 0 < back < len(self.bars) else []

    def continued(self, like: Sequence[Group], fields: int, leave: int) -> int | None:
        """The id that comes next if this bar goes on with those of the groups ``like`` that lie
        behind the last one; ``leave`` is the id that leaves the bar. None: there are no groups, the
        next field is not among the first ``fields`` of a group, or the present group differs."""
        count = len(self.group)
        if count >= fields or not like:
            return None
        after = [one for one in like if one.key > self.last]
        ids = min(after, key=lambda one: one.key).ids if after else [leave]
        return ids[count] if count < len(ids) and ids[:count] == self.group else None

    def _size(self, kind: str) -> int:
        ids = self._ids[kind]
        return ids.stop - ids.start

    def _take(self, kind: str, value: int) -> list[Change]:
        if kind == "eos":
            self._over = True
            return []
        self.group.append(self.table.id(kind, value))
        if len(self.group) < FIELDS_PER_NOTE:
            return []
        ids, self.group = self.group, []
        if ids[0] == self.ids["bar"].start:
            self._begin_bar(*(self.table.tokens[one][1] for one in ids[1:]))
            return []
        return self._write(Group.of(self.table, ids))

    def _begin_bar(self, numerator: int, exponent: int, section: int, cut: int) -> None:
        begin, before, *_ = self.bars[-1]
        full = numerator * 4 * STEPS // 2**exponent
        back = max(section + 1 - REPEATS, 0)
        self.bars.append(Bar(begin + before, min(cut, full) if cut else full, back, []))
        self.lines += 1

    def _write(self, group: Group) -> list[Change]:
        place, part, tone, length, velocity_bin, _ = group
        begin, _, _, groups = self.bars[-1]
        groups.append(group)
        at, end = begin + place, begin + place + (length or DRUM_STEPS)
        stop = end / PER_SECOND
        if part == CHORD:
            self.chord = Chord(tone, length)
        elif part != DRUM_PART:
            self._ends[part] = [*(one for one in self._ends.get(part, ()) if one > at), end]
            if not velocity_bin:
                self._tied[part, tone, at] -= 1
            if length == self._longest:  # a tie may prolong it
                self._tied[part, tone, end] += 1
                stop = np.inf
        if not velocity_bin:
            return []
        self.notes += 1
        if part in self._begun:
            self._begun[part].append(at)
        loudness = int(self._loudness[velocity_bin])
        return [Change(at / PER_SECOND, True, tone, loudness, part, stop)]

    def _passes(self, token_id: int) -> bool:
        """As in the base class; groups of controls are skipped, and groups ahead up to the next bar
        line."""
        if self.group:
            return False
        if not self._passed:
            bar = self._ids["bar"].start
            self._ahead = token_id == self._known or (self._ahead and token_id != bar)
            if not self._ahead and token_id < self._ids["none"].stop:
                return False
        self._passed = (self._passed + 1) % FIELDS_PER_NOTE
        return True

    def _cut(self) -> None:
        self.lines = FARTHEST_BARS

    # ------------------------------------------------------------------------ what may come next

    def _allowed(self) -> np.ndarray:
        mask = np.zeros(self.table.size, dtype=bool)
        ids, count = self._ids, len(self.group)
        if self._over:
            mask[ids["eos"]] = True
        elif not count:
            mask[ids["bar"]] = True
            mask[ids["eos"]] = self.notes > 0
            self._allow_places(mask[ids["place"]])
        elif count > 1:
            self._allow_field(mask, SHAPES[self.table.tokens[self.group[1]][0]][count - 1])
        elif self.group[0] == ids["bar"].start:
            mask[ids["numerator"]] = True
        else:
            self._allow_parts(mask)
        return mask

    def _allow_places(self, places: np.ndarray) -> None:
        begin, steps, *_ = self.bars[-1]
        places[:steps] = self._grid[:steps]
        for (_, _, due), count in self._tied.items():  # also off the grid
            if count and 0 <= due - begin < steps:
                places[due - begin] = True
        places[: self.last[0]] = False
        if self._tones is not None:
            self._keep_open(places, self._tones)

    def _allow_parts(self, mask: np.ndarray) -> None:
        ids, place = self._ids, self.value(0)
        part = self.last[1] if place == self.last[0] else NOTHING[1]
        mask[ids["harmony"]] = part < CHORD
        programs = mask[ids["program"]]
        programs[max(part, 0) :] = part < DRUM_PART
        mask[ids["drums"]] = True
        if self._tones is not None:
            programs &= [self._left(one, place) is not None for one in range(len(programs))]
            mask[ids["drums"]] = self._left(DRUM_PART, place) is not None

    def _allow_field(self, mask: np.ndarray, kind: str) -> None:
        """The third to fifth id of a group, of this ``kind``."""
        ids, place = self._ids, self.value(0)
        field, values = mask[ids[kind]], self.table.value_of[ids[kind]]
        field[:] = True
        if kind in ("pitch", "drum"):
            if (place, self.part) == self.last[:2]:
                field &= values >= self.last[2]
            if self._tones is not None:
                left = self._left(self.part, place)
                field &= False if left is None else left[values]
        elif kind == "denominator":
            field[:] = self.value(1) * 4 * STEPS // 2**values <= self._size("place")
        elif kind == "section":
            field[1:] = False
            field[REPEATS : REPEATS + self.lines] = True
        elif kind == "place":  # where a bar ends early
            field[:] = self._grid
            field[self.value(1) * 4 * STEPS // 2 ** self.value(2) :] = False
        elif kind == "quality":
            field[:] = (values == NONE.quality) == (self.value(2) == NONE.root)
        elif kind == "velocity" and self.part != DRUM_PART:
            tied = self._tied[self.part, self.value(2), self.bars[-1].begin + place]
            mask[ids["tie"]] = tied > 0

    def _keep_open(self, places: np.ndarray, tones: Mapping[int, np.ndarray]) -> None:
        """Set ``places`` to False where no note can begin; except the first place of an empty bar,
        which may have a chord."""
        now, part, _ = self.last
        opens = min((self._opens(one) for one in tones), default=len(places))
        first, places[: max(opens, 0)] = bool(places[0]), False
        if not self.bars[-1].groups:
            places[0] = first
        elif not any(one >= part and self._left(one, now) is not None for one in tones):
            places[now] = False

    def _opens(self, part: int) -> int:
        """The first place of the bar at which another note of ``part`` may begin by the habit of
        the part (:meth:`hold`): the most notes at once, and the most in a few seconds. Below 0 if
        any place may have one."""
        ends = sorted(self._ends.get(part, ()), reverse=True)
        most = self._voices.get(part, len(ends) + 1)
        opens = ends[most - 1] - self.bars[-1].begin if len(ends) >= most else -1
        begun = self._begun.get(part)
        if begun is not None and len(begun) == begun.maxlen:
            opens = max(opens, begun[0] + self._window - self.bars[-1].begin)
        return opens

    def _left(self, part: int, place: int) -> np.ndarray | None:
        """(128,) bool: the tones that a note of ``part`` may have at ``place``; None: none."""
        tones = (self._tones or {}).get(part)
        if tones is None or self._opens(part) > place:
            return None
        if (place, part) == self.last[:2]:
            tones = tones & (np.arange(len(tones)) > self.last[2])
        return tones if tones.any() else None

    def copy(self) -> BarState:
        other = super().copy()
        *before, bar = self.bars
        bar = bar._replace(groups=list(bar.groups))
        other.group, other.bars = list(self.group), deque([*before, bar], self.bars.maxlen)
        other._tied, other._ends = self._tied.copy(), dict(self._ends)
        other._begun = {part: begun.copy() for part, begun in self._begun.items()}
        return other
