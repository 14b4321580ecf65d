"""Music in bars around notes that are known; :mod:`musictx.sampling.fill` composes it.

The model reads the piece so far and, before the bar in which it goes on, what is known of this and
the following bars (:mod:`musictx.tokens.lookahead`), as in training (``data/bar_tasks.py``). What
does not fit into its context is composed in segments.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from musictx.card import CorpusStats, Habit
from musictx.chords import annotated
from musictx.config import SamplingConfig
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling import engine, feedback, penalties, pitches
from musictx.sampling import infill_biases as biases
from musictx.sampling import processors as reshape
from musictx.sampling.constraints import EachRow
from musictx.sampling.drummers import Drummer
from musictx.sampling.given import GivenNotes, NewNotes
from musictx.sampling.given_bars import FREE, BarRow, GivenBars, Keyed, key_of
from musictx.sampling.harmonic_fit import HarmonicFit
from musictx.sampling.primer import Primer
from musictx.sampling.steer import Guidance, Steering
from musictx.sampling.strengths import AGAIN, VARIED
from musictx.tokens import lookahead
from musictx.tokens.bar_ids import FIELDS_PER_NOTE, REPEAT_FIELD, REPEATS, write
from musictx.tokens.bar_tokens import BarTokenizer
from musictx.tokens.bars import STEP_SECONDS
from musictx.tokens.controls import CONTROLS
from musictx.tokens.lookahead import Lookahead
from musictx.tokens.stream import CHORD, NoteStream
from musictx.tokens.vocab import BOS, CUT, PAD

#: Bars of an accompaniment, and after a gap, that are known ahead.
LOOK, TAIL = 8, 8
#: Shares of the context for the piece before what is composed at once, and for what is known ahead;
#: for bars that vary others, of which more is told.
PAST_SHARE, AHEAD_SHARE = 0.5, 0.25
PAST_OF_VARIED, AHEAD_OF_VARIED = 0.2, 0.4


class BarPart:
    """Music to be composed for ``kept``, the notes that stay, from ``begin`` to ``end`` (seconds of
    that score).

    closes  it is a gap: the music after ``end`` is known from the beginning on
    parts   of what is composed: programs, :data:`musictx.tokens.stream.DRUM_PART`
    habits  of some of them: how many of its notes sound at once, between which pitches
    drummers  of whom one has a say in new drums, another in each version of a seed
    varied  the score with the notes between ``begin`` and ``end`` that the new ones vary, if any
    """

    #: Of a step, as ids count them.
    seconds = STEP_SECONDS

    def __init__(
        self,
        model: MusicTransformer,
        tokenizer: BarTokenizer,
        music: Score,
        begin: float,
        end: float,
        *,
        closes: bool,
        parts: Collection[int],
        habits: Mapping[int, Habit] | None = None,
        drummers: Sequence[Drummer] = (),
        varied: Score | None = None,
        steering: Steering | None = None,
        context: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.table = model, tokenizer, tokenizer.vocabulary
        self.steering = steering or Steering((0,) * len(CONTROLS))
        self.context = context or model.config.context
        self.closes, self.habits, self.drummers = closes, habits or {}, drummers
        self.around = Primer(score=music if len(music) else None)  # for key=auto
        grid = tokenizer.grid(music, begin, end)
        self.clock, self.bars = grid.clock, grid.stream.bars
        #: Steps of the bar lines, and where the last bar ends, from the first of them.
        self.lines = grid.stream.lines
        self.begin, stop = grid.steps(begin, end)
        self.stop = max(stop, self.begin + 1)
        self.known = self._known(grid.stream.notes, bool(annotated(music)))
        self.told = self.known  # ahead of the bars to come
        self.varies = varied is not None
        if varied is not None:
            there = tokenizer.grid(varied, begin, end)
            there.stream.notes["start"] += self.begin - there.steps(begin)[0]
            first, stop = self.lines[[self._bar_of(self.begin), self._bar_of(self.stop - 1) + 1]]
            mine, known = (
                one[((one["start"] >= first) & (one["start"] < stop)) == inside]
                for one, inside in ((there.stream.notes, True), (self.known, False))
            )
            self.told = np.concatenate([mine, known])
        chords = not (self.known["part"][self._inside(self.known)] == CHORD).any()
        self.parts = sorted({*parts, *([CHORD] if tokenizer.chords and chords else [])})
        #: The number of the bar in which it goes on, and the ids of the piece so far.
        self.bar = self._bar_of(self.begin)
        before = self.known[self.known["start"] < self.lines[self.bar]]
        written = NoteStream(self.bars[: self.bar + 1], before)
        self.piece = write(written, self.table).astype(np.int64)
        if self.varies:
            self.piece[-FIELDS_PER_NOTE:] = self._bar_lines()[self.bar]
        held = NoteStream(self.bars, self.known[self.known["start"] < self.begin])
        held = held.in_bars(self.bar, self.bar + 1)
        self.piece = np.append(self.piece, write(held, self.table)[5:]).astype(np.int64)
        #: Of each note of the piece whether it is new.
        self.is_new = [False] * len(tokenizer.decode(self.piece).notes)
        self.done = False
        #: Another version, and the nats that its new notes cost where it has them.
        self.unlike: tuple[BarPart, float] | None = None

    def _known(self, placed: np.ndarray, named: bool) -> np.ndarray:
        """The groups that are known: chords of bars that are composed only if the file names
        them."""
        if named:
            return placed
        inside = self._inside(placed)
        return placed[~(inside & (placed["part"] == CHORD))]

    def _bar_lines(self) -> np.ndarray:
        """(B, 5) the groups of the bar lines; a variation says again what it varies says."""
        ids = write(NoteStream(self.bars, self.told), self.table)
        by_bar = lookahead.by_bar(ids, self.table.id("bar"))
        return np.stack([bar[0] for bar in by_bar])

    def _inside(self, notes: np.ndarray) -> np.ndarray:
        found: np.ndarray = (notes["start"] >= self.begin) & (notes["start"] < self.stop)
        return found

    def _bar_of(self, step: int) -> int:
        return int(np.searchsorted(self.lines, step, side="right")) - 1

    # -------------------------------------------------------- what ``fill.compose`` asks of a part

    @property
    def here(self) -> int:
        """The step up to which the piece is written."""
        return int(self.lines[self.bar])

    def again(self) -> BarPart:
        """Another part for the same notes, from the same beginning; before any is composed."""
        other = copy.copy(self)
        other.is_new = list(self.is_new)
        return other

    @property
    def new(self) -> np.ndarray:
        """The new notes (:data:`musictx.notes.NOTE`) so far, on the clock of the score."""
        notes = self.tokenizer.decode(self.piece).notes
        return self.placed(notes[np.array(self.is_new, bool)])

    @property
    def chords(self) -> tuple[tuple[float, str], ...]:
        """Seconds of the score and names of the chords that were composed."""
        if CHORD not in self.parts:
            return ()
        found = self.tokenizer.decode(self.piece).markers
        return tuple(
            (float(self.clock.seconds(time)), name)
            for time, name in found
            if self.begin <= round(time / self.seconds) < self.stop
        )

    def placed(self, notes: np.ndarray) -> np.ndarray:
        """``notes`` of the piece on the clock of the score."""
        notes = notes.copy()
        for name in ("start", "end"):
            notes[name] = self.clock.seconds(notes[name])
        return notes

    def written(self) -> np.ndarray:
        """The ids of what is written so far."""
        return self.piece

    # ---------------------------------------------------------------------------------- composing

    def prompt(self, levels: Collection[int]) -> tuple[np.ndarray, dict[int, list[int]]]:
        """What the model reads before it writes on; of later bars what is ahead of their lines."""
        front = lookahead.control_prefix(self.table, list(levels))
        bars = lookahead.by_bar(self.piece, self.table.id("bar"))
        groups = lookahead.groups_ahead(self.bars, self._ahead(), self.table)
        share = PAST_OF_VARIED if self.varies else PAST_SHARE
        room = int(share * self.context) - 1 - len(front)
        past = bars[: self.bar]
        while past and sum(bar.size for bar in past) > room:
            past = past[1:]
        opening = BOS if len(past) == self.bar else CUT
        rows = [*past, groups[0], *bars[self.bar :]]
        ids = np.concatenate([[opening], front, *(row.reshape(-1) for row in rows)])
        later = {n: g.reshape(-1).tolist() for n, g in enumerate(groups[1:], self.bar + 1)}
        return ids.astype(np.int64), later

    def _ahead(self) -> Lookahead:
        count = len(self.bars)
        last = self._bar_of(self.stop - 1)
        stop = min(last + 1 + TAIL, count) if self.closes else last + 1
        look = LOOK
        groups = 1 + np.bincount(NoteStream(self.bars, self.told).bar, minlength=count)
        room = int((AHEAD_OF_VARIED if self.varies else AHEAD_SHARE) * self.context)
        if self.closes and groups[self.bar : stop].sum() * FIELDS_PER_NOTE < room:
            look = count
        while look > 1 and groups[self.bar : self.bar + look].sum() * FIELDS_PER_NOTE > room:
            look //= 2
        sections = np.full(count, lookahead.WHOLE)
        sections[self._bar_of(self.begin) : last + 1] = lookahead.VARIED if self.varies else 0
        return Lookahead(self.bar, stop, look, self.told, sections, self.parts)

    def row(self, later: Mapping[int, list[int]], sampling: SamplingConfig) -> BarRow:
        """The constraint that goes on after the piece so far; of ``later`` bars it is told what is
        ahead of their lines."""
        openings = self._bar_lines()
        if not self.varies:
            openings[:, REPEAT_FIELD] = FREE
        groups = self._keyed(write(NoteStream(self.bars, self.known), self.table))
        new = NewNotes(
            self.table,
            self.begin,
            self.stop,
            self.parts,
            self.habits,
            pitches.pitch_sets(sampling, [self.around])[0],
        )
        mine = self.tokenizer.decode(self.piece).notes[np.array(self.is_new, bool)]
        ends = {
            (int(one["program"]), int(one["pitch"])): round(float(one["end"]) / self.seconds)
            for one in mine[~mine["drum"]]
        }
        given = GivenBars(self.table, self.lines, openings, groups, later)
        state = self.tokenizer.grammar(self.piece)
        return BarRow(new, state, given, self.bar, self._keyed(self.piece), ends)

    def biases(
        self, row: BarRow, sampling: SamplingConfig, seed: Sequence[int]
    ) -> list[biases.Bias]:
        """What makes its next ids likelier. With habits new notes are pulled to those of the bars
        that the given ones repeat, and pay for what they do in the harmony of given ones."""
        some: list[biases.Bias] = []
        if self.drummers:
            drummer = self.drummers[sum(seed) % len(self.drummers)]
            some.append(partial(biases.drummed, drummer=drummer))
        some.append(biases.rooted)
        if sampling.habits:
            fit = HarmonicFit(row.given.sounding, row.given.chords)
            some.append(partial(biases.fitted, fit=fit))
        if self.varies:
            back = self._bar_lines()[:, REPEAT_FIELD] - self.table.id("section") - REPEATS + 1
            bars = {bar: int(bar - back[bar]) for bar in np.flatnonzero(back > 0).tolist()}
            some.append(partial(biases.repeated, bars=bars, nats=VARIED))
        elif sampling.habits:
            bars = biases.repeats_among(NoteStream(self.bars, self.known))
            some.append(partial(biases.repeated, bars=bars, nats=AGAIN))
        if self.unlike is not None:
            other, nats = self.unlike
            given = {(bar, key) for bar, groups in enumerate(row.given.groups) for key, _ in groups}
            theirs = enumerate(other._keyed(other.piece))
            notes = {(bar, key) for bar, groups in theirs for key, _ in groups} - given
            some.append(partial(biases.avoided, notes=notes, nats=nats))
        return [*some, biases.completed, biases.on_line]

    def _keyed(self, ids: np.ndarray) -> list[list[Keyed]]:
        """The groups in each bar, with their keys."""
        bars = lookahead.by_bar(ids, self.table.id("bar"))
        return [[(key_of(self.table, one), one) for one in bar[1:].tolist()] for bar in bars]

    def take(self, drawn: Sequence[int], row: BarRow) -> None:
        """What was written of a segment, up to the last whole group; of all ids ``drawn`` the
        constraint knows which are of the piece."""
        whole = len(row.piece) - len(row.piece) % FIELDS_PER_NOTE
        self.piece = np.concatenate([self.piece, np.array(row.piece[:whole], np.int64)])
        self.is_new = [*self.is_new, *row.is_new]
        self.bar = int((self.piece == self.table.id("bar")).sum()) - 1
        self.done = row.done


def segment(
    some: Sequence[Any],
    sampling: SamplingConfig,
    stats: CorpusStats,
    after_step: Callable[[], None],
) -> None:
    """Write on until the context is full; of several that stand at the same place."""
    part: BarPart = some[0].part
    times = len(part.steering.rows)  # with guidance each a second time, unsteered
    prompts, later = zip(*(part.prompt(levels) for levels in part.steering.rows))
    lines = [one.part.row(later[0], sampling) for one in [*some] * times]
    pulls = [
        biases.InfillBias(row, one.part.biases(row, sampling, one.seed))
        for one, row in zip([*some] * times, lines)
    ]
    given = GivenNotes(lines, "bar")
    guidance = [Guidance(part.steering.guidance)] if times > 1 else []
    rows = len(lines)
    built = penalties.build(part.tokenizer, sampling, stats, [part.around] * rows)
    built += feedback.of(
        part.tokenizer, [part.steering.values] * rows, given=True, parts=part.steering.parts
    )
    steps = engine.generate(
        part.model,
        np.repeat(prompts, len(some), 0) if times > 1 else prompts[0],
        max_tokens=max(part.context - len(prompts[0]), 16 * FIELDS_PER_NOTE),
        processors=[*guidance, *reshape.build(sampling, part.tokenizer)],
        constraint=given,
        penalties=[*(given.free(one) for one in built), EachRow(pulls)],
        groups=given.groups,
        seeds=[[*one.seed, one.segments] for one in some] * times,
        context=part.context,
        align=FIELDS_PER_NOTE,
    )
    with closing(steps):
        for ids in steps:
            for one, row, token in zip(some, lines, ids.tolist()):
                if token != PAD:
                    one.drawn(token, row)
            after_step()
    for one, row in zip(some, lines):
        one.take([], row)
