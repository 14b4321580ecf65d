"""Windows of compound tokens arranged as tasks: which notes are given, which are to be composed.

The windows of :mod:`musictx.tokens.lookahead` for three tasks:

infill     some bars are composed, or most of them and a part of the first and last; the music after
           them is given, and sometimes a part or the chords within
accompany  some parts are given over many bars, and sometimes the chords; or the chords alone
vary       some bars are composed as a variation of similar earlier bars, which are given
steer      only the controls are given

Controls are measured in the window and left out part of the time; so are the parts to be composed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from musictx.data.windows import UNSCORED, Row
from musictx.tokens import controls, lookahead
from musictx.tokens.bar_ids import FIELDS_PER_NOTE, read
from musictx.tokens.lookahead import Lookahead
from musictx.tokens.repeats import likeness, stretches
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS, NoteStream
from musictx.tokens.vocab import BOS, CUT, EOS, Vocabulary

#: The share of windows in which no control is given; in the others, of each that is not.
NO_CONTROLS, DROPPED = 0.3, 0.3
#: Bars of a gap; most given bars after it; the share of gaps that begin and end at bar lines (the
#: others do at eighths); the share of gaps in which a part is given.
GAPS, TAIL, AT_LINES, LOCKED = (1, 16), 8, 0.8, 0.3
#: Over how many bars an accompaniment looks ahead; the share of accompaniments that begin with
#: their window; that are to chords alone; of the others, and of gaps, in which chords are given; of
#: windows that name the parts to be composed.
LOOKS, FROM_THE_START, CHORDS_ALONE, CHORDS, NAMED = (1, 2, 4, 8, 16), 0.3, 0.15, 0.5, 0.7
#: Of music in several parts: the share of voices that are the melody, where its program is given.
MELODY = 0.5
#: Of music in one part: the share of given voices that are the highest notes.
SKYLINE = 0.6
#: Bars of a variation; its least :func:`likeness` to the bars that it varies; the share of
#: variations whose window includes those bars, where there is room; in which some music after the
#: variation is given.
VARIED_BARS, ALIKE, IN_SIGHT, GOES_ON = (2, 16), 0.5, 0.5, 0.5
#: Windows of fewer groups are left plain.
FEWEST = 24


class BarTasks:
    """Arranges windows for ``tokenizer``, which writes groups and has control tokens.

    weights  task -> share of the windows; the others are plain
    melody   the program of melodies, which are then given more often; "skyline": no such program
    """

    def __init__(
        self, tokenizer: Any, weights: Mapping[str, float], melody: str = "skyline"
    ) -> None:
        self.tokenizer, self.weights = tokenizer, dict(weights)
        self.melody = int(melody) if melody.isdigit() else None
        self.table: Vocabulary = tokenizer.vocabulary

    def row(
        self,
        task: str,
        ids: np.ndarray,
        random: np.random.Generator,
        *,
        begins: bool,
        ends: bool,
        free: int,
        piece_id: int = 0,
    ) -> Row | None:
        """The window ``ids`` as a row of at most ``free`` places; None where it does not suit.

        begins  a piece begins with it;  ends  a piece ends with it

        Targets are all ids of the piece itself.
        """
        room = (free - 2) // FIELDS_PER_NOTE - 1  # the first id, eos, the controls
        stream = read(ids.astype(np.int64), self.table)
        if not ends:  # its last bar is cut off
            stream = stream.in_bars(0, max(len(stream.bars) - 1, 0))
        if min(room, len(stream.notes)) < FEWEST or len(stream.bars) < 3:
            return None
        by_task = {"infill": self._infill, "accompany": self._accompany, "vary": self._vary}
        if task in by_task:
            arranged = by_task[task](stream, random, room)
        else:
            arranged = _fitting(stream, room)
        if arranged is None:
            return None
        first, stop, ahead = arranged
        if ahead is not None:
            ahead = Lookahead(
                ahead.begin - first,
                ahead.stop - first,
                ahead.look,
                stream.only(ahead.known).in_bars(first).notes,
                ahead.sections[first:],
                ahead.parts,
            )
        here = stream.in_bars(first)
        sequence, piece = lookahead.interleaved(here, ahead, self.table, stop=stop - first)
        levels = self._levels(stream.in_bars(first, stop), random)
        before = [BOS if begins and first == 0 else CUT]
        before += lookahead.control_prefix(self.table, levels).tolist()
        closed = [EOS] * (ends and stop == len(stream.bars))
        row = np.concatenate([before, sequence, closed]).astype(np.int64)
        scored = np.concatenate([np.zeros(len(before), bool), piece, np.ones(len(closed), bool)])
        if len(row) - 1 > free:
            return None
        targets = np.where(scored, row, UNSCORED)[1:]
        return Row(row[:-1], targets, np.full(len(targets), piece_id, np.int64))

    def _infill(
        self, stream: NoteStream, random: np.random.Generator, room: int
    ) -> tuple[int, int, Lookahead | None] | None:
        bars, notes, bar = stream.bars, stream.notes, stream.bar
        size = int(np.exp(random.uniform(*np.log(GAPS))))
        size = min(size, max(len(bars) * 2 // 3, 1))
        begin = int(random.integers(len(bars) - size + 1))
        stop = begin + size
        given_stop = min(stop + int(random.integers(TAIL + 1)), len(bars))
        new = (bar >= begin) & (bar < stop)
        if random.random() >= AT_LINES:
            new &= ~self._edges(stream, begin, stop, random)
        chords = notes["part"] == CHORD
        if random.random() < CHORDS:
            new &= ~chords
        if random.random() < LOCKED:
            new &= ~self._voice(notes, new, random)
        return self._arranged(stream, ~new, begin, stop, given_stop, random, room, len(bars))

    def _accompany(
        self, stream: NoteStream, random: np.random.Generator, room: int
    ) -> tuple[int, int, Lookahead | None] | None:
        notes, count = stream.notes, len(stream.bars)
        from_the_start = random.random() < FROM_THE_START
        begin = 0 if from_the_start else int(random.integers(count // 2 + 1))
        region, chords = stream.bar >= begin, notes["part"] == CHORD
        given = chords.copy()
        if random.random() >= CHORDS_ALONE:
            given = self._voice(notes, region & ~chords, random)
            if random.random() < CHORDS:
                given |= chords
        look = int(random.choice(LOOKS))
        return self._arranged(stream, given | ~region, begin, count, count, random, room, look)

    def _arranged(
        self,
        stream: NoteStream,
        given: np.ndarray,
        begin: int,
        stop: int,
        given_stop: int,
        random: np.random.Generator,
        room: int,
        look: int,
    ) -> tuple[int, int, Lookahead | None] | None:
        """The bars that have ``room``, and what is given ahead of those from ``begin`` on."""
        bars, notes, bar = stream.bars, stream.notes, stream.bar
        new = ~given & (bar >= begin) & (bar < stop)
        if not new.any():
            return None
        groups = 1 + np.bincount(bar, minlength=len(bars))
        ahead_of = 1 + np.bincount(bar[given], minlength=len(bars))
        ahead_of[:begin] = 0
        parts = np.unique(notes["part"][new]).tolist() if random.random() < NAMED else []
        room -= len(parts)
        if look >= len(bars):  # a gap: all of it, with what is given after it
            first = begin
            size = groups[begin:stop].sum() + ahead_of[begin:given_stop].sum()
            while first and size + groups[first - 1] <= room:
                first -= 1
                size += groups[first]
            if size > room:
                return None
        else:
            first = 0
            total = np.cumsum(groups + ahead_of) + ahead_of[: look + begin].sum()
            stop = given_stop = min(stop, int(np.searchsorted(total, room, side="right")))
            if stop < begin + 2:
                return None
        whole = np.bincount(bar[new], minlength=len(bars)) == 0
        sections = np.where(whole, lookahead.WHOLE, 0)
        return first, stop, Lookahead(begin, given_stop, look, notes[given], sections, parts)

    def _vary(
        self, stream: NoteStream, random: np.random.Generator, room: int
    ) -> tuple[int, int, Lookahead | None] | None:
        bars, notes, bar = stream.bars, stream.notes, stream.bar
        size = min(round(np.exp(random.uniform(*np.log(VARIED_BARS)))), len(bars) // 2)
        candidates = [
            (float(means[begin]), begin + back, back)
            for back in range(size, len(bars) - size + 1)
            for means in [stretches(likeness(stream, back), size)]
            for begin in np.flatnonzero(means >= ALIKE).tolist()
        ]
        if not candidates:
            return None
        begin = int(random.choice(np.unique([at for _, at, _ in candidates])))
        _, _, back = max(one for one in candidates if one[1] == begin)
        stop = begin + size
        tail = int(random.integers(1, TAIL + 1)) if random.random() < GOES_ON else 0
        given_stop = min(stop + tail, len(bars))
        varied = notes[(bar >= begin - back) & (bar < stop - back)].copy()
        varied["start"] += stream.lines[begin] - stream.lines[begin - back]
        after = notes[(bar >= stop) & (bar < given_stop)]
        sections = np.full(len(bars), lookahead.WHOLE)
        sections[begin:stop] = lookahead.VARIED
        composed = notes["part"][(bar >= begin) & (bar < stop)]
        parts = np.unique(composed).tolist() if random.random() < NAMED else []
        groups = 1 + np.bincount(bar, minlength=len(bars))
        room -= len(parts) + len(varied) + size + int(groups[stop:given_stop].sum())
        room -= int(groups[begin:stop].sum())
        least = 0 if random.random() < IN_SIGHT else stop - back
        first = begin
        while first > least and room >= groups[first - 1]:
            first -= 1
            room -= int(groups[first])
        if room < 0:
            return None
        given = np.concatenate([varied, after])
        return first, stop, Lookahead(begin, given_stop, len(bars), given, sections, parts)

    def _edges(
        self, stream: NoteStream, begin: int, stop: int, random: np.random.Generator
    ) -> np.ndarray:
        """(n,) bool: what stands before an eighth of the bar ``begin``, or from an eighth of the
        last bar on."""
        eighth = STEPS // 2
        bars, notes, bar = stream.bars, stream.notes, stream.bar
        place = notes["start"] - stream.lines[bar]
        sizes = bars["numerator"] * 4 * STEPS // 2 ** bars["exponent"] // eighth
        since = int(random.integers(max(sizes[begin], 1))) * eighth
        until = int(random.integers(max(sizes[stop - 1], 1)) + 1) * eighth
        if stop - begin == 1 and until <= since:
            until = since + eighth
        early = (bar == begin) & (place < since)
        late = (bar == stop - 1) & (place >= until)
        edges: np.ndarray = early | late
        return edges

    def _voice(
        self, notes: np.ndarray, among: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """(n,) bool: some parts of the music ``among``; of one part alone, one voice."""
        parts = np.unique(notes["part"][among & (notes["part"] != CHORD)])
        if len(parts) > 1:
            if self.melody in parts and random.random() < MELODY:
                return among & (notes["part"] == self.melody)
            count = random.choice([1, len(parts) - 1, int(random.integers(1, len(parts)))])
            return among & np.isin(notes["part"], random.choice(parts, count, replace=False))
        pitched = among & (notes["part"] != CHORD) & (notes["part"] != DRUM_PART)
        if not pitched.any():
            return pitched
        if random.random() < SKYLINE:
            return pitched & skyline(notes, pitched)
        limit = np.quantile(notes["pitch"][pitched], random.uniform(0.25, 0.75))
        above = notes["pitch"] >= limit
        voice: np.ndarray = pitched & (above if random.random() < 0.5 else ~above)
        return voice

    def _levels(self, window: NoteStream, random: np.random.Generator) -> list[int]:
        """The levels of the controls of a window, some of them left out."""
        dropped = random.random(len(controls.CONTROLS)) < DROPPED
        if random.random() < NO_CONTROLS:
            return [0] * len(dropped)
        score = self.tokenizer.score(window)
        levels = controls.levels(controls.measured(score.notes, score.duration))
        return np.where(dropped, 0, levels).tolist()


def skyline(notes: np.ndarray, among: np.ndarray) -> np.ndarray:
    """(n,) bool: the highest of the notes ``among`` them at each step where some begin."""
    highest = np.zeros(len(notes), bool)
    at = np.flatnonzero(among)
    by_height = np.lexsort((notes["pitch"][at], notes["start"][at]))
    last = np.append(np.diff(notes["start"][at[by_height]]) != 0, True)[: len(at)]
    highest[at[by_height[last]]] = True
    return highest


def _fitting(stream: NoteStream, room: int) -> tuple[int, int, Lookahead | None] | None:
    groups = 1 + np.bincount(stream.bar, minlength=len(stream.bars))
    stop = int(np.searchsorted(np.cumsum(groups), room, side="right"))
    return (0, stop, None) if stop else None
