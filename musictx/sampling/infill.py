"""New notes around given ones: gaps that are filled, melodies that are accompanied.

Given notes may lie before the new ones, between them and after them. The model reads them in the
layout that it was trained with and writes on; :mod:`.infill_constraint` holds it to them. What does
not fit into the model's context is composed in segments, each with what was written before it as
its past.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Self

import numpy as np

from musictx.card import CorpusStats, Habit
from musictx.config import SamplingConfig
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling import idiom
from musictx.sampling.infill_constraint import GivenNotes, GivenRow
from musictx.sampling.penalties import build, combined
from musictx.sampling.primer import Primer
from musictx.sampling.region import Region, Setup
from musictx.sampling.steer import Steering
from musictx.sampling.strengths import LEAST_NOTES
from musictx.tokens.controls import CONTROLS
from musictx.tokens.grammar import Change
from musictx.tokens.tokenizer import Penalty, Tokenizer


class Infill(Region):
    """Notes composed for ``music``, the notes that stay, from ``begin`` to ``end`` (seconds of it).

    closes    whether it is a gap, in which no note begins after ``end``
    parts     of new notes: programs, 128 for drums; ``None``: any
    habits    part -> how many of its notes sound at once, begin in a few seconds, how long they
              last and between which pitches they lie

    begin, here, stop  steps: its beginning, how far it is written, its end
    is_new    for each note so far, whether it is new or given
    seconds   composed so far, from the step ``since`` on
    stalled   number of segments in a row in which time did not advance
    unlike    another version, and the penalty in nats for repeating its new notes
    """

    #: Whether a version that equals an earlier one is composed again.
    anew: ClassVar[bool]
    #: The kind of ids that advance time.
    time: ClassVar[str]
    step_seconds: float
    begin: int
    since: int
    here: int
    stop: int
    done: bool
    is_new: list[bool]
    row: GivenRow

    def __init__(
        self,
        model: MusicTransformer,
        tokenizer: Tokenizer,
        music: Score,
        *,
        closes: bool,
        parts: Collection[int] | None = None,
        habits: Mapping[int, Habit] | None = None,
        steering: Steering | None = None,
        sampling: SamplingConfig | None = None,
        stats: CorpusStats | None = None,
    ) -> None:
        steering = steering or Steering((0,) * len(CONTROLS))
        sampling, stats = sampling or SamplingConfig(), stats or CorpusStats()
        super().__init__(model, tokenizer, sampling, stats, steering)
        self.closes, self.parts, self.habits = closes, parts, habits or {}
        self.around = Primer(score=music if len(music) else None)  # for key=auto
        self.unlike: tuple[Self, float] | None = None
        self.segments = self.stalled = 0
        self.seconds = 0.0

    def again(self, seed: Sequence[int]) -> Self:
        """A copy for another seed, of which nothing is composed yet."""
        other = copy.copy(self)
        other.seed, other.since = list(seed), self.here
        return other

    @property
    def length(self) -> float:
        """Seconds of the tokens that are still to be composed."""
        return (self.stop - self.here) * self.step_seconds

    @property
    def new(self) -> np.ndarray:
        """The new notes (:data:`musictx.notes.NOTE`) so far, on the clock of the score."""
        notes = self.tokenizer.decode(self.written()).notes
        return self.placed(notes[np.array(self.is_new, bool)])

    @property
    def varied(self) -> np.ndarray | None:
        """If the new notes are a variation: the notes that they vary, on the same clock."""
        return None

    @property
    def chords(self) -> tuple[tuple[float, str], ...]:
        """Seconds of the score and names of the chords that were composed."""
        return ()

    def seeds(self) -> list[int]:
        return [*self.seed, self.segments]

    def written(self) -> np.ndarray:
        """The ids before the region, and those composed so far."""
        raise NotImplementedError

    def prompt(self, levels: Sequence[int]) -> np.ndarray:
        """The ids that the model reads first."""
        raise NotImplementedError

    def rows(self, count: int) -> list[GivenRow]:
        """``count`` constraints, each after the ids written so far."""
        raise NotImplementedError

    def biases(self, regions: Sequence[Self], rows: Sequence[GivenRow]) -> list[Penalty]:
        """Further penalties of this kind of region; they apply to given notes, too."""
        return []

    def setup(self, regions: Sequence[Self]) -> Setup:
        prompts = [self.prompt(levels) for levels in self.steering.rows]
        rows = self.rows(len(regions))
        for region, row in zip(regions[::-1], rows[::-1]):
            region.row = row
        given = GivenNotes(rows, self.time)
        targets = [one.steering.values for one in regions]
        primers, steer = [self.around] * len(rows), self.steering
        every = [
            *build(self.tokenizer, self.sampling, self.stats, primers, steer.density),
            *idiom.of(self.tokenizer).feedback(targets, given=True, parts=steer.parts),
        ]
        free = [given.free(one) for one in every]
        some = combined(self.tokenizer, free, lambda: given.allowed().numpy())
        return Setup(
            np.repeat(prompts, len(rows) // len(prompts), 0) if prompts[1:] else prompts[0],
            given,
            [*some, *self.biases(regions, rows)],
            given.groups,
            max(self.context - len(prompts[0]), LEAST_NOTES * self.tokenizer.group),
        )

    def take(self, token: int, changes: Sequence[Change] | None) -> None:
        seconds = self.row.state.seconds
        until = self.stop * self.step_seconds
        self.seconds = min(seconds, until) - self.since * self.step_seconds
        if self.emitter is not None:
            self.emitter.changes(changes, not self.row.is_new or self.row.is_new[-1])

    def end_segment(self) -> None:
        """Move what was written since :meth:`setup` to the past."""
        before = self.here
        self.absorb()
        self.is_new = self.is_new + self.row.is_new
        self.segments += 1
        self.stalled = 0 if self.here > before else self.stalled + 1

    def absorb(self) -> None:
        """Add the ids that the row has written to those so far."""
        raise NotImplementedError
