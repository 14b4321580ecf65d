"""Music in bars around notes that are known; :mod:`musictx.sampling.fill` composes it.

The model reads the piece so far and, before the bar in which it goes on, what is known of this and
the following bars (:mod:`musictx.tokens.ahead`), as in training (``data/bar_tasks.py``). What does
not fit into its context is composed in segments.
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
from musictx.tokens import ahead
from musictx.tokens.ahead import Ahead
from musictx.tokens.bars import STEP_SECONDS, STEPS
from musictx.tokens.controls import CONTROLS
from musictx.tokens.group_ids import CHORD, FIELDS_A_GROUP, LINE_SAYS, RETURNS, write
from musictx.tokens.groups import GroupTokenizer
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
    parts   of what is composed: programs, :data:`musictx.tokens.group_ids.DRUM_PART`
    habits  of some of them: how many of its notes sound at once, between which pitches
    drummers  of whom one has a say in new drums, another in each version of a seed
    varied  the score with the notes between ``begin`` and ``end`` that the new ones vary, if any
    """

    #: Of a step, as ids count them.
    seconds = STEP_SECONDS

    def __init__(
        self,
        model: MusicTransformer,
        tokenizer: GroupTokenizer,
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
        self.clock, self.bars = grid.clock, grid.bars
        self.first = int(grid.clock.lines[grid.first])
        #: Steps of the bar lines, and where the last bar ends, from the first of them.
        self.lines = grid.clock.lines[grid.first : grid.first + len(grid.bars) + 1] - self.first
        steps = grid.clock.place(np.array([begin, end]))[0] - self.first
        self.begin, self.stop = int(steps[0]), max(int(steps[1]), int(steps[0]) + 1)
        self.known = self._known(grid.placed, bool(annotated(music)))
        self.told = self.known  # ahead of the bars to come
        self.varies = varied is not None
        if varied is not None:
            there = tokenizer.grid(varied, begin, end)
            there.placed["line"] += there.first - grid.first
            lines = self._bar_of(self.begin), self._bar_of(self.stop - 1)
            mine, known = (
                one[((one["line"] >= lines[0]) & (one["line"] <= lines[1])) == inside]
                for one, inside in ((there.placed, True), (self.known, False))
            )
            self.told = np.concatenate([mine, known])
        chords = not (self.known["part"][self._inside(self.known)] == CHORD).any()
        self.parts = sorted({*parts, *([CHORD] if tokenizer.chords and chords else [])})
        #: The number of the bar in which it goes on, and the ids of the piece so far.
        self.bar = self._bar_of(self.begin)
        before = self.known[self._step(self.known) < self.lines[self.bar]]
        self.piece = write(self.bars[: self.bar + 1], before, self.table).astype(np.int64)
        if self.varies:
            self.piece[-FIELDS_A_GROUP:] = self._bar_lines()[self.bar]
        held = self.known[self.known["line"] == self.bar]
        held = held[self._step(held) < self.begin].copy()
        held["line"] = 0
        self.piece = np.append(
            self.piece, write(self.bars[self.bar : self.bar + 1], held, self.table)[5:]
        ).astype(np.int64)
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
        by_bar = ahead.by_bar(write(self.bars, self.told, self.table), self.table.id("bar"))
        return np.stack([bar[0] for bar in by_bar])

    def _step(self, placed: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.lines[placed["line"]] + placed["place"]
        return found

    def _inside(self, placed: np.ndarray) -> np.ndarray:
        step = self._step(placed)
        found: np.ndarray = (step >= self.begin) & (step < self.stop)
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
        steps = [time / self.seconds for time, _ in found]
        return tuple(
            (float(self.clock.clock.seconds((step + self.first) / STEPS)), name)
            for step, (_, name) in zip(steps, found)
            if self.begin <= round(step) < self.stop
        )

    def placed(self, notes: np.ndarray) -> np.ndarray:
        """``notes`` of the piece on the clock of the score."""
        notes = notes.copy()
        for name in ("start", "end"):
            steps = notes[name] / self.seconds + self.first
            notes[name] = self.clock.clock.seconds(steps / STEPS)
        return notes

    def written(self) -> np.ndarray:
        """The ids of what is written so far."""
        return self.piece

    # ---------------------------------------------------------------------------------- composing

    def prompt(self, levels: Collection[int]) -> tuple[np.ndarray, dict[int, list[int]]]:
        """What the model reads before it writes on; of later bars what is ahead of their lines."""
        front = ahead.front(self.table, list(levels))
        bars = ahead.by_bar(self.piece, self.table.id("bar"))
        told = self._ahead()
        groups = ahead.groups_ahead(self.bars, told, self.table)
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

    def _ahead(self) -> Ahead:
        count = len(self.bars)
        last = self._bar_of(self.stop - 1)
        stop = min(last + 1 + TAIL, count) if self.closes else last + 1
        look = LOOK
        groups = 1 + np.bincount(self.told["line"], minlength=count)
        room = int((AHEAD_OF_VARIED if self.varies else AHEAD_SHARE) * self.context)
        if self.closes and groups[self.bar : stop].sum() * FIELDS_A_GROUP < room:
            look = count
        while look > 1 and groups[self.bar : self.bar + look].sum() * FIELDS_A_GROUP > room:
            look //= 2
        sections = np.full(count, ahead.WHOLE)
        sections[self._bar_of(self.begin) : last + 1] = ahead.VARIED if self.varies else 0
        return Ahead(self.bar, stop, look, self.told, sections, self.parts)

    def row(self, later: Mapping[int, list[int]], sampling: SamplingConfig) -> BarRow:
        """The constraint that goes on after the piece so far; of ``later`` bars it is told what is
        ahead of their lines."""
        openings = self._bar_lines()
        if not self.varies:
            openings[:, LINE_SAYS] = FREE
        groups = self._keyed(write(self.bars, self.known, self.table))
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
            back = self._bar_lines()[:, LINE_SAYS] - self.table.id("section") - RETURNS + 1
            bars = {bar: int(bar - back[bar]) for bar in np.flatnonzero(back > 0).tolist()}
            some.append(partial(biases.repeated, bars=bars, nats=VARIED))
        elif sampling.habits:
            bars = biases.repeats_among(self.bars, self.known)
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
        bars = ahead.by_bar(ids, self.table.id("bar"))
        return [[(key_of(self.table, one), one) for one in bar[1:].tolist()] for bar in bars]

    def take(self, drawn: Sequence[int], row: BarRow) -> None:
        """What was written of a segment, up to the last whole group; of all ids ``drawn`` the
        constraint knows which are of the piece."""
        whole = len(row.piece) - len(row.piece) % FIELDS_A_GROUP
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
        max_tokens=max(part.context - len(prompts[0]), 16 * FIELDS_A_GROUP),
        processors=[*guidance, *reshape.build(sampling, part.tokenizer)],
        constraint=given,
        penalties=[*(given.free(one) for one in built), EachRow(pulls)],
        groups=given.groups,
        seeds=[[*one.seed, one.segments] for one in some] * times,
        context=part.context,
        align=FIELDS_A_GROUP,
    )
    with closing(steps):
        for ids in steps:
            for one, row, token in zip(some, lines, ids.tolist()):
                if token != PAD:
                    one.drawn(token, row)
            after_step()
    for one, row in zip(some, lines):
        one.take([], row)
