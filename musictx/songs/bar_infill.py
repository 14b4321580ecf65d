"""Infilling for notes in bars: new notes around given ones; see :mod:`musictx.sampling.infill`.

The model reads the piece so far and, ahead of the current bar, the given notes of this bar and of
the next ones (:mod:`musictx.songs.bar_codec`), as in training (``songs/bar_tasks.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Self

import numpy as np

from musictx.apps.habits import NO_LIMITS
from musictx.bundle import Bundle
from musictx.chords import NO_CHORD, chord_changes, chord_markers
from musictx.notes import DRUMS, Score
from musictx.sampling.cadence import CHORD_NOTES
from musictx.sampling.constants import AHEAD_SHARE, NEAR_SECONDS, PAST_SHARE
from musictx.sampling.constraints import RowPenalty
from musictx.sampling.infill import Brief, Infill, NewNoteLimits, sparing_given
from musictx.sampling.penalties import pitch_set
from musictx.songs import bar_codec, infill_penalties
from musictx.songs.bar_codec import FIELDS_PER_NOTE, REPEAT_FIELD, split_bars, write
from musictx.songs.bar_constraint import FREE, BarRow, GivenBars
from musictx.songs.bar_grammar import Group, GroupKey
from musictx.songs.bar_tokens import BarredScore, BarTokenizer
from musictx.songs.bars import STEP_SECONDS
from musictx.songs.chord_sheet import without_chords
from musictx.songs.constants import LOOKAHEAD_BARS, RARER_SHARE
from musictx.songs.drummers import IN_KIT, Drummer, section_begins
from musictx.songs.infill_penalties import BASS, Bass
from musictx.songs.penalties import SparsePenalty, same_pitch, sum_penalties
from musictx.songs.repeats import repeat_distances
from musictx.tokens.stream import CHORD, NoteStream
from musictx.tokens.vocab import BOS, CUT


class BarInfill(Infill):
    """A region in bars. In a gap the model reads the music after the gap from the first segment on,
    as far as its context allows.

    drummers  styles for new drums; the seed of a version chooses its drummer
    varied    the score with the notes to vary; ``None`` if the new notes are no variation
    repeats   for each bar, the distance in bars to the earlier bar that it repeats, 0 for none;
              empty: as in the notes that are varied, or else as the model decides

    Attributes

    begin     the step at which the region begins
    parts     the parts of new notes, with ``CHORD`` if chords are composed
    given     all bars, with the given notes
    ahead     all bars, with the notes that the model reads ahead of them: the given notes or, in
              the bars of a variation, the notes that are varied
    lines     (B + 1,) the steps of the bar lines
    composed  the numbers of the bars in which notes are composed, as a slice
    sections  the numbers of the bars that begin a section, after the first one
    slash     {step: pitch class} of the bass notes of slash chords
    bar       the number of the bar that is being composed
    piece     the ids so far
    """

    may_retry = True
    step_seconds = STEP_SECONDS
    tokenizer: BarTokenizer
    row: BarRow

    def __init__(
        self,
        bundle: Bundle,
        brief: Brief,
        drummers: Sequence[Drummer] = (),
        varied: Score | None = None,
        repeats: Sequence[int] = (),
    ) -> None:
        super().__init__(bundle, brief)
        tokenizer = self.tokenizer
        music = brief.given
        self.table, self.drummers = tokenizer.vocabulary, drummers
        grid = tokenizer.grid(music, brief.begin, brief.end)
        self.clock, self.given, self.lines = grid.clock, grid.stream, grid.stream.lines
        self.begin, stop = grid.steps(brief.begin, brief.end)
        self.stop = max(stop, self.begin + 1)
        self.bar, self.done = self._bar_of(self.begin), False
        self.step = int(self.lines[self.bar])
        self.composed = slice(self.bar, self._bar_of(self.stop - 1) + 1)
        first = int(np.abs(self.lines - self.begin).argmin())  # after a pick-up, if any
        times = [time for time, _ in without_chords(music).markers]
        marked_bars = {self._bar_of(step) for step in grid.steps(*times)}
        self.sections = section_begins(first, len(self.given.bars), marked_bars)
        self.slash = self._slash_basses(grid)

        self.parts = sorted({0} if brief.parts is None else {*brief.parts})
        notes = self.given.notes
        is_chord = (notes["part"] == CHORD) & _begins_in(notes, self.begin, self.stop)
        if not (chord_changes(music) and is_chord.any()):  # compose chords, too
            self.given = self.given._replace(notes=notes[~is_chord])
            if tokenizer.chords:
                self.parts.insert(0, CHORD)

        self.is_variation, self.ahead = varied is not None, self.given
        self.repeats: np.ndarray | None = None
        if varied is not None:
            self.ahead = self._with_varied(varied)
            self.repeats = repeat_distances(self.ahead)
            notes = self.ahead.notes
            original = self.ahead._replace(notes=notes[_begins_in(notes, self.begin, self.stop)])
            self.variation_of = self.finish_notes(tokenizer.score(original).notes)
        if repeats:
            bars = len(self.given.bars)  # may differ by one from len(repeats), by rounding to steps
            self.repeats = np.pad(repeats, (0, bars))[:bars]
        self.piece = self._opening()
        self.is_new = [False] * len(tokenizer.decode(self.piece).notes)

    def _bar_of(self, step: int) -> int:
        return int(np.searchsorted(self.lines, step, side="right")) - 1

    def _with_varied(self, varied: Score) -> NoteStream:
        """All bars, with the notes of ``varied`` in the bars that are composed, and the given notes
        in all others."""
        grid = self.tokenizer.grid(varied, self.brief.begin, self.brief.end)
        notes, given = grid.stream.notes, self.given.notes
        notes["start"] += self.begin - grid.steps(self.brief.begin)[0]
        span = self.lines[[self.composed.start, self.composed.stop]].tolist()
        kept = given[~_begins_in(given, *span)]
        return self.given._replace(notes=np.concatenate([notes[_begins_in(notes, *span)], kept]))

    def _opening(self) -> np.ndarray:
        """The ids before the region: bar lines and given notes up to the step :attr:`begin`."""
        bars, notes, start = self.given.bars, self.given.notes, self.given.notes["start"]
        earlier = NoteStream(bars[: self.bar + 1], notes[start < self.lines[self.bar]])
        in_bar = NoteStream(bars, notes[start < self.begin]).in_bars(self.bar, self.bar + 1)
        ids = write(earlier, self.table).astype(np.int64)
        if self.is_variation:
            ids[-FIELDS_PER_NOTE:] = self._bar_lines()[self.bar]
        return np.append(ids, write(in_bar, self.table)[FIELDS_PER_NOTE:])

    def _bar_lines(self) -> np.ndarray:
        """(B, 5) the ids of the bar lines; the bars that they name are repeated in
        :attr:`ahead`."""
        ids = write(self.ahead, self.table)
        return np.stack([bar[0] for bar in split_bars(ids, self.table)])

    def _groups(self, ids: np.ndarray) -> list[list[Group]]:
        """The notes and chords in each bar of ``ids``."""
        bars = split_bars(ids, self.table)
        return [[Group.of(self.table, group) for group in bar[1:].tolist()] for bar in bars]

    @property
    def chords(self) -> tuple[tuple[float, str], ...]:
        if CHORD not in self.parts:
            return ()
        return tuple(
            (float(self.clock.seconds(time)), name)
            for time, name in self.tokenizer.decode(self.piece).markers
            if self.begin <= round(time / STEP_SECONDS) < self.stop
        )

    def finish_notes(self, notes: np.ndarray) -> np.ndarray:
        return self.clock.notes_in_seconds(notes)

    def ids_so_far(self) -> np.ndarray:
        return self.piece

    def prompt(self, levels: Sequence[int]) -> np.ndarray:
        controls = bar_codec.control_prefix(self.table, levels)
        bars = split_bars(self.piece, self.table)
        room = int(PAST_SHARE * self.context) - 1 - len(controls)
        first = 0
        while sum(bar.size for bar in bars[first : self.bar]) > room:
            first += 1
        groups = [*bars[first : self.bar], self._groups_ahead()[0], *bars[self.bar :]]
        opening = [CUT if first else BOS]
        return np.concatenate([opening, controls, *(rows.reshape(-1) for rows in groups)])

    def _groups_ahead(self) -> list[np.ndarray]:
        """The groups ahead, (n, 5), of the current bar and of each bar after it."""
        bars, stop = self.ahead.bars, self.composed.stop
        if self.brief.is_gap:
            stop = min(stop + bar_codec.TAIL_BARS, len(bars))
        sizes = FIELDS_PER_NOTE * (1 + np.bincount(self.ahead.bar, minlength=len(bars)))
        room = int(AHEAD_SHARE * self.context)  # for this many ids
        lookahead = LOOKAHEAD_BARS
        if self.brief.is_gap and sizes[self.bar : stop].sum() < room:
            lookahead = len(bars)
        while lookahead > 1 and sizes[self.bar : self.bar + lookahead].sum() > room:
            lookahead //= 2
        sections = np.full(len(bars), bar_codec.WHOLE)
        sections[self.composed] = bar_codec.VARIED if self.is_variation else 0
        notes = self.ahead.notes
        ahead = bar_codec.GivenAhead(self.bar, stop, lookahead, notes, sections, self.parts)
        return bar_codec.groups_ahead(bars, ahead, self.table)

    def rows(self, count: int) -> list[BarRow]:
        line_ids = self._bar_lines()
        line_ids[:, REPEAT_FIELD] = FREE
        if self.repeats is not None:
            sections = bar_codec.section_of(self.repeats)
            line_ids[:, REPEAT_FIELD] = self.table.ids("section", sections)
        groups = self._groups(write(self.given, self.table))
        groups_ahead = enumerate(self._groups_ahead()[1:], self.bar + 1)
        ahead = {bar: rows.reshape(-1).tolist() for bar, rows in groups_ahead}
        given = GivenBars(self.lines, line_ids, self.given.notes, groups, ahead)
        pitches = pitch_set(self.sampling, self.primer, self.tokenizer)
        drums = IN_KIT if self.drummers else None
        limits = NewNoteLimits(
            self.table, self.begin, self.stop, self.parts, self.brief.habits, pitches, drums
        )
        state = self.tokenizer.grammar(self.piece)
        return [BarRow(limits, state.copy(), given) for _ in range(count)]

    def append_ids(self) -> None:
        stop = len(self.row.piece) - len(self.row.piece) % FIELDS_PER_NOTE  # of complete groups
        self.piece = np.concatenate([self.piece, np.array(self.row.piece[:stop], np.int64)])
        self.bar, self.done = self.row.bar, self.row.done
        self.step = int(self.lines[self.bar])

    def penalties(self) -> list[RowPenalty]:
        """As in the base class. Gains also apply to given notes; the other penalties do not."""
        habits, given, bass = self.sampling.habits, self.given, self._bass()
        # A new part of one voice, other than the bass, is a melody.
        melodies = {p for p, habit in self.brief.habits.items() if p != BASS and habit.voices == 1}
        copy = partial(infill_penalties.as_in_earlier_bar, back=self.bars_back())
        same_rhythm = habits and not self.is_variation
        gains: list[SparsePenalty] = [
            partial(copy, same_rhythm=same_rhythm, melodies=melodies),
            partial(infill_penalties.bass_on_bar_line, slash=self.slash),
        ]
        if not self.is_variation:  # its parts may rest, as in the original
            playing = self._playing_parts()
            gains.append(partial(infill_penalties.filling_parts, parts=playing))
        if bass is not None:
            gains.append(partial(infill_penalties.on_root, bass=bass, slash=self.slash))
        if self.drummers:
            in_meter = cache(self.drummers[sum(self.seed) % len(self.drummers)].in_meter)
            players = [in_meter(n, 2**exponent) for n, exponent, _ in given.bars.tolist()]
            strokes, sections = infill_penalties.drummer_strokes, self.sections
            gains.append(partial(strokes, drummers=players, sections=sections))
        costs: list[SparsePenalty] = []
        if habits:
            fit = infill_penalties.harmonic_fit
            costs.append(partial(fit, given=given.notes, melodies=melodies, bass=bass))
            costs.append(infill_penalties.low_intervals)
            if self.brief.is_gap:
                later = given.notes[given.notes["start"] >= self.stop].tolist()
                following = {p: (step, tone) for step, p, tone, *_ in later[::-1] if p in melodies}
                costs.append(partial(infill_penalties.lead_into, following=following))
            else:  # not in a gap, which may stay on one pitch like the music around it
                chordal = {p for p, h in self.brief.habits.items() if h.voices >= CHORD_NOTES}
                rate = self.stats.repetition_rate
                costs.append(partial(same_pitch, parts=melodies | chordal, target=rate))
                no_tune = (CHORD, DRUMS, *self._given_basses())
                tune = given.notes[~np.isin(given.notes["part"], no_tune)]
                # A requested register removes the limits on a part's range, and so this one.
                ranged = {p for p in chordal if self.brief.habits[p].high < NO_LIMITS.high}
                costs.append(partial(infill_penalties.over_tune, parts=ranged, tune=tune))
        if self.rejected is not None:
            costs.append(self._unlike(*self.rejected))
        return [*super().penalties(), sum_penalties(*gains), sparing_given(sum_penalties(*costs))]

    def bars_back(self) -> np.ndarray:
        """(B,) for each bar, the distance in bars to the earlier bar that it should copy, 0 for
        none: ``repeats`` or, with ``sampling.habits``, the repetitions in the given notes without
        chords."""
        bars, notes = self.given.bars, self.given.notes
        if self.repeats is not None:
            return self.repeats
        if not self.sampling.habits:
            return np.zeros(len(bars), np.int64)
        return repeat_distances(self.given._replace(notes=notes[notes["part"] != CHORD]))

    def _playing_parts(self) -> set[int]:
        """The parts to compose that should not rest; in a gap those with given notes up to
        ``NEAR_SECONDS`` of the ids before it, and after it."""
        if not self.brief.is_gap:
            return {*self.parts}
        notes, near = self.given.notes, round(NEAR_SECONDS / STEP_SECONDS)
        before = _begins_in(notes, self.begin - near, self.begin)
        after = _begins_in(notes, self.stop, self.stop + near)
        return {*notes["part"][before].tolist()} & {*notes["part"][after].tolist()}

    def _slash_basses(self, grid: BarredScore) -> dict[int, int]:
        """:attr:`slash`: each bass note at the step of its chord and at the bar lines while the
        chord lasts."""
        markers, chords = self.brief.given.markers, chord_markers(self.brief.given)
        steps = grid.steps(*(time for time, _ in markers))
        begins = {step: chords[text] for step, (_, text) in zip(steps, markers) if text in chords}
        slash, chord = {}, NO_CHORD
        for step in sorted({*begins, *self.lines.tolist()}):
            chord = begins.get(step, chord)
            if chord.bass is not None:
                slash[step] = chord.bass_class
        return slash

    def _bass(self) -> Bass | None:
        """The notes that act as the bass: the bass itself, if it is composed; else, in an
        accompaniment without a given bass, those at the pitches of a bass in the lowest new part
        that has several voices and whose range is not set free by a requested register."""
        if BASS in self.parts:
            return Bass()
        usual = self.stats.parts.get(BASS)
        lows = {
            part: habit.low
            for part, habit in self.brief.habits.items()
            if habit.voices > 1 and part != DRUMS and habit.high < NO_LIMITS.high
        }
        if self.brief.is_gap or usual is None or self._given_basses() or not lows:
            return None
        return Bass(min(lows, key=lows.__getitem__), usual.low, usual.high)

    def _given_basses(self) -> list[int]:
        """The given parts whose median pitch is at most the highest usual pitch of a bass."""
        notes, usual = self.given.notes, self.stats.parts.get(BASS)
        if usual is None:
            return []
        programs = {*notes["part"].tolist()} - {CHORD, DRUMS}
        pitches = {program: notes["pitch"][notes["part"] == program] for program in programs}
        return [program for program in programs if np.median(pitches[program]) <= usual.high]

    def _unlike(self, other: Self, nats: float) -> SparsePenalty:
        """The penalty on a random share of the new notes of the version ``other``."""

        def keys(ids: np.ndarray) -> set[tuple[int, GroupKey]]:
            bars = enumerate(self._groups(ids))
            return {(bar, group.key) for bar, groups in bars for group in groups}

        new = sorted(keys(other.piece) - keys(write(self.given, self.table)))
        is_rarer = np.random.default_rng(self.seed).random(len(new)) < RARER_SHARE
        notes = {key for key, rarer in zip(new, is_rarer) if rarer}
        return partial(infill_penalties.unlike_other_version, notes=notes, nats=nats)


def _begins_in(notes: np.ndarray, begin: int, stop: int) -> np.ndarray:
    """(n,) bool: whether each note begins at the steps ``begin`` to ``stop`` - 1."""
    mask: np.ndarray = (notes["start"] >= begin) & (notes["start"] < stop)
    return mask
