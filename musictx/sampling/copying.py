"""Music repeats: what comes next where something repeats gains, or costs where it must not.

Each class is a penalty of one row (:data:`~musictx.sampling.constraints.RowPenalty`). Of events: a
motif continues as it did (:class:`MotifRepetition`). In bars: a bar repeats one of a section ago
(:class:`BarRepetitionPrior`), parts keep the rhythm of the last bars (:class:`RhythmConsistency`),
and a new section differs from earlier ones (:class:`SectionContrast`). Around given notes see
:func:`musictx.songs.infill_biases.repeated`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from musictx.config import SamplingConfig
from musictx.sampling.constraints import EachRow
from musictx.sampling.strengths import (
    AGREE,
    FAR_COST,
    LAST_STRIKES,
    LEFT_OUT,
    LINE_AGREE,
    LINE_GAIN,
    MOTIF_REACH,
    NEAR_BARS,
    NEAR_COST,
    NEW_ONSET,
    ONSET_SECONDS,
    RETURN_GAIN,
    RETURN_SECONDS,
    SAME_BAR,
    SAME_PITCH,
    SAME_ROOT,
    SECTION_BARS,
    STAY_GAIN,
    STRIKE_GAIN,
)
from musictx.songs.bar_grammar import ONSET_BARS
from musictx.songs.bar_ids import REPEATS
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import PER_SECOND
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS, NoteStream
from musictx.tokens.vocab import GrammarState, NoteEvents, Penalty, Tokenizer, Vocabulary

#: Steps in a sixteenth.
SIXTEENTH = STEPS // 4


def of(tokenizer: Tokenizer, sampling: SamplingConfig, rows: int) -> list[Penalty]:
    """What makes music of these tokens repeat; none for tokens whose time depends on the tempo or
    that are neither, and where ``sampling`` leaves habits out."""
    if not sampling.habits:
        return []
    kinds: list[type[Any]] = []
    if isinstance(tokenizer, BarTokenizer):
        kinds = [BarRepetitionPrior, RhythmConsistency]
    elif tokenizer.note_events is not None and tokenizer.note_events.longest_wait:
        kinds = [MotifRepetition]
    return [EachRow([kind(tokenizer) for _ in range(rows)]) for kind in kinds]


# ---------------------------------------------------------------------------------------- of events


class _Strikes(NamedTuple):
    """The strikes among the last ids of a row.

    pitch, at  (n,) pitches and seconds
    number     (n,) of ids
    begin      of the ids in reach
    old        of them were struck :data:`RETURN_SECONDS` before the last one or earlier
    certain    whether ``old`` is the same where fewer ids are in reach: sums of waits from another
               id on may be rounded to the other side of what lies on the border
    """

    pitch: np.ndarray
    at: np.ndarray
    number: np.ndarray
    begin: int
    old: int
    certain: bool

    @classmethod
    def of(cls, events: NoteEvents, ids: np.ndarray) -> _Strikes:
        begin = max(len(ids) - MOTIF_REACH, 0)
        pitch = events.strike[ids[begin:]]
        at = np.cumsum(events.wait[ids[begin:]]) * (events.longest_wait or 0.0)
        struck = np.flatnonzero(pitch >= 0)
        pitch, at = pitch[struck], at[struck]
        border = at[-1] - RETURN_SECONDS if len(at) else 0.0
        near, old, far = np.searchsorted(at, [border - 1e-6, border, border + 1e-6], "right")
        return cls(pitch, at, begin + struck, begin, int(old), bool(near == far))


class _Next(NamedTuple):
    """``pitch`` gains ``nats``, as the ids from the one numbered ``first`` on say."""

    pitch: int
    nats: float
    first: int


class MotifRepetition:
    """Makes likelier the pitch that followed the last time that pitches like the last ones were
    struck: of all strikes :data:`RETURN_SECONDS` ago or earlier that before which most of the last
    :data:`LAST_STRIKES` pitches agree, the latest if several do, where :data:`AGREE` of them do.

    And the pitch that continues a melody that comes again, at any pitch: of the intervals of the
    top line so long ago those are looked for that end like the last ones, the longest such run, of
    several one at the same pitch, the latest of these, where :data:`LINE_AGREE` agree. The highest
    pitch of what is struck within :data:`ONSET_SECONDS` is a note of that line.

    Until the next strike the answer stays the same as long as the ids that it rests on are in
    reach: they are the last ones of what the state has read, so their number says which.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.note_events is not None
        self.events: NoteEvents = tokenizer.note_events
        self._for: tuple[GrammarState, int, int] | None = None  # state, its notes, ids
        self._first, self._nats = np.inf, [None, None]

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        length, before = len(ids), self._for
        self._for = state, state.notes, length
        same = before is not None and before[0] is state and before[1:] == (state.notes, length - 1)
        if not same or length - MOTIF_REACH > self._first:
            self._look(ids)
        last = state.sounding.recent()
        return self._nats[bool(last) and state.seconds - last[0][0] < ONSET_SECONDS + 1e-6]

    def _look(self, ids: np.ndarray) -> None:
        """Nats where a strike would begin an onset, and where it would join the last one; they stay
        as they are as long as the ids from ``_first`` on are in reach."""
        struck = _Strikes.of(self.events, ids)
        self._first, self._nats = np.inf if struck.certain else struck.begin, []
        strikes = _after_strikes(struck)
        for line in [_after_line(struck, joins) for joins in (0, 1)]:
            found = [one for one in (strikes, line) if one is not None]
            self._first = min([self._first, *(one.first for one in found)])
            gains = [one.nats * (self.events.strike == one.pitch) for one in found]
            self._nats.append(-np.sum(gains, axis=0) if gains else None)


def _after_strikes(struck: _Strikes) -> _Next | None:
    """What followed the strikes most like the last ones."""
    count = struck.old - LAST_STRIKES
    if count <= 0:
        return None
    agree = np.zeros(count, int)
    for nth, last in enumerate(struck.pitch[-LAST_STRIKES:].tolist()):
        agree += struck.pitch[nth : nth + count] == last
    best = count - 1 - int(agree[::-1].argmax())
    if agree[best] < AGREE:
        return None
    nats = STRIKE_GAIN * int(agree[best])
    return _Next(int(struck.pitch[best + LAST_STRIKES]), nats, int(struck.number[best]))


def _after_line(struck: _Strikes, joins: int) -> _Next | None:
    """What continues the top line, whose last onset is open where a strike ``joins`` it."""
    first = np.flatnonzero(np.diff(struck.at, prepend=-np.inf) > ONSET_SECONDS + 1e-6)
    old = int(np.searchsorted(first, struck.old))
    if old <= LAST_STRIKES + 2:  # the first onset may be cut
        return None
    line = np.maximum.reduceat(struck.pitch, first)
    here = struck.pitch[first[-1] :] if joins else ()
    steps = np.diff(line[: len(line) - joins])
    ends = np.arange(LAST_STRIKES + 1, old - 1)  # of runs: the note that they lead to
    run, same = np.zeros(len(ends), int), np.ones(len(ends), bool)
    for back in range(1, LAST_STRIKES + 1):
        same &= steps[ends - back] == steps[len(steps) - back]
        run += same
    order = 2 * run + (line[ends] == line[len(steps)])
    best = len(run) - 1 - int(order[::-1].argmax())
    agree, end = int(run[best]), int(ends[best])
    pitch = int(line[len(steps)] + line[end + 1] - line[end])
    still = not steps[len(steps) - agree :].any()  # a pitch that is repeated comes from nowhere
    if agree < LINE_AGREE or still or pitch in here:
        return None
    return _Next(pitch, LINE_GAIN * agree, int(struck.number[first[end - LAST_STRIKES] - 1]))


# ------------------------------------------------------------------------------------------ in bars


class BarRepetitionPrior:
    """Which earlier bar a bar repeats (:mod:`musictx.songs.repeats`): one as many bars ago as
    :data:`SECTION_BARS` has gains :data:`RETURN_GAIN` nats, and :data:`STAY_GAIN` more a bar so far
    away or farther that is as far away as the one that the bar before repeated; one of the last
    :data:`NEAR_BARS` costs :data:`NEAR_COST`, one before those bars :data:`FAR_COST`. Real songs
    repeat whole sections; a model leaves them a little too soon at every bar, and lingers."""

    def __init__(self, tokenizer: BarTokenizer) -> None:
        self.size, self.sections = tokenizer.size, range(*tokenizer.vocabulary.range("section"))

    def __call__(self, state: Any, ids: np.ndarray) -> np.ndarray | None:
        if (before := state.said()) is None:
            return None
        nats = np.zeros(self.size)
        begin, far = (REPEATS - 1 + bars for bars in (SECTION_BARS.start, SECTION_BARS.stop))
        nats[self.sections[REPEATS] : self.sections[REPEATS + NEAR_BARS]] = NEAR_COST
        nats[self.sections[begin] : self.sections[far]] = -RETURN_GAIN
        nats[self.sections[far] : self.sections.stop] = FAR_COST
        if before >= begin:
            nats[self.sections[before]] -= STAY_GAIN
        return nats


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
                drums = one == DRUM_PART
                token = self.table.id("drums") if drums else self.table.id("program", one)
                nats[token] = NEW_ONSET * (place not in places)
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
    """What the bars of earlier sections have at the same place costs.

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
        if state.said() is not None:
            mine = REPEATS + max(state.lines - self.lines, 0)  # from here on: of another section
            nats[self.sections[mine:]] = SAME_BAR
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
