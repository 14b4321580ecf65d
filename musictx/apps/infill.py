"""``musictx infill FILE from=5 to=8`` and ``musictx accompany FILE``: compose notes that fit given
notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from musictx import formats, registry
from musictx.apps import parts
from musictx.apps.habits import accompaniment_density, habits_of
from musictx.apps.results import (
    Notice,
    Result,
    Work,
    check_notation,
    new_notes,
    notice_of_beats,
    on_beats,
    read_music,
    report,
    say,
    suits_bars,
)
from musictx.apps.tasks import Task, task_of
from musictx.bundle import Bundle
from musictx.chords import is_chart
from musictx.config import AccompanyConfig, InfillConfig
from musictx.errors import UserError
from musictx.notes import DRUMS, Score
from musictx.progress import progress
from musictx.sampling import composer, timeline
from musictx.sampling.composer import OnProgress
from musictx.sampling.event_infill import EventInfill
from musictx.sampling.events import OnEvent, Placed
from musictx.sampling.infill import Infill
from musictx.sampling.sample import Ended, Sample
from musictx.sampling.steer import controls_of, counts_no_bars, has_controls, steering, unable
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.stream import DRUM_PART

#: Semitones by which the mean pitch of a melody with its accompaniment is below that of the melody.
SEMITONES_LOWER = 6.5


def compose_versions(
    bundle: Bundle,
    task: Task,
    request: InfillConfig | AccompanyConfig,
    *,
    seed: int = 0,
    progress: OnProgress = None,
    on_event: OnEvent | None = None,
) -> Iterator[Sample]:
    """Compose ``request.samples`` versions of a ``task``; yield each as soon as it is composed.

    Version i of seed s is always the same. ``progress`` and ``on_event`` are passed to
    :func:`.composer.versions`; for chorales and loops ``on_event`` is never called. Raises
    ``UserError`` for a model without control tokens, and for an option that the model's tokens
    cannot express, such as chords.
    """
    path = registry.FILLERS.get(bundle.tokenizer.name)
    kind: type[Filler] = registry.load(path) if path else Filler
    yield from kind(bundle, task, request).compose(seed, progress, on_event)


class Filler:
    """Composes a ``task`` with a model of events. ``registry.FILLERS`` names the subclasses for
    other tokens.

    values  control -> the value in the request, such as the density in notes per second
    """

    def __init__(self, bundle: Bundle, task: Task, request: InfillConfig | AccompanyConfig) -> None:
        if not has_controls(bundle.tokenizer):
            raise UserError(f"model: {unable(bundle.tokenizer)}")
        self.bundle, self.request, self.values = bundle, request, controls_of(request)
        in_time = on_beats(bundle, request.quantise)
        self.task = task.in_time() if in_time else task
        self.check()

    def check(self) -> None:
        """Raise ``UserError`` for options that the model's tokens cannot express: events have
        neither bars nor chords."""
        options = {name: getattr(self.request, name, None) for name in ("chords", "style")}
        options |= {"loop": "true" if self.request.loop else None}
        if is_chart(self.task.score):
            options["chords"] = options["chords"] or "of the file"
        for name, value in options.items():
            if value is not None:
                raise UserError(f"{name}={value}: {counts_no_bars(self.bundle.tokenizer)}")

    def compose(
        self, seed: int, progress: OnProgress, on_event: OnEvent | None
    ) -> Iterator[Sample]:
        """Yield each version as soon as it is composed (:func:`compose_versions`)."""
        for new, chords, is_complete in self.versions(self.task, seed, progress, on_event):
            yield make_sample(self.bundle, self.task, new, chords, is_complete)

    def versions(
        self, task: Task, seed: int, progress: OnProgress, on_event: OnEvent | None
    ) -> Iterator[tuple[np.ndarray, Sequence[tuple[float, str]], bool]]:
        """Yield for each version its new notes, its new chords as (seconds, name), and whether the
        version reached the end of the region."""
        region, place = self._region(task)
        versions = composer.versions(
            region,
            [(seed, number) for number in range(self.request.samples)],
            placed=place,
            progress=progress,
            on_event=on_event,
        )
        for version in versions:
            yield place(version.new), version.chords, version.done

    def _region(self, task: Task) -> tuple[Infill, Placed]:
        """Return the region to compose for ``task``, and a function that converts its new notes to
        notes of the file."""
        bundle, request = self.bundle, self.request
        _check_drums(bundle, task)
        named_parts = parts.find_parts(bundle, task.add)
        # Targets apply to the new notes alone, or else to the new and the given notes together.
        new_notes_only = task.is_gap or bool(named_parts)
        # A control counts notes per second of the ids, which is `pace` seconds of the file.
        pace = bundle.tokenizer.clock(task.score).pace(task.begin, task.end)
        targets = _per_second_of_ids(self._targets(task, named_parts), pace)
        given_levels = _per_second_of_ids(task.given_levels, pace)
        # Control tokens describe all notes of the region.
        described = targets
        if new_notes_only and targets.get("density"):
            described = {**targets, "density": targets["density"] + _given_density(task) * pace}

        score, given = self._with_model_programs(task, named_parts)
        new_parts = list(named_parts.values()) or default_parts(bundle, task, score)
        habits = habits_of(bundle, task, named_parts, request, score, new_parts)
        steered = frozenset(new_parts) if new_notes_only else None
        habit_density = sum(habit.density for habit in habits.values())
        if new_notes_only and "density" in targets:
            factor = targets["density"] / habit_density if habit_density else 0.0
            habits = {p: h._replace(density=factor * h.density) for p, h in habits.items()}
        elif named_parts and all(habit.density for habit in habits.values()):
            if given_levels:
                given_levels["density"] += habit_density
            # The target of drums is the density of their habit.
            pitched = [part for part in habits if part != DRUMS]
            if pitched:
                steered = frozenset(pitched)
                targets = {**targets, "density": sum(habits[part].density for part in pitched)}

        steer = steering(bundle, described, request.guidance, around=given_levels)
        if task.is_gap and not bundle.tokenizer.beats:
            targets = {**given_levels, **targets}
        region = self.region(
            task,
            score,
            given,
            is_gap=task.is_gap,
            parts=set(new_parts),
            habits=habits,
            sampling=request.sampling,
            stats=replace(bundle.stats, density=task.given_levels.get("density")),
            steering=replace(steer, values=targets, parts=steered),
        )
        return region, partial(_place, bundle, task, score, new_parts, request.quantise)

    def _targets(self, task: Task, named_parts: Mapping[str, int]) -> dict[str, float]:
        """Return the values of the controls in the request, and default values for the other
        controls of an accompaniment. The density is in notes per second of the file."""
        if not (task.is_gap or named_parts):
            return {**self.usual_levels(task), **self.values}
        if named_parts and len(task.given):  # named parts are as loud as the given notes
            return {"loudness": float(task.given.notes["velocity"].mean()), **self.values}
        return self.values

    def _with_model_programs(
        self, task: Task, named_parts: Mapping[str, int]
    ) -> tuple[Score, Score]:
        """Return the file and its given notes with the programs that the model was trained with.
        For the usual accompaniment, the given notes get the program of melodies."""
        bundle, melody = self.bundle, parts.melody_program(self.bundle)
        lent = parts.lend_programs(
            bundle,
            task.score,
            first=task.tracks,
            melodies=task.melody if named_parts else (),
            new_parts=named_parts.values(),
        )
        score = parts.with_model_programs(bundle, task.score, lent)
        given = parts.with_model_programs(bundle, task.given, lent)
        if task.is_gap or named_parts or melody is None:
            return score, given
        notes = given.notes.copy()
        notes["program"][~notes["drum"]] = melody
        return score, given.with_notes(notes)

    # --------------------------------------------------------- depends on the tokens

    def region(self, task: Task, score: Score, given: Score, **options: Any) -> Infill:
        """Return the region to compose. ``score``, the whole file, and ``given``, its notes that
        stay, have the programs that the model was trained with; ``options`` are passed to
        :class:`.Infill`."""
        model, tokenizer = self.bundle.model, self.bundle.tokenizer
        assert isinstance(tokenizer, PerformanceTokenizer)
        return EventInfill(model, tokenizer, given, task.begin, task.end, **options)

    def usual_levels(self, task: Task) -> dict[str, float]:
        """Return the usual density and register of a melody with its accompaniment. Without a
        target for the register the accompaniment stays too close to the melody."""
        levels, notes = self.usual_density(task), task.given.notes
        if len(notes):
            levels["register"] = max(float(notes["pitch"].mean()) - SEMITONES_LOWER, 1.0)
        return levels

    def usual_density(self, task: Task) -> dict[str, float]:
        """Return the usual density of a melody with its accompaniment; without a melody, that of an
        accompaniment to a usual melody."""
        density = accompaniment_density(self.bundle, task, len(task.given))
        if task.given_levels:
            density += task.given_levels["density"]
            return {"density": min(density, self.bundle.stats.density or np.inf)}
        return {"density": density} if np.isfinite(density) else {}


def _per_second_of_ids(values: Mapping[str, float], pace: float) -> dict[str, float]:
    """Return ``values`` of controls with the density in notes per second of the ids instead of
    notes per second of the file."""
    return {n: value * pace if n == "density" else value for n, value in values.items()}


def _given_density(task: Task) -> float:
    """Return the density of the given notes in the region, in notes per second of the file."""
    start = task.given.notes["start"]
    count = ((start >= task.begin) & (start < task.end)).sum()
    return float(count / max(task.end - task.begin, 1.0))


def default_parts(bundle: Bundle, task: Task, score: Score) -> list[int]:
    """Return the parts to compose if the request names none: those on the tracks of the gap, or the
    parts of the model's usual accompaniment (for a model without programs, program 0)."""
    on_tracks = score.notes[np.isin(score.notes["track"], task.tracks)]
    if "program" not in bundle.tokenizer.kinds:
        programs = {0}
    elif task.tracks:
        programs = set(on_tracks["program"][~on_tracks["drum"]].tolist())
    else:
        programs = set(parts.corpus_programs(bundle).values()) - {parts.melody_program(bundle)}
    return [*sorted(programs or {0}), *([DRUM_PART] if on_tracks["drum"].any() else [])]


def _check_drums(bundle: Bundle, task: Task) -> None:
    """Raise ``UserError`` if a drum track is to be composed by a model that writes no drums."""
    if "drums" in parts.available_parts(bundle):
        return
    notes = task.score.notes
    for track in sorted(set(notes["track"][notes["drum"]].tolist()) & set(task.tracks)):
        name = task.score.names.get(track, "") or track + 1
        raise UserError(f"tracks={name}: these are drums, and {parts.refusal(bundle, 'drums')}")


def _place(
    bundle: Bundle,
    task: Task,
    score: Score,
    new_parts: Sequence[int],
    quantise: str,
    new: np.ndarray,
) -> np.ndarray:
    """Return the ``new`` notes on tracks of the file, quantised to the grid ``quantise``, and in a
    gap moved inside the gap.

    In a gap, each note goes to the track that has the note's program in ``score``, the file with
    the programs that the model was trained with. An accompaniment gets a new track for each of the
    ``new_parts``.
    """
    new = timeline.quantised(new, task.score, quantise)
    begin, end = (task.begin, task.end) if task.is_gap else (0.0, np.inf)
    if task.is_gap:
        new = timeline.within(new, task.score, quantise, begin, end)
    new = timeline.on_ticks(new, task.score, begin, end)
    if task.tracks:
        new = timeline.on_tracks(new, score, bundle.tokenizer, task.tracks)
        return timeline.sounding(new, task.score.notes)
    new["track"] = timeline.first_free(task.score)
    for number, part in enumerate(new_parts):
        of_part = new["drum"] if part == DRUMS else (new["program"] == part) & ~new["drum"]
        new["track"][of_part] += number
    return new


def make_sample(
    bundle: Bundle,
    task: Task,
    new: np.ndarray,
    chords: Sequence[tuple[float, str]],
    is_complete: bool,
) -> Sample:
    """Return the piece with its ``new`` notes, and with the new ``chords`` as markers. New tracks
    get the names of the parts that the request names, or else "accompaniment"."""
    kept, names = task.given if task.is_gap else task.score, dict(task.score.names)
    first_new_track = timeline.first_free(task.score)
    for number, track in enumerate([] if task.tracks else np.unique(new["track"]).tolist(), 1):
        if task.add:
            names[track] = task.add[track - first_new_track].capitalize()
        else:
            names[track] = "accompaniment" if number == 1 else f"accompaniment {number}"
    notes = np.concatenate([kept.notes, new])
    # The chords of a gap are not written: infilling leaves other tracks and the markers unchanged.
    markers = tuple(sorted([*task.given.markers, *(() if task.is_gap else chords)]))
    piece = replace(kept, notes=notes, names=names, markers=markers)
    score = parts.with_file_programs(bundle, piece, task.score)
    seam = task.begin if task.is_gap else 0.0
    ended: Ended = "seconds" if is_complete else "stuck"
    return Sample(score, seam, np.empty(0, np.uint16), len(new), task.end - task.begin, ended)


def run(config: InfillConfig | AccompanyConfig) -> list[Result]:
    """Compose for the options ``config``; write each version, and print its path, as soon as it is
    composed."""
    return [report(result) for result in results(config)]


def results(config: InfillConfig | AccompanyConfig, notice: Notice = say) -> Iterator[Result]:
    """Write each version as soon as it is composed, and yield its result. Before the first one,
    ``notice`` is called with warnings for the user."""
    chords = None
    if isinstance(config, InfillConfig):
        option, path, done = "file", config.file, "infilled"
    else:
        option, path, done = "melody", config.melody, "accompanied"
        chords = config.chords
    if path is None and chords is None:
        alternative = ", or chords='| C | Am7 F | G |'" if option == "melody" else ""
        raise UserError(f"{option}: missing; give a MIDI file{alternative}")
    score, limits, repeats = Score(), config.limits, config.repeats
    if path is not None:
        score = read_music(path, option, "to work on", limits, repeats=repeats, notice=notice)
    task = task_of(config, score)
    work = Work.of(config, path or "chords", notice, suits_bars(config, score), done=done)
    keeps_to_beats = on_beats(work.bundle, config.quantise)
    if keeps_to_beats:
        task = task.in_time()
        notice_of_beats(task.score, notice)
    instead = "give a file that keeps to its tempo marks, with quantise=16"
    check_notation(config.out, keeps_to_beats and formats.has_notation(score), instead)
    length = (task.end - task.begin) * config.samples
    with progress("composing", "seconds", length) as update:
        versions = compose_versions(work.bundle, task, config, seed=work.seed, progress=update)
        for number, sample in enumerate(versions):
            yield work.write(number, sample, new_notes(sample), sample.remark)
