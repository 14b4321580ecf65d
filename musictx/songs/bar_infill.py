"""Infilling for notes in bars: new notes between given ones; see :mod:`musictx.sampling.infill`.

The model reads the piece so far and, ahead of the bar that it continues with, the given notes of
this bar and the next ones (:mod:`musictx.songs.bar_layout`), as in training
(``songs/bar_tasks.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from musictx.chords import annotated
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling.constraints import EachRow
from musictx.sampling.infill import Infill, NewNotes
from musictx.sampling.penalties import pitch_set
from musictx.sampling.strengths import AHEAD_SHARE, PAST_SHARE
from musictx.songs import bar_layout, infill_biases
from musictx.songs.bar_codec import FIELDS_PER_NOTE, REPEAT_FIELD, write
from musictx.songs.bar_constraint import FREE, BarRow, GivenBars
from musictx.songs.bar_grammar import Group, Key
from musictx.songs.bar_layout import LOOKAHEAD_BARS, TAIL_BARS, Lookahead
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import STEP_SECONDS
from musictx.songs.biases import Nats
from musictx.songs.drummers import IN_KIT, Drummer, section_begins, section_marks
from musictx.songs.infill_biases import BASS, HarmonicFit
from musictx.songs.repeats import repeated
from musictx.tokens.stream import CHORD, DRUM_PART, NoteStream
from musictx.tokens.tokenizer import Penalty
from musictx.tokens.vocab import BOS, CUT


class BarInfill(Infill):
    """Composes the notes from ``begin`` to ``end``, in seconds. In a gap, the model reads the music
    after the gap from the beginning on, as far as its context allows.

    drummers  styles for new drums; the seed of a version chooses its drummer
    varied    the score with the notes to vary, if the new notes are a variation
    bass      the lowest and the highest usual pitch of a bass

    clock     converts the seconds of the ids to those of the score
    bars      (B,) all bars (:data:`musictx.tokens.stream.BAR`)
    lines     (B + 1,) the steps at which the bars begin, and at which the last bar ends
    sections  the numbers of the bars at which one section ends and the next begins
    given     the notes that are kept;  ahead  the notes that the model reads ahead of their bars
    bar       the number of the current bar, which is continued
    piece     the ids so far

    """

    step_seconds = STEP_SECONDS
    tokenizer: BarTokenizer
    row: BarRow
    parts: list[int]

    def __init__(
        self,
        model: MusicTransformer,
        tokenizer: BarTokenizer,
        music: Score,
        begin: float,
        end: float,
        *,
        drummers: Sequence[Drummer] = (),
        varied: Score | None = None,
        bass: tuple[int, int] = (0, -1),
        **options: Any,
    ) -> None:
        super().__init__(model, tokenizer, music, **options)
        self.table, self.drummers, self.done = tokenizer.vocabulary, drummers, False
        grid = tokenizer.grid(music, begin, end)
        self.bass = bass
        self.clock, self.bars, self.lines = grid.clock, grid.stream.bars, grid.stream.lines
        self.begin, stop = grid.steps(begin, end)
        self.stop = max(stop, self.begin + 1)
        first = int(np.abs(self.lines - self.begin).argmin())  # after a pick-up, if any
        marks = {self._bar_of(step) for step in grid.steps(*section_marks(music))}
        self.sections = section_begins(first, len(self.bars), marks)
        self.given = grid.stream.notes
        if not annotated(music):  # the file names no chords, so chords are composed, too
            chord = self.given["part"] == CHORD
            self.given = self.given[~(self._inside(self.given) & chord)]
        self.varies = varied is not None
        self.ahead = self.given if varied is None else self._with_varied(varied, begin, end)
        chords = not (self.given["part"][self._inside(self.given)] == CHORD).any()
        parts = {0} if self.parts is None else {*self.parts}
        self.parts = sorted(parts | ({CHORD} if tokenizer.chords and chords else set()))
        self.bar = self._bar_of(self.begin)
        before = self.given[self.given["start"] < self.lines[self.bar]]
        piece = write(NoteStream(self.bars[: self.bar + 1], before), self.table).astype(np.int64)
        if self.varies:
            piece[-FIELDS_PER_NOTE:] = self._bar_lines()[self.bar]
        earlier = NoteStream(self.bars, self.given[self.given["start"] < self.begin])
        in_bar = write(earlier.in_bars(self.bar, self.bar + 1), self.table)[FIELDS_PER_NOTE:]
        self.piece = np.append(piece, in_bar).astype(np.int64)
        self.is_new = [False] * len(tokenizer.decode(self.piece).notes)

    def _with_varied(self, varied: Score, begin: float, end: float) -> np.ndarray:
        """The notes of ``varied`` in the bars that are composed, and the given notes in all other
        bars."""
        grid = self.tokenizer.grid(varied, begin, end)
        notes = grid.stream.notes
        notes["start"] += self.begin - grid.steps(begin)[0]
        first, stop = self.lines[[self._bar_of(self.begin), self._bar_of(self.stop - 1) + 1]]
        inner, outer = (
            source[((source["start"] >= first) & (source["start"] < stop)) == inside]
            for source, inside in ((notes, True), (self.given, False))
        )
        return np.concatenate([inner, outer])

    def _bar_lines(self) -> np.ndarray:
        """(B, 5) the ids of the bar lines, with the earlier bar that each bar repeats. In a
        variation the repeated bars are those of the notes that are varied."""
        ids = write(NoteStream(self.bars, self.ahead), self.table)
        return np.stack([bar[0] for bar in bar_layout.by_bar(ids, self.table.id("bar"))])

    def _inside(self, notes: np.ndarray) -> np.ndarray:
        inside: np.ndarray = (notes["start"] >= self.begin) & (notes["start"] < self.stop)
        return inside

    def _bar_of(self, step: int) -> int:
        return int(np.searchsorted(self.lines, step, side="right")) - 1

    def _groups(self, ids: np.ndarray) -> list[list[Group]]:
        """The groups in each bar."""
        bars = bar_layout.by_bar(ids, self.table.id("bar"))
        return [[Group.of(self.table, group) for group in bar[1:].tolist()] for bar in bars]

    @property
    def here(self) -> int:  # type: ignore[override]
        return int(self.lines[self.bar])

    @property
    def varied(self) -> np.ndarray | None:
        if not self.varies:
            return None
        old = NoteStream(self.bars, self.ahead[self._inside(self.ahead)])
        return self.placed(self.tokenizer.score(old).notes)

    @property
    def chords(self) -> tuple[tuple[float, str], ...]:
        if CHORD not in self.parts:
            return ()
        return tuple(
            (float(self.clock.seconds(time)), name)
            for time, name in self.tokenizer.decode(self.piece).markers
            if self.begin <= round(time / STEP_SECONDS) < self.stop
        )

    def placed(self, notes: np.ndarray) -> np.ndarray:
        return self.clock.placed(notes)

    def written(self) -> np.ndarray:
        return self.piece

    # ---------------------------------------------------------------------------------- composing

    def _groups_ahead(self) -> list[np.ndarray]:
        """The groups ahead, (n, 5), of the current bar and of each bar after it."""
        return bar_layout.groups_ahead(self.bars, self._ahead(), self.table)

    def prompt(self, levels: Sequence[int]) -> np.ndarray:
        controls = bar_layout.control_prefix(self.table, levels)
        bars = bar_layout.by_bar(self.piece, self.table.id("bar"))
        room = int(PAST_SHARE * self.context) - 1 - len(controls)
        first = 0
        while sum(bar.size for bar in bars[first : self.bar]) > room:
            first += 1
        groups = [*bars[first : self.bar], self._groups_ahead()[0], *bars[self.bar :]]
        opening = [CUT if first else BOS]
        return np.concatenate([opening, controls, *(rows.reshape(-1) for rows in groups)])

    def _ahead(self) -> Lookahead:
        count = len(self.bars)
        last = self._bar_of(self.stop - 1)
        stop = min(last + 1 + TAIL_BARS, count) if self.is_gap else last + 1
        look = LOOKAHEAD_BARS
        groups = 1 + np.bincount(NoteStream(self.bars, self.ahead).bar, minlength=count)
        room = int(AHEAD_SHARE * self.context)
        if self.is_gap and groups[self.bar : stop].sum() * FIELDS_PER_NOTE < room:
            look = count
        while look > 1 and groups[self.bar : self.bar + look].sum() * FIELDS_PER_NOTE > room:
            look //= 2
        sections = np.full(count, bar_layout.WHOLE)
        sections[self._bar_of(self.begin) : last + 1] = bar_layout.VARIED if self.varies else 0
        return Lookahead(self.bar, stop, look, self.ahead, sections, self.parts)

    def rows(self, count: int) -> list[BarRow]:  # type: ignore[override]
        openings = self._bar_lines()
        if not self.varies:
            openings[:, REPEAT_FIELD] = FREE
        groups = self._groups(write(NoteStream(self.bars, self.given), self.table))
        later = (rows.reshape(-1).tolist() for rows in self._groups_ahead()[1:])
        ahead = dict(enumerate(later, self.bar + 1))
        given = GivenBars(self.lines, openings, self.given, groups, ahead)
        new = NewNotes(
            self.table,
            self.begin,
            self.stop,
            self.parts,
            self.habits,
            pitch_set(self.sampling, self.around),
            IN_KIT if self.drummers else None,
        )
        state = self.tokenizer.grammar(self.piece)
        return [BarRow(new, state.copy(), given) for _ in range(count)]

    def biases(
        self,
        regions: Sequence[Self],
        rows: Sequence[BarRow],  # type: ignore[override]
    ) -> list[Penalty]:
        """The biases of each row. A bar that repeats an earlier one favours the notes of that bar.
        With ``sampling.habits`` other bars favour the rhythm of the bar before, except in a
        variation, and notes outside the harmony of the given notes are penalised. If the new
        version is to be unlike another one, a random half of the other version's new notes is
        penalised, so that the other half may stay."""
        back = np.zeros(len(self.bars), np.int64)
        if self.varies:
            back = repeated(NoteStream(self.bars, self.ahead))
        elif self.sampling.habits:
            back = infill_biases.repeated_bars(NoteStream(self.bars, self.given))
        shared: list[Callable[[BarRow], Nats]] = []
        if BASS in self.habits:
            shared.append(partial(infill_biases.on_root, part=BASS))
        elif (part := self._lowest_part()) is not None:
            low, high = self.bass
            shared.append(partial(infill_biases.on_root, part=part, low=low, high=high))
        if self.sampling.habits:
            shared.append(partial(infill_biases.in_harmony, fit=HarmonicFit(self.given)))
        steady = self.sampling.habits and not self.varies
        shared.append(partial(infill_biases.as_in_repeated_bar, back=back, steady=steady))
        penalties = []
        for row, region in zip(rows, regions):
            of_row = list(shared)
            if self.drummers:
                drummer = self.drummers[sum(region.seed) % len(self.drummers)]
                drums = partial(
                    infill_biases.drummer_strokes, drummer=drummer, sections=self.sections
                )
                of_row.insert(0, drums)
            if region.unlike is not None:
                other, cost = region.unlike
                keys = _keys(self._groups(other.piece)) - _keys(row.given.groups)
                half = np.random.default_rng(region.seed).random(len(keys)) < 0.5
                notes = {key for key, rarer in zip(sorted(keys), half) if rarer}
                of_row.append(partial(infill_biases.unlike_other_version, notes=notes, nats=cost))
            of_row += [infill_biases.filling_parts, infill_biases.bass_on_bar_line]
            penalties.append(infill_biases.penalty_around(row, of_row))
        return [EachRow(penalties)]

    def _lowest_part(self) -> int | None:
        """The new part with several voices whose usual pitches reach lowest, in an accompaniment.
        ``None`` in a gap, if a given part is in the register of a bass, if a register is
        requested, or if no new part has several voices."""
        notes = self.given[(self.given["part"] >= 0) & (self.given["part"] < DRUM_PART)]
        parts = np.unique(notes["part"])
        heights = [np.median(notes["pitch"][notes["part"] == part]) for part in parts]
        has_bass = min(heights, default=128) <= self.bass[1]
        if self.is_gap or has_bass or "register" in self.steering.values:
            return None
        lowest = {
            part: habit.low
            for part, habit in self.habits.items()
            if habit.voices > 1 and part != DRUM_PART
        }
        return min(lowest, key=lowest.__getitem__, default=None)

    def absorb(self) -> None:
        whole = len(self.row.piece) - len(self.row.piece) % FIELDS_PER_NOTE
        self.piece = np.concatenate([self.piece, np.array(self.row.piece[:whole], np.int64)])
        self.bar, self.done = self.row.bar, self.row.done


def _keys(bars: Sequence[Sequence[Group]]) -> set[tuple[int, Key]]:
    """The number of the bar and the key of each group."""
    return {(bar, group.key) for bar, groups in enumerate(bars) for group in groups}
