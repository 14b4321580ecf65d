"""``musictx infill FILE from=5 to=8`` and ``musictx accompany FILE``: compose new
notes that fit the notes already there.

:func:`.tasks.task_of` decides where new notes begin and which notes stay. :func:`arrange` decides
which parts are composed, with which habits and controls (:class:`.Brief`). A region
(:class:`.Infill`) has the prompt, constraint and penalties for the engine. :func:`compose_region`
composes it and moves its notes to the tracks of the file. :func:`make_sample` adds them to the
piece.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from musictx import formats, registry
from musictx.apps import parts
from musictx.apps.habits import accompaniment_density, habits_of, seconds_per_id_second
from musictx.apps.results import (
    Notice,
    Result,
    Work,
    check_notation,
    describe_new_notes,
    notify_about_beats,
    on_beats,
    print_line,
    read_music,
    report,
    suits_bars,
)
from musictx.apps.tasks import Task, task_of
from musictx.bundle import Bundle
from musictx.chords import is_chart
from musictx.config import AccompanyConfig, InfillConfig
from musictx.data.statistics import WINDOW_SECONDS, parts_of
from musictx.errors import UserError, shown
from musictx.keys import name_chords
from musictx.notes import DRUMS, Score
from musictx.progress import progress as show_progress
from musictx.sampling import composer, timeline
from musictx.sampling.composer import Progress
from musictx.sampling.constants import SEMITONES_LOWER
from musictx.sampling.event_infill import EventInfill
from musictx.sampling.events import FinishNotes, OnEvent
from musictx.sampling.idiom import idiom_of
from musictx.sampling.infill import Brief, Infill
from musictx.sampling.sample import Ended, Sample
from musictx.sampling.steer import Steering, has_controls, no_bars_message, no_controls_message
from musictx.tokens import controls


class Version(NamedTuple):
    """One of the requested versions: its new ``notes``, its new ``chords`` as (seconds, name), and
    whether it reaches the end of the region."""

    notes: np.ndarray
    chords: Sequence[tuple[float, str]]
    is_complete: bool


def compose_versions(
    bundle: Bundle,
    task: Task,
    request: InfillConfig | AccompanyConfig,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
) -> Iterator[Sample]:
    """Compose ``request.samples`` versions of a ``task``; yield each as soon as it is composed.

    Version i of seed s is always the same. ``progress`` and ``on_event`` are those of
    :func:`.composer.versions`, in seconds of the file; for chorales and loops ``on_event`` is never
    called. Raises ``UserError`` for a model without control tokens, and for an option that the
    model's tokens cannot express, such as chords.
    """
    compose = registry.load(idiom_of(bundle.tokenizer).infill)
    yield from compose(bundle, task, request, seed, progress=progress, on_event=on_event)


def compose_events(
    bundle: Bundle,
    task: Task,
    request: InfillConfig | AccompanyConfig,
    seed: int,
    **callbacks: Any,
) -> Iterator[Sample]:
    """:func:`compose_versions` for models with event tokens."""
    task = with_beats(bundle, task, request)
    _refuse_bars(bundle, task, request)
    score, brief = arrange(bundle, task, request, usual_levels(bundle, task))
    region = EventInfill(bundle, brief)
    for version in compose_region(region, task, score, request, seed, **callbacks):
        yield make_sample(bundle, task, version)


def with_beats(bundle: Bundle, task: Task, request: InfillConfig | AccompanyConfig) -> Task:
    """Return ``task``, with the beats of its music if the new notes keep to beats. First check the
    model: raises ``UserError`` if it has no control tokens."""
    if not has_controls(bundle.tokenizer):
        raise UserError(f"model: {no_controls_message(bundle.tokenizer)}")
    return task.in_time() if on_beats(bundle, request.quantise) else task


def _refuse_bars(bundle: Bundle, task: Task, request: InfillConfig | AccompanyConfig) -> None:
    """Raise ``UserError`` for options that need bars or chords, which event tokens do not have."""
    options = {name: getattr(request, name, None) for name in ("chords", "style")}
    options["loop"] = "true" if request.loop else None
    if is_chart(task.score):
        options["chords"] = options["chords"] or "of the file"
    for name, value in options.items():
        if value is not None:
            raise UserError(f"{name}={value}: {no_bars_message(bundle.tokenizer)}")


def usual_levels(bundle: Bundle, task: Task) -> dict[str, float]:
    """Return the usual density, in notes per second of the file, and register of a melody together
    with its accompaniment. Without a melody: only the density of an accompaniment to
    an average melody."""
    density = accompaniment_density(bundle, task, len(task.given))
    levels = {"density": density} if np.isfinite(density) else {}
    if task.given_levels:
        density += task.given_levels["density"]
        corpus_density = (bundle.stats.density or np.inf) / seconds_per_id_second(bundle, task)
        levels["density"] = min(density, corpus_density)
    if len(task.given):  # without a target the accompaniment stays too close to the melody
        mean_pitch = float(task.given.notes["pitch"].mean())
        levels["register"] = max(mean_pitch - SEMITONES_LOWER, 1.0)  # 0 would be no target
    return levels


def arrange(
    bundle: Bundle,
    task: Task,
    request: InfillConfig | AccompanyConfig,
    usual: Mapping[str, float],
) -> tuple[Score, Brief]:
    """Choose the parts to compose for ``task``, their habits, and the targets of controls. Return
    the file with the programs that the model was trained with, and the brief of the region.

    In a gap, and for parts that ``request`` names, targets apply to the new notes alone. For the
    usual accompaniment they apply to new and given notes together, and controls that ``request``
    does not set get their ``usual`` levels; for named parts only the usual polyphony counts. With
    a requested density, each new part has at most its share of the notes.
    """
    _check_drums(bundle, task)
    named_parts = parts.find_parts(bundle, task.add)
    score, given = _with_model_programs(bundle, task, named_parts)
    new_parts = list(named_parts.values()) or default_parts(bundle, task, score)
    habits = habits_of(bundle, task, named_parts, request, score, new_parts)
    habit_density = sum(habit.density for habit in habits.values())

    new_notes_only = task.is_gap or bool(named_parts)
    steered_parts = frozenset(new_parts) if new_notes_only else None
    defaults = {} if new_notes_only else usual
    if named_parts and len(task.given):  # named parts are as loud as the given notes
        defaults = {"loudness": float(task.given.notes["velocity"].mean())}
    stretch = seconds_per_id_second(bundle, task)  # controls count notes per second of the ids
    targets = _per_second_of_ids({**defaults, **request.controls}, stretch)
    given_levels = _per_second_of_ids(task.given_levels, stretch)
    region_levels = dict(targets)  # for control tokens, which describe all notes of the region
    density_is_requested = request.sampling.density is not None
    usual_density = None if density_is_requested else targets.pop("density", None)
    usual_polyphony = None if "polyphony" in request.controls else targets.pop("polyphony", None)
    if new_notes_only and density_is_requested:
        if targets["density"]:
            start = task.given.notes["start"]  # in the region
            count = ((start >= task.begin) & (start < task.end)).sum()
            region_levels["density"] += count / max(task.end - task.begin, 1.0) * stretch
        factor = targets["density"] / habit_density if habit_density else 0.0
        # Given notes and the strokes of a drummer do not count towards a limit of new notes.
        unlimited = {DRUMS, *parts_of(given.notes)}
        for part, habit in habits.items():
            density = factor * habit.density
            densest = habit.densest if part in unlimited else WINDOW_SECONDS * density or np.inf
            habits[part] = habit._replace(density=density, densest=densest)
    elif named_parts and all(habit.density for habit in habits.values()):
        given_levels["density"] = given_levels.get("density", 0.0) + habit_density
        # Drums keep to the density of their habit.
        pitched = [part for part in habits if part != DRUMS]
        if pitched:
            steered_parts = frozenset(pitched)
            usual_density = sum(habits[part].density for part in pitched)
            if "polyphony" in usual:  # without a target their notes are too short
                voices = sum(habits[part].voices for part in pitched)
                usual_polyphony = min(usual["polyphony"], voices)
    levels = tuple(controls.control_levels({**given_levels, **region_levels}))
    if not bundle.tokenizer.beats:  # feedback on events measures the given notes, too
        given_levels.pop("density", None)
        targets = (given_levels if task.is_gap else {}) | region_levels
    return score, Brief(
        given,
        begin=task.begin,
        end=task.end,
        is_gap=task.is_gap,
        parts=new_parts,
        habits=habits,
        sampling=request.sampling,
        stats=replace(bundle.stats, density=task.given_levels.get("density")),
        steering=Steering(levels, targets, steered_parts, usual_density, usual_polyphony),
    )


def _with_model_programs(
    bundle: Bundle, task: Task, named_parts: Mapping[str, int]
) -> tuple[Score, Score]:
    """Return the file and its given notes with the programs that the model was trained with. For
    the usual accompaniment, the given notes get the program of melodies."""
    melody, melodies = parts.melody_program(bundle), task.melody if named_parts else ()
    new_parts = named_parts.values()
    lent = parts.lend_programs(
        bundle, task.score, first=task.tracks, melodies=melodies, new_parts=new_parts
    )
    score = parts.with_model_programs(bundle, task.score, lent)
    given = parts.with_model_programs(bundle, task.given, lent)
    if task.is_gap or named_parts or melody is None:
        return score, given
    notes = given.notes.copy()
    notes["program"][~notes["drum"]] = melody
    return score, given.with_notes(notes)


def _per_second_of_ids(values: Mapping[str, float], stretch: float) -> dict[str, float]:
    """Return the ``values`` of controls with the density per second of the ids instead of the file.
    ``stretch``: seconds of the file per second of the ids."""
    return {n: value * stretch if n == "density" else value for n, value in values.items()}


def default_parts(bundle: Bundle, task: Task, score: Score) -> list[int]:
    """Return the parts to compose if the request names none: in a gap, the programs that its
    tracks have there, and drums if they have any; otherwise those of the model's usual
    accompaniment. If there are none, or for a model without programs: program 0."""
    on_tracks = score.notes[np.isin(score.notes["track"], task.tracks)]
    if "program" not in bundle.tokenizer.vocabulary.kinds:
        programs = {0}
    elif task.tracks:
        programs = timeline.programs_between(on_tracks[~on_tracks["drum"]], task.begin, task.end)
    else:
        programs = set(parts.corpus_programs(bundle).values()) - {parts.melody_program(bundle)}
    new_parts = sorted(programs)
    if on_tracks["drum"].any():
        new_parts.append(DRUMS)
    return new_parts or [0]


def _check_drums(bundle: Bundle, task: Task) -> None:
    """Raise ``UserError`` if a drum track is to be composed by a model that writes no drums."""
    if "drums" in parts.available_parts(bundle):
        return
    notes = task.score.notes
    for track in sorted(set(notes["track"][notes["drum"]].tolist()) & set(task.tracks)):
        name = task.score.names.get(track, "") or track + 1
        raise UserError(f"tracks={name}: these are drums; {parts.refusal(bundle)}")


def compose_region(
    region: Infill,
    task: Task,
    score: Score,
    request: InfillConfig | AccompanyConfig,
    seed: int,
    rework: FinishNotes | None = None,
    **callbacks: Any,
) -> Iterator[Version]:
    """Compose ``request.samples`` versions of the ``region`` of a ``task``; yield each as soon as
    it is composed. ``score`` is the file with the programs of the model. ``rework``, if given,
    is applied to the new notes last. ``callbacks`` are those of :func:`.composer.versions`."""
    seeds = [(seed, number) for number in range(request.samples)]

    def finish(new: np.ndarray) -> np.ndarray:
        new = _finish(region, task, score, request.quantise, new)
        return rework(new) if rework else new

    for composed, new in composer.versions(region, seeds, finish=finish, **callbacks):
        yield Version(new, composed.chords, composed.done)


def _finish(region: Infill, task: Task, score: Score, grid: str, new: np.ndarray) -> np.ndarray:
    """Return the ``new`` notes quantised to ``grid``, and assigned to tracks: in a gap, to the
    track that has the program of the note in ``score``; in an accompaniment, to a new track for
    each part. Notes begin inside the gap; in an accompaniment, or in a gap at the end of the piece,
    they end with the last bar."""
    begin, end = task.begin, task.end
    if not task.is_gap:
        beats = task.score.beats
        begin, end = 0.0, max(end, beats.seconds(beats.bar_line(0.0, beats.bar_at(end, ends=True))))
    new = timeline.quantise(new, task.score, grid, (begin, end))
    new = timeline.move_into(new, begin, end)
    if not task.is_gap or end >= task.score.duration - 1e-6:
        new["end"] = np.minimum(new["end"], end)
    if task.tracks:
        new = timeline.assign_tracks(new, score, region.tokenizer, task.tracks)
        return timeline.with_track_programs(new, task.score.notes)
    new["track"] = timeline.first_free_track(task.score)
    for number, part in enumerate(region.brief.parts or ()):
        in_part = new["drum"] if part == DRUMS else (new["program"] == part) & ~new["drum"]
        new["track"][in_part] += number
    return new


def make_sample(bundle: Bundle, task: Task, version: Version) -> Sample:
    """Return the piece with the new notes of ``version``, and with its chords as markers. New
    tracks are named after the parts that the request names, or else "accompaniment", unless the
    corpus has a name for their program."""
    base, names = task.given if task.is_gap else task.score, dict(task.score.names)
    first_new_track = timeline.first_free_track(task.score)
    new_tracks = [] if task.tracks else np.unique(version.notes["track"]).tolist()
    for number, track in enumerate(new_tracks, 1):
        if task.add:
            names[track] = task.add[track - first_new_track].capitalize()
        else:
            names[track] = "accompaniment" if number == 1 else f"accompaniment {number}"
    piece = replace(base, notes=np.concatenate([base.notes, version.notes]), names=names)
    chords = name_chords(piece, version.chords)
    # The chords of a gap are not written: infilling leaves other tracks and the markers unchanged.
    written = () if task.is_gap else chords
    piece = replace(piece, markers=tuple(sorted([*task.given.markers, *written])))
    score = parts.with_file_programs(bundle, piece, task.score)
    seam = task.begin if task.is_gap else 0.0
    length = task.end - task.begin
    ended: Ended = "seconds" if version.is_complete else "stuck"
    no_ids = np.empty(0, np.uint16)
    return Sample(score, seam, no_ids, len(version.notes), length, ended, chords)


def run(config: InfillConfig | AccompanyConfig) -> list[Result]:
    """Compose versions; write each, and print its path, as soon as it is composed."""
    return [report(result) for result in results(config)]


def results(
    config: InfillConfig | AccompanyConfig, notice: Notice = print_line
) -> Iterator[Result]:
    """Write each version as soon as it is composed, and yield its result. Before the first one,
    ``notice`` is called with warnings for the user."""
    if isinstance(config, InfillConfig):
        option, path, participle, chords = "file", config.file, "infilled", None
    else:
        option, path, participle, chords = "melody", config.melody, "accompanied", config.chords
    if path:
        score = read_music(path, option, config.limits, config.repeats, notice)
    elif chords:
        score = Score()
    else:
        chart = ", or chords='| C | Am7 F | G |'" if option == "melody" else ""
        raise UserError(f"{option}: missing; give a MIDI file{chart}")
    repairs: Counter[str] = Counter()
    task = task_of(config, score, repairs=repairs)
    if line := formats.repairs_message(shown(chords), repairs):
        notice(line)
    work = Work.of(config, path or "chords", notice, suits_bars(config, score), done=participle)
    keeps_to_beats = on_beats(work.bundle, config.quantise)
    if keeps_to_beats:
        task = task.in_time()
        notify_about_beats(task.score, notice)
    suggestion = "give a file that keeps to its tempo marks, with quantise=16"
    check_notation(config.out, keeps_to_beats and formats.has_notation(score), suggestion)
    length = (task.end - task.begin) * config.samples
    with show_progress("composing", "seconds", length) as update:
        samples = compose_versions(
            work.bundle, task, config, seed=work.seed, progress=lambda _, seconds: update(seconds)
        )
        for number, sample in enumerate(samples):
            yield work.write(number, sample, describe_new_notes(sample), sample.remark)
