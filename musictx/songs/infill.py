"""Gaps in songs and accompaniments by models of notes in bars: see :mod:`musictx.apps.infill`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from musictx.apps import parts
from musictx.apps.habits import habits_of
from musictx.apps.infill import Filler, sample
from musictx.apps.tasks import Task
from musictx.bundle import Bundle
from musictx.card import Habit
from musictx.chords import annotated
from musictx.config import AccompanyConfig, InfillConfig
from musictx.notes import Score
from musictx.sampling.events import OnEvent
from musictx.sampling.sample import Sample
from musictx.songs import charts, drummers, loops
from musictx.songs.bar_infill import BarInfill
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.chord_recognition import recognised

#: A melody and its accompaniment are so loud for the melody alone: the median of 40 songs
#: (scripts/LOG.md).
QUIETER = 0.87


class BarFiller(Filler):
    """What composes a task with a model of notes in bars, in chords where there are any."""

    def __init__(self, bundle: Bundle, task: Task, request: InfillConfig | AccompanyConfig) -> None:
        super().__init__(bundle, task, request)
        self.task = charts.with_chords(self.task)

    def check(self) -> None:
        style = getattr(self.request, "style", None)
        wanted = parts.by_name(self.bundle, self.task.add)
        self.players = drummers.players(self.bundle, wanted, style, self.task.score)

    def composed(
        self,
        seed: int,
        progress: Callable[[float], None] | None,
        on_event: OnEvent | None,
    ) -> Iterator[Sample]:
        if not self.request.loop:
            yield from super().composed(seed, progress, on_event)
            return
        loop = loops.Loop.of(self.task)
        for new, chords, done in self.versions(loop.laid_out(), seed, progress, None):
            since = loop.seconds
            chords = [(at - since, name) for at, name in chords if at >= since - 1e-6]
            yield sample(self.bundle, self.task, loop.taken(new), chords, done)

    def infill(self, task: Task, score: Score, given: Score, **options: Any) -> BarInfill:
        model, tokenizer = self.bundle.model, self.bundle.tokenizer
        assert isinstance(tokenizer, BarTokenizer)
        if task.add and len(given) and not annotated(given):
            chords = ((at, str(chord)) for at, chord in recognised(given))
            given = replace(given, markers=tuple(sorted([*given.markers, *chords])))
        varied = score if task.varied else None
        options |= {"drummers": self.players, "varied": varied}
        return BarInfill(model, tokenizer, given, task.begin, task.end, **options)

    def targets(
        self, task: Task, values: Mapping[str, float], around: Mapping[str, float]
    ) -> dict[str, float]:
        return {**values}

    def usual(self, task: Task) -> dict[str, float]:
        """What a melody with its accompaniment is like: how dense, how loud and how many at once,
        as notes come out short and as loud as the melody with nothing asked."""
        levels, notes = self.usual_density(task), task.given.notes
        if self.bundle.stats.polyphony is not None and len(notes):
            levels["loudness"] = QUIETER * float(notes["velocity"].mean())
            levels["polyphony"] = self.bundle.stats.polyphony
        return levels

    def habits(
        self, task: Task, wanted: Mapping[str, int], score: Score, composed: Collection[int]
    ) -> dict[int, Habit]:
        return habits_of(self.bundle, task, wanted, self.request, score, composed, all_tracks=True)
