"""Music in bars around notes that are known; :mod:`musictx.sampling.fill` composes it.

The model reads the piece so far and, before the bar in which it goes on, what is known of this and
the following bars (:mod:`musictx.tokens.lookahead`), as in training (``data/bar_tasks.py``). What
does not fit into its context is composed in segments.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from musictx.card import CorpusStats, Habit
from musictx.chords import annotated
from musictx.config import SamplingConfig
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling import engine, group_costs, pitches, soft
from musictx.sampling import processors as reshape
from musictx.sampling.bar_rules import BarRules, Key, key_of, returns
from musictx.sampling.drummers import Drummer
from musictx.sampling.infill_biases import InfillBias
from musictx.sampling.known_groups import DRAWN, BarRow, KnownGroups
from musictx.sampling.primer import Primer
from musictx.sampling.steer import Guidance, Steering
from musictx.tokens import lookahead
from musictx.tokens.bar_ids import FIELDS_PER_NOTE, REPEAT_FIELD, REPEATS, write
from musictx.tokens.bar_tokens import BarTokenizer
from musictx.tokens.bars import STEP_SECONDS
from musictx.tokens.controls import CONTROLS
from musictx.tokens.lookahead import Lookahead
from musictx.tokens.stream import CHORD, NoteStream
from musictx.tokens.vocab import BOS, CUT, PAD, GrammarState, SoftConstraint

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
    parts   of what is composed: programs, :data:`musictx.tokens.bar_ids.DRUM_PART`
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

    def rules(
        self, later: dict[int, list[int]], sampling: SamplingConfig | None = None
    ) -> BarRules:
        """By ``sampling`` the pitches of new notes; with its habits they are pulled to those of the
        bars that the known ones say again, and pay for what they do beside known ones."""
        sampling = sampling or SamplingConfig()
        habits = sampling.habits
        opening, again = self._bar_lines(), {}
        if self.varies:
            back = opening[:, REPEAT_FIELD] - self.table.id("section") - REPEATS + 1
            again = {bar: int(bar - back[bar]) for bar in np.flatnonzero(back > 0).tolist()}
        elif habits:
            again = returns(NoteStream(self.bars, self.known))
        if not self.varies:
            opening[:, REPEAT_FIELD] = DRAWN
        known = self._keyed(write(NoteStream(self.bars, self.known), self.table))
        return BarRules(
            self.table,
            self.lines,
            opening,
            known,
            later,
            self.begin,
            self.stop,
            self.parts,
            again,
            self.habits,
            habits,
            self.varies,
            pitches.pitch_sets(sampling, [self.around])[0],
            *self._avoided(),
        )

    def _avoided(self) -> tuple[frozenset[tuple[int, Key]], float]:
        """Bar and key of the new notes of another version, and the nats that each costs."""
        if self.unlike is None:
            return frozenset(), 0.0
        other, nats = self.unlike
        keyed = self._keyed(other.piece)
        ids = write(NoteStream(self.bars, self.known), self.table)
        known = [{key for key, _ in bar} for bar in self._keyed(ids)]
        return frozenset(
            (bar, key)
            for bar, groups in enumerate(keyed)
            for key, _ in groups
            if key not in known[bar]
        ), nats

    def row(self, rules: BarRules, seed: Sequence[int]) -> BarRow:
        """The constraint that goes on after the piece so far."""
        state = self.tokenizer.grammar(self.piece)
        written = self._keyed(self.piece)
        at = written[-1][-1][0] if written[-1] else None
        own = self.tokenizer.decode(self.piece).notes[np.array(self.is_new, bool)]
        ends = {
            (int(one["program"]), int(one["pitch"])): round(float(one["end"]) / self.seconds)
            for one in own[~own["drum"]]
        }
        drummer = self.drummers[sum(seed) % len(self.drummers)] if self.drummers else None
        return BarRow(rules, state, self.bar, at, ends, drummer, written)

    def _keyed(self, ids: np.ndarray) -> list[list[tuple[Key, list[int]]]]:
        """The groups in each bar, with their keys."""
        bars = lookahead.by_bar(ids, self.table.id("bar"))
        return [[(key_of(self.table, one), one) for one in bar[1:].tolist()] for bar in bars]

    def take(self, drawn: Sequence[int], row: BarRow) -> None:
        """What was written of a segment, up to the last whole group; of all ids ``drawn`` the
        constraint knows which are of the piece."""
        whole = len(row.piece) - len(row.piece) % FIELDS_PER_NOTE
        self.piece = np.concatenate([self.piece, np.array(row.piece[:whole], np.int64)])
        self.is_new = [*self.is_new, *row.own_strikes]
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
    rules = part.rules(later[0], sampling)
    known = KnownGroups(rules, [one.part.row(rules, one.seed) for one in [*some] * times])
    guidance = [Guidance(part.steering.guidance)] if times > 1 else []
    rows = len(known.rows)
    constraints = soft.build(part.tokenizer, sampling, stats, [part.around] * rows)
    constraints += group_costs.of(
        part.tokenizer, [part.steering.values] * rows, known=True, parts=part.steering.parts
    )
    steps = engine.generate(
        part.model,
        np.repeat(prompts, len(some), 0) if times > 1 else prompts[0],
        max_tokens=max(part.context - len(prompts[0]), 16 * FIELDS_PER_NOTE),
        processors=[*guidance, *reshape.build(sampling, part.tokenizer)],
        constraint=known,
        soft=[*(_but_for_known(one, known) for one in constraints), InfillBias(rules, known.rows)],
        groups=known.groups,
        seeds=[[*one.seed, one.segments] for one in some] * times,
        context=part.context,
        align=FIELDS_PER_NOTE,
    )
    with closing(steps):
        for ids in steps:
            for one, row, token in zip(some, known.rows, ids.tolist()):
                if token != PAD:
                    one.drawn(token, row)
            after_step()
    for one, row in zip(some, known.rows):
        one.take([], row)


def _but_for_known(constraint: SoftConstraint, known: KnownGroups) -> SoftConstraint:
    """``constraint``, which costs nothing where a known group is written."""

    def costs(states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
        if (charged := constraint(states, past)) is None:
            return None
        size = len(known.rows[0].rules.table.kind_of)
        found = np.broadcast_to(charged, (len(known.rows), size)).copy()
        for row, of_row in zip(found, known.rows):
            if (token := of_row.due()) is not None:
                row[token] = 0.0
        return found

    return costs
