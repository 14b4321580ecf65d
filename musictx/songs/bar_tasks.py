"""Training tasks for notes in bars, in the windows of :mod:`musictx.songs.bar_codec`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from musictx.data.tasks import GIVEN_VOICE_SHARE, Tasks, draw_begin, draw_length, draw_voice
from musictx.notes import DRUMS
from musictx.songs import bar_codec
from musictx.songs.bar_codec import FIELDS_PER_NOTE, TAIL_BARS, GivenAhead
from musictx.songs.repeats import MIN_SIMILARITY, similarity_at_distance
from musictx.tokens.stream import CHORD, STEPS_PER_QUARTER, NoteStream, bar_steps
from musictx.tokens.vocab import BOS, CUT, EOS

#: The fewest and the most bars of a gap, and of a variation.
GAP_BARS, VARIED_BARS = (1, 16), (2, 16)
#: The share of gaps that begin and end at bar lines; other gaps begin and end at eighths.
AT_LINES_SHARE = 0.8
#: The numbers of bars that the model looks ahead in accompaniments, one of which is drawn.
LOOKAHEADS = (1, 2, 4, 8, 16)
#: The share of accompaniments with given chords alone; of other accompaniments, and of gaps, with
#: given chords; of windows that name the parts to compose.
CHORDS_ALONE_SHARE, CHORDS_SHARE, NAMED_SHARE = 0.15, 0.5, 0.7
#: The share of given voices that are the melody, if its program is configured and plays; of voices
#: of a single part that are its highest notes.
MELODY_SHARE, SKYLINE_OF_PART_SHARE = 0.5, 0.6
#: The share of variations whose window may include the bars that are varied, and the share with
#: given music after the variation.
IN_SIGHT_SHARE, TAIL_SHARE = 0.5, 0.5
#: The fewest notes, and the fewest bars, of a window with a task.
FEWEST_WINDOW_NOTES, FEWEST_BARS = 24, 3

#: The given notes ahead, the first bar of the window, and the bar after its last one.
WindowBars = tuple[GivenAhead, int, int]


class BarTasks(Tasks):
    """Tasks of notes in bars."""

    no_controls_share = 0.3
    fewest_ids = (FEWEST_WINDOW_NOTES + 1) * FIELDS_PER_NOTE + 2  # 2: bos and eos

    def arrange(
        self, task: str, ids: np.ndarray, random: Generator, begins: bool, ends: bool, budget: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        room = (budget - 2) // FIELDS_PER_NOTE - 1  # in groups, without bos, eos and controls
        stream = self.tokenizer.read(ids)
        if not ends:  # the last bar may be incomplete
            stream = stream.in_bars(0, max(len(stream.bars) - 1, 0))
        if min(room, len(stream.notes)) < FEWEST_WINDOW_NOTES or len(stream.bars) < FEWEST_BARS:
            return None
        ahead, first = None, 0
        by_task = {"infill": self._infill, "accompany": self._accompany, "vary": self._vary}
        if task in by_task:
            bars = by_task[task](stream, random)
            if bars is None or (bars := _fit(stream, room, *bars)) is None:
                return None
            ahead, first, stop = bars
        else:
            stop = int(np.searchsorted(np.cumsum(_group_counts(stream)), room, side="right"))
            if not stop:
                return None
        sequence, targets = bar_codec.interleave(stream, ahead, self.vocabulary, first, stop)
        if ahead is not None:  # the id after a bar ends it, so it is a target even if it is ahead
            after_bars = np.flatnonzero(targets[:-1] & ~targets[1:]) + 1
            if ahead.begin > first:  # nothing is composed before the first group ahead
                after_bars = after_bars[1:]
            targets[after_bars] = True
        score = self.tokenizer.score(stream.in_bars(first, stop))
        levels = self._levels(score, score.duration, random)
        prefix = [BOS if begins and first == 0 else CUT]
        prefix += bar_codec.control_prefix(self.vocabulary, levels).tolist()
        end = [EOS] if ends and stop == len(stream.bars) else []
        window = np.concatenate([prefix, sequence, end]).astype(np.int64)
        scored = np.concatenate([np.zeros(len(prefix), bool), targets, np.ones(len(end), bool)])
        return (window, scored) if len(window) - 1 <= budget else None

    def _infill(self, stream: NoteStream, random: Generator) -> WindowBars | None:
        bar, count = stream.bar, len(stream.bars)
        size = min(int(draw_length(GAP_BARS, random)), max(count * 2 // 3, 1))
        begin = int(random.integers(count - size + 1))
        stop = begin + size
        given_stop = min(stop + int(random.integers(TAIL_BARS + 1)), count)
        new = (bar >= begin) & (bar < stop)
        if random.random() >= AT_LINES_SHARE:
            new &= ~self._edges(stream, begin, stop, random)
        if random.random() < CHORDS_SHARE:
            new &= stream.notes["part"] != CHORD
        if random.random() < GIVEN_VOICE_SHARE:
            new &= ~self._voice(stream.notes, new, random)
        ahead = self._given_ahead(stream, new, begin, given_stop, random)
        return None if ahead is None else (ahead, 0, stop)

    def _accompany(self, stream: NoteStream, random: Generator) -> WindowBars | None:
        notes, count = stream.notes, len(stream.bars)
        begin = draw_begin(count, random)
        region, chords = stream.bar >= begin, notes["part"] == CHORD
        given = chords.copy()
        if random.random() >= CHORDS_ALONE_SHARE:
            given = self._voice(notes, region & ~chords, random)
            if random.random() < CHORDS_SHARE:
                given |= chords
        lookahead = int(random.choice(LOOKAHEADS))
        ahead = self._given_ahead(stream, region & ~given, begin, count, random)
        return None if ahead is None else (replace(ahead, lookahead=lookahead), 0, count)

    def _given_ahead(
        self, stream: NoteStream, new: np.ndarray, begin: int, stop: int, random: Generator
    ) -> GivenAhead | None:
        """All notes but the ``new`` ones, (n,) bool, as given notes of the bars ``begin`` to
        ``stop`` - 1, which the model looks ahead to the end; ``None`` if nothing is new."""
        if not new.any():
            return None
        is_whole = np.bincount(stream.bar[new], minlength=len(stream.bars)) == 0
        sections = np.where(is_whole, bar_codec.WHOLE, 0)
        parts = self._named_parts(stream.notes[new], random)
        return GivenAhead(begin, stop, len(stream.bars), stream.notes[~new], sections, parts)

    def _named_parts(self, new: np.ndarray, random: Generator) -> list[int]:
        """The parts of the ``new`` notes if the window is to name them, else an empty list."""
        return np.unique(new["part"]).tolist() if random.random() < NAMED_SHARE else []

    def _vary(self, stream: NoteStream, random: Generator) -> WindowBars | None:
        bars, notes, bar = stream.bars, stream.notes, stream.bar
        size = min(round(draw_length(VARIED_BARS, random)), len(bars) // 2)
        # {first bar: (mean similarity, distance) of the earlier bars that are most similar}
        candidates: dict[int, tuple[float, int]] = {}
        for back in range(size, len(bars) - size + 1):
            means = np.convolve(similarity_at_distance(stream, back), np.ones(size) / size, "valid")
            for source in np.flatnonzero(means >= MIN_SIMILARITY).tolist():
                best = candidates.get(source + back, (0.0, 0))
                candidates[source + back] = max(best, (float(means[source]), back))
        if not candidates:
            return None
        begin = int(random.choice(sorted(candidates)))
        _, back = candidates[begin]
        stop = begin + size
        tail = int(random.integers(1, TAIL_BARS + 1)) if random.random() < TAIL_SHARE else 0
        given_stop = min(stop + tail, len(bars))
        varied = notes[(bar >= begin - back) & (bar < stop - back)].copy()
        varied["start"] += stream.lines[begin] - stream.lines[begin - back]
        given = np.concatenate([varied, notes[(bar >= stop) & (bar < given_stop)]])
        sections = np.full(len(bars), bar_codec.WHOLE)
        sections[begin:stop] = bar_codec.VARIED
        parts = self._named_parts(notes[(bar >= begin) & (bar < stop)], random)
        earliest = 0 if random.random() < IN_SIGHT_SHARE else stop - back
        ahead = GivenAhead(begin, given_stop, len(bars), given, sections, parts)
        return ahead, earliest, stop

    def _edges(self, stream: NoteStream, begin: int, stop: int, random: Generator) -> np.ndarray:
        """(n,) bool: the notes of the bar ``begin`` before a random eighth, and those of the bar
        ``stop`` - 1 from a random eighth on."""
        eighth = STEPS_PER_QUARTER // 2
        bars, notes, bar = stream.bars, stream.notes, stream.bar
        place = notes["start"] - stream.lines[bar]
        sizes = bar_steps(bars["numerator"], bars["exponent"]) // eighth
        first = int(random.integers(max(sizes[begin], 1))) * eighth
        last = int(random.integers(max(sizes[stop - 1], 1)) + 1) * eighth
        if stop - begin == 1 and last <= first:
            last = first + eighth
        early = (bar == begin) & (place < first)
        late = (bar == stop - 1) & (place >= last)
        edges: np.ndarray = early | late
        return edges

    def _voice(self, notes: np.ndarray, candidates: np.ndarray, random: Generator) -> np.ndarray:
        """(n,) bool: of the ``candidates``, (n,) bool, the notes of randomly chosen parts or, if
        there is only one part, of one of its voices."""
        parts = np.unique(notes["part"][candidates & (notes["part"] != CHORD)])
        if len(parts) > 1:
            if self.melody in parts and random.random() < MELODY_SHARE:
                return candidates & (notes["part"] == self.melody)
            count = random.choice([1, len(parts) - 1, int(random.integers(1, len(parts)))])
            return candidates & np.isin(notes["part"], random.choice(parts, count, replace=False))
        pitched = candidates & (notes["part"] != CHORD) & (notes["part"] != DRUMS)
        # The ends are a step after the starts, so the skyline is the highest note of each onset.
        return draw_voice(notes, pitched, notes["start"] + 1, SKYLINE_OF_PART_SHARE, random)


def _group_counts(stream: NoteStream) -> np.ndarray:
    """(B,) the number of groups in each bar: its bar line and its notes."""
    return 1 + np.bincount(stream.bar, minlength=len(stream.bars))


def _fit(
    stream: NoteStream, room: int, ahead: GivenAhead, earliest: int, stop: int
) -> WindowBars | None:
    """The bars ``earliest`` to ``stop`` - 1, or as many of them as fit into ``room`` groups with
    the given notes ``ahead``; ``None`` if these are too few.

    If the model looks ahead to the end, all bars from ``ahead.begin`` on must fit, and as many bars
    before them as fit are added. Otherwise the window has as many bars as fit, from bar 0.
    """
    begin, groups = ahead.begin, _group_counts(stream)
    groups_ahead = _group_counts(stream._replace(notes=ahead.given))
    groups_ahead[:begin] = 0
    room -= len(ahead.parts)
    if ahead.lookahead < len(stream.bars):
        total = np.cumsum(groups + groups_ahead) + groups_ahead[: ahead.lookahead + begin].sum()
        stop = min(stop, int(np.searchsorted(total, room, side="right")))
        return (replace(ahead, stop=stop), 0, stop) if stop >= begin + 2 else None
    room -= int(groups[begin:stop].sum() + groups_ahead[begin : ahead.stop].sum())
    first = begin
    while first > earliest and room >= groups[first - 1]:
        first -= 1
        room -= int(groups[first])
    return (ahead, first, stop) if room >= 0 else None
