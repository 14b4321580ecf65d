"""Infilling: new notes around given ones, in gaps and accompaniments.

Given notes may lie before, between and after the new notes. The model reads the given notes in the
layout of its training and writes the piece from beginning to end, including the given notes. An
item is a note-on or note-off (:mod:`.event_infill`), or a note, chord or bar line
(:mod:`musictx.songs.bar_constraint`). Four rules keep the given items (:class:`GivenRow`):

- no id is drawn that would skip the next given item, and that item is allowed when it is due;
- an item that has begun is completed;
- new notes of a pitch end before a given note of that pitch begins;
- no new note begins while a given note of its pitch sounds or begins.

These modules define the ids of an item and which ids would skip it. A region that does not fit into
the model's context is composed in segments.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from musictx.bundle import Bundle
from musictx.config import SamplingConfig
from musictx.data.statistics import CorpusStats, Habit
from musictx.notes import DRUMS, Score
from musictx.sampling.constants import FEWEST_NOTES
from musictx.sampling.constraints import Constraint, RowConstraint, RowPenalty, to_batch
from musictx.sampling.idiom import idiom_of
from musictx.sampling.primer import Primer
from musictx.sampling.region import Region
from musictx.sampling.steer import Steering
from musictx.tokens.controls import CONTROLS
from musictx.tokens.stream import CHORD
from musictx.tokens.tokenizer import GrammarState
from musictx.tokens.vocab import EOS, PAD, Vocabulary


@dataclass(frozen=True)
class NewNoteLimits:
    """The limits on new notes.

    table    the vocabulary
    begin    the first step at which a new note may begin
    end      new notes begin before this step; ``None``: no limit
    parts    the allowed parts: programs, :data:`DRUMS`, :data:`CHORD`; ``None``: any
    habits   {part: its limits on simultaneous notes, onsets, lengths of notes and pitches}
    pitches  (128,) bool: the pitches that the request allows; drums are not limited
    drums    (128,) bool: the allowed drums; ``None``: those of the habit
    """

    table: Vocabulary
    begin: int = 0
    end: int | None = None
    parts: Collection[int] | None = None
    habits: Mapping[int, Habit] = field(default_factory=dict)
    pitches: np.ndarray = field(default_factory=lambda: np.ones(128, bool))
    drums: np.ndarray | None = None
    _tones: dict[int, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    def tones(self, part: int) -> np.ndarray:
        """(128,) bool: the pitches, drums or roots of ``part`` that the vocabulary, the request and
        the habit allow. Callers must not modify the array."""
        if part not in self._tones:
            pitch_kind = "pitch" if "pitch" in self.table.slices else "note_on"
            kind = {CHORD: "root", DRUMS: "drum"}.get(part, pitch_kind)
            tones = np.isin(np.arange(128), self.table.values_in(kind))
            if part not in (CHORD, DRUMS):
                tones &= self.pitches
            if self.parts is not None and part not in self.parts:
                tones[:] = False
            if part == DRUMS and self.drums is not None:
                tones &= self.drums
            elif part in self.habits:
                tones[: max(self.habits[part].low, 0)] = False
                tones[max(self.habits[part].high + 1, 0) :] = False
            self._tones[part] = tones
        return self._tones[part]


class GivenRow(RowConstraint):
    """The constraint on one row that keeps the given notes.

    piece   the ids since the constraint was created, also those of given notes
    is_new  for each note of ``piece``, whether it is new, not given
    """

    def __init__(self, limits: NewNoteLimits, state: GrammarState) -> None:
        super().__init__(state)
        self.limits, self.table = limits, limits.table
        self.piece: list[int] = []
        self.is_new: list[bool] = []
        kind = "bar" if "bar" in self.table.kinds else "time_shift"
        self._time_kind = self.table.kinds.index(kind)  # the kind that advances time

    def allowed(self) -> np.ndarray:
        forced = [PAD] if self.done else self.forced()
        if forced:
            mask = np.zeros(self.table.size, bool)
            mask[forced[0]] = True
            return mask
        mask = self.state.allowed().copy()
        mask[EOS] = False
        self.restrict(mask)
        return mask

    def restrict(self, mask: np.ndarray) -> None:
        """Change ``mask``, (V,) bool, the ids that the grammar allows: exclude new notes that are
        not allowed and ids that skip the next given item, and include the ids of that item."""
        raise NotImplementedError

    def ids_toward_given(self) -> Sequence[int]:
        """The ids that begin or continue the next given item and are allowed now."""
        raise NotImplementedError

    def due_id(self) -> int | None:
        """The next id of the given item that must come before time may advance; ``None`` if there
        is no such item."""
        raise NotImplementedError

    def groups(self) -> np.ndarray:
        """(V,) the group of each id: the probability of forbidden ids goes to the allowed ids of
        their group. Groups are kinds, except that :meth:`due_id` is in the group of the ids that
        advance time: these are forbidden, so that it gets their probability."""
        if self.done or (token := self.due_id()) is None:
            return self.table.kind_of
        groups = self.table.kind_of.copy()
        groups[token] = self._time_kind
        return groups


def sparing_given(penalty: RowPenalty) -> RowPenalty:
    """``penalty`` without effect on the ids of given items (:meth:`GivenRow.ids_toward_given`)."""

    def apply(row: GivenRow, past: np.ndarray) -> np.ndarray | None:
        nats = penalty(row, past)
        if nats is not None and not row.done:
            nats = nats.copy()
            nats[list(row.ids_toward_given())] = 0.0
        return nats

    return apply


@dataclass(frozen=True)
class Brief:
    """What to compose in a region.

    given     the notes that stay, with programs as in the training of the model
    begin     the beginning of the region in seconds
    end       the end of the region in seconds
    is_gap    whether the region is a gap: no new note begins after its end
    parts     the parts of new notes: programs, :data:`DRUMS`; ``None``: any
    habits    {part: its limits on simultaneous notes, onsets, lengths of notes and pitches}
    sampling, stats, steering   as in :class:`.Region`
    """

    given: Score
    begin: float
    end: float
    is_gap: bool
    parts: Collection[int] | None = None
    habits: Mapping[int, Habit] = field(default_factory=dict)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    stats: CorpusStats = field(default_factory=CorpusStats)
    steering: Steering = field(default_factory=lambda: Steering((0,) * len(CONTROLS)))


class Infill(Region):
    """The region of a ``brief``, which is composed segment by segment.

    For each segment :meth:`setup` collects the arguments of the engine: the prompt, a constraint
    for each row (:meth:`rows`), and :meth:`penalties`. Afterwards :meth:`end_segment` appends the
    new ids to the piece.

    step      the step up to which the piece is complete
    stop      the step at which the region ends
    first_step  the value of ``step`` before anything is composed, set by :meth:`with_seed`
    is_new    for each note up to ``step``, whether it is new, not given
    seconds   the length of the music composed so far, in seconds of the ids
    segments  the number of segments composed so far
    stalled   for how many segments in a row time has not advanced
    rejected  a version too similar to another, and the penalty in nats for repeating its notes
    variation_of  the notes of which the new notes are a variation, in seconds of the score;
                  ``None``: not a variation
    """

    #: Whether a version that is too similar to an earlier one is composed again.
    may_retry = False

    step_seconds: float
    first_step: int
    step: int
    stop: int
    done: bool
    is_new: list[bool]
    row: GivenRow

    def __init__(self, bundle: Bundle, brief: Brief) -> None:
        super().__init__(bundle)
        self.brief, self.steering = brief, brief.steering
        self.sampling, self.stats = brief.sampling, brief.stats
        self.processors = idiom_of(self.tokenizer).processors(self.sampling)
        self.primer = Primer(score=brief.given if len(brief.given) else None)  # for key=auto
        self.rejected: tuple[Self, float] | None = None
        self.variation_of: np.ndarray | None = None
        self.segments = self.stalled = 0
        self.seconds = 0.0

    def with_seed(self, seed: Sequence[int]) -> Self:
        """A copy with ``seed``. Call this before anything is composed."""
        other = copy.copy(self)
        other.seed, other.first_step = list(seed), self.step
        return other

    @property
    def length(self) -> float:
        """The length of the music that is still to be composed, in seconds of the ids."""
        return (self.stop - self.step) * self.step_seconds

    @property
    def new(self) -> np.ndarray:
        """The new notes (:data:`musictx.notes.NOTE`) so far, in seconds of the score."""
        notes = self.tokenizer.decode(self.ids_so_far()).notes
        return self.finish_notes(notes[np.array(self.is_new, bool)])

    @property
    def chords(self) -> tuple[tuple[float, str], ...]:
        """(seconds of the score, name) of each new chord."""
        return ()

    def ids_so_far(self) -> np.ndarray:
        """The ids before the region and the ids composed so far."""
        raise NotImplementedError

    def prompt(self, levels: Sequence[int]) -> np.ndarray:
        """The prompt of the next segment."""
        raise NotImplementedError

    def rows(self, count: int) -> Sequence[GivenRow]:
        """``count`` equal constraints, in the state after :meth:`ids_so_far`."""
        raise NotImplementedError

    @classmethod
    def setup(cls, regions: Sequence[Self]) -> dict[str, Any]:
        first, idiom = regions[0], idiom_of(regions[0].tokenizer)
        prompt = first.prompt(first.steering.levels or ())
        rows = first.rows(len(regions))
        for region, row in zip(regions, rows):
            region.row = row
        penalties = to_batch(rows, [region.penalties() for region in regions])
        return super().setup(regions) | {
            "prompt": prompt,
            "constraint": Constraint(rows, first.tokenizer.note_events),
            "penalties": [*idiom.rules(first.sampling), *penalties],
            "seeds": [[*region.seed, region.segments] for region in regions],
            "max_tokens": max(first.context - len(prompt), FEWEST_NOTES * first.tokenizer.group),
        }

    def penalties(self) -> list[RowPenalty]:
        """The penalties of one row, which do not apply to given notes; subclasses may add others,
        which do."""
        idiom = idiom_of(self.tokenizer)
        penalties = [*idiom.limits(self), *idiom.feedback_penalties(self)]
        return [sparing_given(penalty) for penalty in penalties]

    def record(self, token: int) -> None:
        end = min(self.row.state.seconds, self.stop * self.step_seconds)
        self.seconds = end - self.first_step * self.step_seconds
        if self.emitter is not None:
            latest_is_new = self.row.is_new[-1] if self.row.is_new else True
            self.emitter.report(self.row.changes, latest_is_new)

    def end_segment(self) -> None:
        """Append the ids drawn since :meth:`setup` to the piece."""
        begin = self.step
        self.append_ids()
        self.is_new = self.is_new + self.row.is_new  # a new list: versions share the old one
        self.segments += 1
        self.stalled = 0 if self.step > begin else self.stalled + 1

    def append_ids(self) -> None:
        """Append the ids of ``row`` to the piece, and update ``step`` and ``done``."""
        raise NotImplementedError
