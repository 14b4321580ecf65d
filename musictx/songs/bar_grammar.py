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
from itertools import takewhile

import numpy as np

from musictx.songs.bar_codec import DRUM_STEPS, FIELDS_PER_NOTE, REPEAT_FIELD, REPEATS
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
#: The numbers of last bars whose onsets are kept, and of last notes that are kept.
ONSET_BARS, REMEMBERED = 5, 1024


class BarState(GrammarState):
    """State of a piece in the vocabulary of ``BarTokenizer``; see :class:`GrammarState`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._grid = np.tile(ON_GRID, self._size("place") // STEPS)
        self._longest = self._size("length")
        self._loudness = Velocities(self._size("velocity")).of_bin
        self._group: list[tuple[str, int]] = []
        self._bar_begins = self._bar_steps = self._lines = 0
        self._started = self._over = False
        #: Place, part and tone of the last group of this bar; (0, -2, -1) before the first.
        self.last = (0, -2, -1)
        #: (program, pitch, where such a note can be continued) -> how many of them.
        self._tied: Counter[tuple[int, int, int]] = Counter()
        self._struck: deque[tuple[float, int, int, int, int]] = deque(maxlen=REMEMBERED)
        self._onsets: deque[tuple[int, set[tuple[int, int]]]] = deque(maxlen=ONSET_BARS)
        self._tones: Mapping[int, np.ndarray] | None = None
        self._voices: Mapping[int, int] = {}
        self._ends: dict[int, list[int]] = {}  # program -> where its notes end, of those that sound
        self._begun: dict[int, deque[int]] = {}  # part -> where the last of its new notes began
        self._window = 0
        self._known = vocabulary.id(KNOWN) if KNOWN in vocabulary.kinds else -1
        self._ahead, self._passed = False, 0  # of a prefix: ids passed over of the present group

    def hold(
        self,
        tones: Mapping[int, np.ndarray],
        voices: Mapping[int, int],
        struck: Mapping[int, int] | None = None,
        window: int = 0,
    ) -> None:
        """Restrict the notes that follow.

        tones   part (:data:`DRUM_PART` for drums) -> (128,) bool, its allowed tones; other parts
                are forbidden, and so is the same tone twice at a place
        voices  part -> the most notes of it that may sound at once
        struck  part -> the most notes of it that may begin within ``window`` steps

        A place is allowed only if at least one note is allowed there.
        """
        self._tones = {part: some for part, some in tones.items() if some.any()}
        self._voices, self._window, self._mask = voices, window, None
        self._begun = {part: deque(maxlen=most) for part, most in (struck or {}).items()}

    @property
    def written(self) -> int:
        """The number of ids of the present, incomplete group."""
        return len(self._group)

    @property
    def empty(self) -> bool:
        """Whether the present bar has no groups yet."""
        return self.last == (0, -2, -1)

    @property
    def lines(self) -> int:
        """The number of complete bar lines."""
        return self._lines

    @property
    def at_repeat(self) -> bool:
        """Whether the next id is the field of a bar line that says which earlier bar it repeats."""
        return len(self._group) == REPEAT_FIELD and self._group[0][0] == "bar"

    def _part(self) -> int:
        """The part, in the order of parts, of the group that is being written."""
        kind, part = self._group[1]
        return {"harmony": CHORD, "drums": DRUM_PART}.get(kind, part)

    def until(self, places: np.ndarray | None = None) -> np.ndarray:
        """Seconds from the last group to ``places`` of this bar; to its end by default."""
        to = np.array(self._bar_steps) if places is None else places
        seconds: np.ndarray = (to - self.last[0]) * STEP_SECONDS
        return seconds

    def recent(
        self, seconds: float, parts: Collection[int] | None = None
    ) -> list[tuple[float, int, int, int]]:
        """The notes of ``parts`` that began in the last ``seconds`` before the place of the present
        group, at most :data:`REMEMBERED`: start in seconds, pitch (-1 for drums), length in steps
        (0 for drums) and bin of loudness."""
        return [note[:4] for note in self._since(seconds) if parts is None or note[4] in parts]

    def counts(self, seconds: float) -> Counter[int]:
        """Part -> the number of its notes that began in the last ``seconds`` before the place of
        the present group, among the last :data:`REMEMBERED`."""
        return Counter(note[4] for note in self._since(seconds))

    def _since(self, seconds: float) -> Iterator[tuple[float, int, int, int, int]]:
        here = self._group[0][1] if self._group else self.last[0]
        since = (self._bar_begins + here) * STEP_SECONDS - seconds - 1e-6
        return takewhile(lambda note: note[0] > since, reversed(self._struck))

    @property
    def at(self) -> tuple[int, int]:
        """Place and part, in the order of parts, of the last group of this bar, or of the one that
        is being written; (0, -2) before the first."""
        return (self._group[0][1], -2) if self._group else self.last[:2]

    def onsets(self) -> Sequence[tuple[int, set[tuple[int, int]]]]:
        """Of the last :data:`ONSET_BARS` bars, the present one last, steps and where its notes
        begin: (part, place). Not to be changed."""
        return self._onsets

    def _size(self, kind: str) -> int:
        ids = self._ids[kind]
        return ids.stop - ids.start

    @property
    def seconds(self) -> float:
        return (self._bar_begins + self.last[0]) * STEP_SECONDS

    def end_of_bars(self, bars: int) -> float | None:
        to_come = (bars + 1 - self._lines) * self._bar_steps
        return (self._bar_begins + to_come) * STEP_SECONDS if self._lines else None

    def _take(self, kind: str, value: int) -> list[Change]:
        if kind == "eos":
            self._over = True
            return []
        self._group = [*self._group, (kind, value)]
        if len(self._group) < FIELDS_PER_NOTE:
            return []
        changes = self._complete(self._group)
        self._group = []
        return changes

    def _passes(self, token_id: int) -> bool:
        """As in the base class; groups of controls are skipped, and groups ahead up to the next bar
        line."""
        if self._group:
            return False
        if not self._passed:
            bar = self._ids["bar"].start
            self._ahead = token_id == self._known or (self._ahead and token_id != bar)
            if not self._ahead and token_id < self._ids["none"].stop:
                return False
        self._passed = (self._passed + 1) % FIELDS_PER_NOTE
        return True

    def _cut(self) -> None:
        self._lines = FARTHEST_BARS

    def _complete(self, group: list[tuple[str, int]]) -> list[Change]:
        (_, place), (kind, part), (_, tone), (_, length), (last, _) = group
        if kind == "numerator":
            self._bar_begins += self._bar_steps
            full = part * 4 * STEPS // 2**tone
            cut = group[4][1]
            self._bar_steps = min(cut, full) if cut else full
            self._lines += 1
            self._started, self.last = True, (0, -2, -1)
            self._onsets.append((self._bar_steps, set()))
            return []
        self.last = (place, self._part(), tone)
        if kind == "program":
            at = self._bar_begins + place
            sounding = [end for end in self._ends.get(part, ()) if end > at]
            self._ends[part] = [*sounding, at + length]
            if last == "tie":
                self._tied[part, tone, at] -= 1
            if length == self._longest:
                self._tied[part, tone, at + length] += 1
        if kind == "harmony" or last == "tie":
            return []
        self.notes += 1
        number, at = self._part(), self._bar_begins + place
        self._onsets[-1][1].add((number, place))
        if number in self._begun:
            self._begun[number].append(at)
        pitch, velocity = (tone if kind == "program" else -1), group[4][1]
        self._struck.append((self.seconds, pitch, length, velocity, number))
        end = at + (length if kind == "program" else DRUM_STEPS)
        stop = np.inf if kind == "program" and length == self._longest else end / PER_SECOND
        loudness = int(self._loudness[velocity])
        return [Change(at / PER_SECOND, True, tone, loudness, number, stop)]

    def _allowed(self) -> np.ndarray:
        mask = np.zeros(self._vocabulary.size, dtype=bool)
        ids = self._ids
        if self._over:
            mask[ids["eos"]] = True
            return mask
        if not self._group:
            mask[ids["bar"]] = True
            mask[ids["eos"]] = self.notes > 0
            if self._started:
                places = mask[ids["place"]]
                places[: self._bar_steps] = self._grid[: self._bar_steps]
                for (_, _, due), count in self._tied.items():  # also off the grid
                    if count and 0 <= due - self._bar_begins < self._bar_steps:
                        places[due - self._bar_begins] = True
                places[: self.last[0]] = False
                if self._tones is not None:
                    self._keep_open(places, self._tones)
            return mask
        first, value = self._group[0]
        if len(self._group) == 1:
            if first == "bar":
                mask[ids["numerator"]] = True
                return mask
            part = self.last[1] if value == self.last[0] else -2
            mask[ids["harmony"]] = part < CHORD
            programs = mask[ids["program"]]
            programs[max(part, 0) :] = True
            programs[:] &= part < DRUM_PART
            mask[ids["drums"]] = True
            if self._tones is not None:
                programs &= [self._left(one, value) is not None for one in range(len(programs))]
                mask[ids["drums"]] = self._left(DRUM_PART, value) is not None
            return mask
        kind = SHAPES[self._group[1][0]][len(self._group) - 1]
        field = mask[ids[kind]]
        field[:] = True
        if kind in ("pitch", "drum") and (value, self._part()) == self.last[:2]:
            low = int(self._vocabulary.value_of[ids[kind].start])
            field[: max(self.last[2] - low, 0)] = False
        if kind in ("pitch", "drum") and self._tones is not None:
            left = self._left(self._part(), value)
            field &= False if left is None else left[self._vocabulary.value_of[ids[kind]]]
        elif kind == "denominator":
            numerator = self._group[1][1]
            field[:] = numerator * 4 * STEPS // 2 ** np.arange(len(field)) <= self._size("place")
        elif kind == "section":
            field[1:] = False
            field[REPEATS : REPEATS + self._lines] = True
        elif kind == "place":  # where a bar ends early
            full = self._group[1][1] * 4 * STEPS // 2 ** self._group[2][1]
            field[: self._size("place")] = self._grid
            field[full:] = False
        elif kind == "quality":
            field[:] = (np.arange(len(field)) == 0) == (self._group[2][1] == 12)
        elif kind == "velocity" and self._group[1][0] == "program":
            key = (self._group[1][1], self._group[2][1], self._bar_begins + value)
            mask[ids["tie"]] = self._tied[key] > 0
        return mask

    def _keep_open(self, places: np.ndarray, tones: Mapping[int, np.ndarray]) -> None:
        """Set ``places`` to False where no note can begin; except the first place of an empty bar,
        which may have a chord."""
        now, part, _ = self.last
        opens = min((self._opens(one) for one in tones), default=len(places))
        first, places[: max(opens, 0)] = bool(places[0]), False
        if self.empty:
            places[0] = first
        elif not any(one >= part and self._left(one, now) is not None for one in tones):
            places[now] = False

    def _opens(self, part: int) -> int:
        """The first place of the bar at which another note of ``part`` may begin by ``voices`` and
        ``struck`` of :meth:`hold`; below 0 if any place may have one."""
        ends = sorted(self._ends.get(part, ()), reverse=True)
        most = self._voices.get(part, len(ends) + 1)
        opens = ends[most - 1] - self._bar_begins if len(ends) >= most else -1
        begun = self._begun.get(part)
        if begun is not None and len(begun) == begun.maxlen:
            opens = max(opens, begun[0] + self._window - self._bar_begins)
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
        other._tied, other._struck = self._tied.copy(), self._struck.copy()
        bars = ((steps, set(onsets)) for steps, onsets in self._onsets)
        other._onsets = deque(bars, maxlen=ONSET_BARS)
        other._ends = dict(self._ends)
        other._begun = {part: begun.copy() for part, begun in self._begun.items()}
        return other
