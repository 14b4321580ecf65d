"""Windows of compound tokens arranged as tasks: which notes are given, which are to be composed.

The windows of :mod:`musictx.tokens.ahead` for three tasks:

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
from musictx.tokens import ahead, controls
from musictx.tokens.ahead import Ahead
from musictx.tokens.bars import STEPS
from musictx.tokens.group_ids import CHORD, DRUM_PART, FIELDS_A_GROUP, read
from musictx.tokens.returns import likeness, stretches
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
        room = (free - 2) // FIELDS_A_GROUP - 1  # the first id, eos, the controls
        bars, placed = read(ids.astype(np.int64), self.table)
        if not ends:  # its last bar is cut off
            bars, placed = bars[:-1], placed[placed["line"] < len(bars) - 1]
        if min(room, len(placed)) < FEWEST or len(bars) < 3:
            return None
        by_task = {"infill": self._infill, "accompany": self._accompany, "vary": self._vary}
        if task in by_task:
            arranged = by_task[task](bars, placed, random, room)
        else:
            arranged = _fitting(bars, room, np.bincount(placed["line"], minlength=len(bars)) + 1)
        if arranged is None:
            return None
        first, stop, lookahead = arranged
        bars, placed = bars[first:], _from(placed, first)
        window = placed[placed["line"] < stop - first]
        if lookahead is not None:
            lookahead = Ahead(
                lookahead.begin - first,
                lookahead.stop - first,
                lookahead.look,
                _from(lookahead.known, first),
                lookahead.sections[first:],
                lookahead.parts,
            )
        sequence, piece = ahead.woven(bars, window, lookahead, self.table, stop=stop - first)
        levels = self._levels(bars[: stop - first], window, random)
        before = [BOS if begins and first == 0 else CUT, *ahead.front(self.table, levels)]
        closed = [EOS] * (ends and stop == len(bars) + first)
        row = np.concatenate([before, sequence, closed]).astype(np.int64)
        scored = np.concatenate([np.zeros(len(before), bool), piece, np.ones(len(closed), bool)])
        if len(row) - 1 > free:
            return None
        targets = np.where(scored, row, UNSCORED)[1:]
        return Row(row[:-1], targets, np.full(len(targets), piece_id, np.int64))

    def _infill(
        self, bars: np.ndarray, placed: np.ndarray, random: np.random.Generator, room: int
    ) -> tuple[int, int, Ahead | None] | None:
        size = int(np.exp(random.uniform(*np.log(GAPS))))
        size = min(size, max(len(bars) * 2 // 3, 1))
        begin = int(random.integers(len(bars) - size + 1))
        stop = begin + size
        given_stop = min(stop + int(random.integers(TAIL + 1)), len(bars))
        new = (placed["line"] >= begin) & (placed["line"] < stop)
        if random.random() >= AT_LINES:
            new &= ~self._edges(bars, placed, begin, stop, random)
        chords = placed["part"] == CHORD
        if random.random() < CHORDS:
            new &= ~chords
        if random.random() < LOCKED:
            new &= ~self._voice(placed, new, random)
        return self._arranged(bars, placed, ~new, begin, stop, given_stop, random, room, len(bars))

    def _accompany(
        self, bars: np.ndarray, placed: np.ndarray, random: np.random.Generator, room: int
    ) -> tuple[int, int, Ahead | None] | None:
        from_the_start = random.random() < FROM_THE_START
        begin = 0 if from_the_start else int(random.integers(len(bars) // 2 + 1))
        region, chords = placed["line"] >= begin, placed["part"] == CHORD
        given = chords.copy()
        if random.random() >= CHORDS_ALONE:
            given = self._voice(placed, region & ~chords, random)
            if random.random() < CHORDS:
                given |= chords
        look = int(random.choice(LOOKS))
        return self._arranged(
            bars, placed, given | ~region, begin, len(bars), len(bars), random, room, look
        )

    def _arranged(
        self,
        bars: np.ndarray,
        placed: np.ndarray,
        given: np.ndarray,
        begin: int,
        stop: int,
        given_stop: int,
        random: np.random.Generator,
        room: int,
        look: int,
    ) -> tuple[int, int, Ahead | None] | None:
        """The bars that have ``room``, and what is given ahead of those from ``begin`` on."""
        new = ~given & (placed["line"] >= begin) & (placed["line"] < stop)
        if not new.any():
            return None
        groups = 1 + np.bincount(placed["line"], minlength=len(bars))
        ahead_of = 1 + np.bincount(placed["line"][given], minlength=len(bars))
        ahead_of[:begin] = 0
        parts = np.unique(placed["part"][new]).tolist() if random.random() < NAMED else []
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
        whole = np.bincount(placed["line"][new], minlength=len(bars)) == 0
        sections = np.where(whole, ahead.WHOLE, 0)
        return first, stop, Ahead(begin, given_stop, look, placed[given], sections, parts)

    def _vary(
        self, bars: np.ndarray, placed: np.ndarray, random: np.random.Generator, room: int
    ) -> tuple[int, int, Ahead | None] | None:
        size = min(round(np.exp(random.uniform(*np.log(VARIED_BARS)))), len(bars) // 2)
        candidates = [
            (float(means[begin]), begin + back, back)
            for back in range(size, len(bars) - size + 1)
            for means in [stretches(likeness(bars, placed, back), size)]
            for begin in np.flatnonzero(means >= ALIKE).tolist()
        ]
        if not candidates:
            return None
        begin = int(random.choice(np.unique([at for _, at, _ in candidates])))
        _, _, back = max(one for one in candidates if one[1] == begin)
        stop = begin + size
        tail = int(random.integers(1, TAIL + 1)) if random.random() < GOES_ON else 0
        given_stop = min(stop + tail, len(bars))
        line = placed["line"]
        varied = placed[(line >= begin - back) & (line < stop - back)].copy()
        varied["line"] += back
        after = placed[(line >= stop) & (line < given_stop)]
        sections = np.full(len(bars), ahead.WHOLE)
        sections[begin:stop] = ahead.VARIED
        composed = placed["part"][(line >= begin) & (line < stop)]
        parts = np.unique(composed).tolist() if random.random() < NAMED else []
        groups = 1 + np.bincount(line, minlength=len(bars))
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
        return first, stop, Ahead(begin, given_stop, len(bars), given, sections, parts)

    def _edges(
        self,
        bars: np.ndarray,
        placed: np.ndarray,
        begin: int,
        stop: int,
        random: np.random.Generator,
    ) -> np.ndarray:
        """(n,) bool: what stands before an eighth of the bar ``begin``, or from an eighth of the
        last bar on."""
        eighth = STEPS // 2
        sizes = bars["numerator"] * 4 * STEPS // 2 ** bars["exponent"] // eighth
        since = int(random.integers(max(sizes[begin], 1))) * eighth
        until = int(random.integers(max(sizes[stop - 1], 1)) + 1) * eighth
        if stop - begin == 1 and until <= since:
            until = since + eighth
        early = (placed["line"] == begin) & (placed["place"] < since)
        late = (placed["line"] == stop - 1) & (placed["place"] >= until)
        edges: np.ndarray = early | late
        return edges

    def _voice(
        self, placed: np.ndarray, among: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """(n,) bool: some parts of the music ``among``; of one part alone, one voice."""
        parts = np.unique(placed["part"][among & (placed["part"] != CHORD)])
        if len(parts) > 1:
            if self.melody in parts and random.random() < MELODY:
                return among & (placed["part"] == self.melody)
            count = random.choice([1, len(parts) - 1, int(random.integers(1, len(parts)))])
            return among & np.isin(placed["part"], random.choice(parts, count, replace=False))
        notes = among & (placed["part"] != CHORD) & (placed["part"] != DRUM_PART)
        if not notes.any():
            return notes
        if random.random() < SKYLINE:
            return notes & skyline(placed, notes)
        limit = np.quantile(placed["tone"][notes], random.uniform(0.25, 0.75))
        above = placed["tone"] >= limit
        voice: np.ndarray = notes & (above if random.random() < 0.5 else ~above)
        return voice

    def _levels(
        self, bars: np.ndarray, placed: np.ndarray, random: np.random.Generator
    ) -> list[int]:
        """The levels of the controls of a window, some of them left out."""
        dropped = random.random(len(controls.CONTROLS)) < DROPPED
        if random.random() < NO_CONTROLS:
            return [0] * len(dropped)
        score = self.tokenizer.score(bars, placed)
        levels = controls.levels(controls.measured(score.notes, score.duration))
        return np.where(dropped, 0, levels).tolist()


def skyline(placed: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """(n,) bool: the highest of the ``notes`` at each place where some begin."""
    highest = np.zeros(len(placed), bool)
    at = np.flatnonzero(notes)
    spot = placed["line"][at] * 4096 + placed["place"][at]
    by_height = np.lexsort((placed["tone"][at], spot))
    last = np.append(np.diff(spot[by_height]) != 0, True)[: len(at)]
    highest[at[by_height[last]]] = True
    return highest


def _fitting(
    bars: np.ndarray, room: int, groups: np.ndarray
) -> tuple[int, int, Ahead | None] | None:
    stop = int(np.searchsorted(np.cumsum(groups), room, side="right"))
    return (0, stop, None) if stop else None


def _from(placed: np.ndarray, first: int) -> np.ndarray:
    """The groups from the bar ``first`` on, which becomes bar 0."""
    later = placed[placed["line"] >= first].copy()
    later["line"] -= first
    return later
