"""Bars repeat: one of a section ago, note by note; parts keep their rhythm, new sections differ.

Each class is a penalty of one row (:data:`~musictx.sampling.constraints.RowPenalty`). Around given
notes see :func:`musictx.songs.infill_biases.as_in_repeated_bar`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from musictx.songs.bar_codec import FIELDS_PER_NOTE, REPEAT_FIELD, REPEATS, part_id
from musictx.songs.bar_constraint import Key, Keyed, key_of
from musictx.songs.bar_grammar import ONSET_BARS
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import PER_SECOND
from musictx.songs.strengths import (
    LEFT_OUT,
    NEW_ONSET,
    REPEAT_GAIN,
    RETURN_BARS,
    RETURN_GAIN,
    SAME_PITCH,
    SAME_ROOT,
)
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS, NoteStream
from musictx.tokens.vocab import Vocabulary

#: The fields of a note that repeat with its bar: place, part and pitch.
FIELDS = 3
#: Steps in a sixteenth.
SIXTEENTH = STEPS // 4


class BarRepetitionPrior:
    """Which earlier bar a bar repeats (:mod:`musictx.songs.repeats`): one as many bars ago as
    :data:`RETURN_BARS` has gains :data:`RETURN_GAIN` nats."""

    def __init__(self, tokenizer: BarTokenizer) -> None:
        table = tokenizer.vocabulary
        first, stop = (REPEATS - 1 + bars for bars in (RETURN_BARS.start, RETURN_BARS.stop))
        self.nats = np.zeros(table.size)
        self.nats[range(*table.range("section"))[first:stop]] = -RETURN_GAIN

    def __call__(self, state: Any, ids: np.ndarray) -> np.ndarray | None:
        return self.nats if state.at_repeat else None


class BarRepetition:
    """In a bar that repeats an earlier one, as its bar line says, what came next in that bar gains
    :data:`REPEAT_GAIN` nats: a place, part and pitch, or the next bar line."""

    def __init__(self, tokenizer: BarTokenizer) -> None:
        self.table, self.line = tokenizer.vocabulary, tokenizer.vocabulary.id("bar")
        self._bar: tuple[Any, int] | None = None  # state, number of its bar line
        self._earlier: Sequence[Keyed] = []

    def __call__(self, state: Any, ids: np.ndarray) -> np.ndarray | None:
        whole = len(ids) - state.written
        group = ids[whole:].tolist()
        if not state.lines or group[:1] == [self.line]:
            return None
        if self._bar is None or self._bar[0] is not state or self._bar[1] != state.lines:
            self._bar, self._earlier = (state, state.lines), self._read(ids[:whole])
        token = next_in(self._earlier, state.last, group, self.line) if self._earlier else None
        if token is None:
            return None
        nats = np.zeros(self.table.size)
        nats[token] = -REPEAT_GAIN
        return nats

    def _read(self, ids: np.ndarray) -> Sequence[Keyed]:
        """The groups of the bar that the last bar line names; none where it is out of sight."""
        groups = ids[len(ids) % FIELDS_PER_NOTE :].reshape(-1, FIELDS_PER_NOTE)
        lines = np.flatnonzero(groups[:, 0] == self.line)
        back = int(self.table.value_of[groups[lines[-1], REPEAT_FIELD]]) - (REPEATS - 1)
        if not 0 < back < len(lines):
            return []
        first, stop = lines[[-1 - back, -back]]
        return [(key_of(self.table, one), one.tolist()) for one in groups[first + 1 : stop]]


def next_in(earlier: Sequence[Keyed], last: Key, group: Sequence[int], leave: int) -> int | None:
    """The id that comes next if a bar goes on as an ``earlier`` one did; None for fields that do
    not repeat, or where the ``group`` so far is another.

    last   key of the last whole group of the bar;  leave  the id that leaves the bar
    """
    if len(group) >= FIELDS:
        return None
    ids = next((ids for key, ids in earlier if key > last), [leave])
    return ids[len(group)] if ids[: len(group)] == [*group] and len(group) < len(ids) else None


class RhythmConsistency:
    """What parts do that have played in each of the last bars, :data:`ONSET_BARS` but the present
    one, all as long as this one: a note costs :data:`NEW_ONSET` where its part struck in none of
    them, and so does a place where no such part did, but at the beginning and the middle of the
    bar, where chords stand; what passes over a place costs :data:`LEFT_OUT` for each part that
    struck there in all of them."""

    def __init__(self, tokenizer: BarTokenizer) -> None:
        self.table = tokenizer.vocabulary
        self._bar: tuple[Any, int] | None = None  # state, number of its bar line
        self._usual: tuple[dict[int, set[int]], set[tuple[int, int]]] = {}, set()

    def __call__(self, state: Any, ids: np.ndarray) -> np.ndarray | None:
        place, part = state.at
        if state.written > 1 or place < 0 or len(state.onsets()) < ONSET_BARS:
            return None
        if self._bar is None or self._bar[0] is not state or self._bar[1] != state.lines:
            self._bar, self._usual = (state, state.lines), _usual(state)
        usual, always = self._usual
        if not usual:
            return None
        steps, here = state.onsets()[-1]
        common = {0, steps // 2}.union(*usual.values())
        nats = np.zeros(self.table.size)
        if state.written:
            for one, places in usual.items() if place in common else ():
                nats[part_id(self.table, one)] = NEW_ONSET * (place not in places)
            return nats
        first, end = self.table.range("place")
        passed = np.zeros(end - first + 1)
        for one, at in always - here:
            if (at, one) > (place, part):
                passed[at + 1] += LEFT_OUT
        passed = np.cumsum(passed)
        nats[first:end] = passed[:-1] + NEW_ONSET
        for at in common | {place}:
            nats[first + at] -= NEW_ONSET
        nats[self.table.id("bar")] = passed[-1]
        return nats


def _usual(state: Any) -> tuple[dict[int, set[int]], set[tuple[int, int]]]:
    """Of each part that has played in each of the last bars, where it struck in any of them, and
    (part, place) where such a part struck in all of them."""
    *before, (steps, _) = state.onsets()
    bars = [onsets for length, onsets in before if length == steps]
    if len(bars) < len(before):
        return {}, set()
    parts = set.intersection(*({part for part, _ in onsets} for onsets in bars))
    places = {part: {at for onsets in bars for one, at in onsets if one == part} for part in parts}
    return places, {one for one in set.intersection(*bars) if one[0] in parts}


class SectionContrast:
    """What the bars of earlier sections have at the same place costs, and none of them is repeated.

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
        self.parts = {"program", "drums"} if drums else {"program"}
        #: (bars, sixteenths, 12): pitch classes; (bars, steps): the root in force, -1 for none.
        self.pitches = np.zeros((bars, -(-steps // SIXTEENTH), 12), bool)
        self.roots = np.full((len(begins), bars * steps), -1)
        self.here = here
        for number, begin in enumerate(begins):
            first = int(stream.lines[max(begin, 0)]) + min(begin, 0) * steps
            since = stream.notes["start"] - first
            inside = (since >= 0) & (since < bars * steps)
            mine, since = stream.notes[inside], since[inside]
            note = (mine["part"] != CHORD) & ((mine["part"] != DRUM_PART) | drums)
            bar, place = np.divmod(since[note], steps)
            self.pitches[bar, place // SIXTEENTH, mine["pitch"][note] % 12] = True
            for at, one in zip(since, mine):
                if one["part"] == CHORD:
                    self.roots[number, at:] = one["pitch"]

    def __call__(self, state: Any, ids: np.ndarray) -> np.ndarray:
        nats = np.zeros(self.table.size)
        if state.at_repeat:
            mine = REPEATS + max(state.lines - self.lines, 0)  # from here on: of another section
            nats[self.sections[mine:]] = np.inf
        place, part = (self.table.token(int(one)) for one in ids[-2:])
        if place[0] == "place" and part[0] in ("program", "drums", "harmony"):
            since = round(state.seconds * PER_SECOND) - self.pickup
            bar = since // self.steps - self.here
            if 0 <= bar < len(self.pitches):
                self._compare(nats, bar, place[1], part[0])
        return nats

    def _compare(self, nats: np.ndarray, bar: int, place: int, part: str) -> None:
        kind = {"program": "pitch", "drums": "drum", "harmony": "root"}[part]
        ids = slice(*self.table.range(kind))
        values = self.table.value_of[ids]
        if part == "harmony":
            nats[ids] = SAME_ROOT * np.isin(values, self.roots[:, bar * self.steps + place])
        elif part in self.parts:
            at = min(place, self.steps - 1) // SIXTEENTH
            nats[ids] = SAME_PITCH * self.pitches[bar, at][values % 12]
