"""``musictx infill FILE from=5 to=8``, ``musictx accompany FILE``: new notes around given ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from musictx import formats, registry
from musictx.apps import parts
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
)
from musictx.apps.tasks import Task, task_of
from musictx.bundle import Bundle
from musictx.chords import is_chart
from musictx.config import AccompanyConfig, InfillConfig
from musictx.errors import UserError
from musictx.grid import grid_of
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

#: Semitones by which the mean pitch of a melody with its accompaniment is below the melody's own.
LOWER = 6.5


def composed(
    bundle: Bundle,
    task: Task,
    request: InfillConfig | AccompanyConfig,
    *,
    seed: int = 0,
    progress: OnProgress = None,
    on_event: OnEvent | None = None,
) -> Iterator[Sample]:
    """Yields each version of a ``task`` as soon as it is composed. Sample i of seed s is always the
    same. ``progress`` and ``on_event`` are those of :func:`.composer.versions`; chorales and loops
    have no events. Raises ``UserError`` for a model without control tokens, and for an option that
    its kind of tokens cannot express, such as chords.
    """
    path = registry.FILLERS.get(bundle.tokenizer.name)
    kind: type[Filler] = registry.load(path) if path else Filler
    yield from kind(bundle, task, request).composed(seed, progress, on_event)


class Filler:
    """Composes a ``task`` with a model of events. ``registry.FILLERS`` names the subclasses for
    other tokens.

    values  the levels of the controls that the request asks for, such as its density
    """

    def __init__(self, bundle: Bundle, task: Task, request: InfillConfig | AccompanyConfig) -> None:
        if not has_controls(bundle.tokenizer):
            raise UserError(f"model: {unable(bundle.tokenizer)}")
        self.bundle, self.request, self.values = bundle, request, controls_of(request)
        in_time = on_beats(bundle, request.quantise)
        self.task = task.in_time() if in_time else task
        self.check()

    def check(self) -> None:
        """Refuse options that the model's tokens cannot express: events have neither bars nor
        chords."""
        asked = {name: getattr(self.request, name, None) for name in ("chords", "style")}
        asked |= {"loop": "true" if self.request.loop else None}
        if is_chart(self.task.score):
            asked["chords"] = asked["chords"] or "of the file"
        for name, value in asked.items():
            if value is not None:
                raise UserError(f"{name}={value}: {counts_no_bars(self.bundle.tokenizer)}")

    def composed(
        self, seed: int, progress: OnProgress, on_event: OnEvent | None
    ) -> Iterator[Sample]:
        """Yields each version as soon as it is composed; see :func:`composed`."""
        for new, chords, done in self.versions(self.task, seed, progress, on_event):
            yield sample(self.bundle, self.task, new, chords, done)

    def versions(
        self, task: Task, seed: int, progress: OnProgress, on_event: OnEvent | None
    ) -> Iterator[tuple[np.ndarray, Sequence[tuple[float, str]], bool]]:
        """Yields for each version its new notes, the chords that were composed, and whether it was
        composed to its end."""
        region, placed = self._region(task)
        versions = composer.versions(
            region,
            [(seed, number) for number in range(self.request.samples)],
            placed=placed,
            progress=progress,
            on_event=on_event,
        )
        for version in versions:
            yield placed(version.new), version.chords, version.done

    def _region(self, task: Task) -> tuple[Infill, Placed]:
        """The region that is composed for a ``task``, and the function that converts its new notes
        to notes of the file."""
        bundle, values = self.bundle, self.values
        _check_drums(bundle, task)
        wanted = parts.by_name(bundle, task.add)
        # Whether the levels asked for are those of the new notes alone, without the given ones.
        alone = task.is_gap or bool(wanted)
        if not alone:
            values = {**self.usual(task), **values}
        elif wanted and len(task.given):  # parts are as loud as what they join
            values = {"loudness": float(task.given.notes["velocity"].mean()), **values}
        # A control counts notes for each second of the ids, which are `pace` seconds of the file.
        pace = bundle.tokenizer.clock(task.score).pace(task.begin, task.end)
        values, around = (
            {name: value * (pace if name == "density" else 1) for name, value in one.items()}
            for one in (values, task.around)
        )
        together = dict(values)
        if alone and values.get("density"):
            start = task.given.notes["start"]
            others = ((start >= task.begin) & (start < task.end)).sum()
            together["density"] += others / max(task.end - task.begin, 1.0) * pace
        lent = parts.lent(
            bundle,
            task.score,
            first=task.tracks,
            tunes=task.melody if wanted else (),
            wanted=wanted.values(),
        )
        score, given = (parts.as_trained(bundle, one, lent) for one in (task.score, task.given))
        melody = parts.melody_program(bundle)
        if not alone and melody is not None:
            notes = given.notes.copy()
            notes["program"][~notes["drum"]] = melody
            given = given.with_notes(notes)
        composed = [*wanted.values()] or composed_parts(bundle, task, score)
        habits = parts.habits_of(bundle, task, wanted, self.request, score, composed)
        usual = sum(habit.density for habit in habits.values())
        if alone and "density" in values:
            share = values["density"] / usual if usual else 0.0
            habits = {p: one._replace(density=share * one.density) for p, one in habits.items()}
        elif wanted and all(habit.density for habit in habits.values()):
            if around:
                around = {**around, "density": around["density"] + usual}
            if DRUMS not in habits:  # drum parts have a density of their own
                values = {**values, "density": usual}
        steer = steering(bundle, together, self.request.guidance, around=around)
        if task.is_gap and not bundle.tokenizer.beats:
            values = {**around, **values}
        region = self.infill(
            task,
            score,
            given,
            is_gap=task.is_gap,
            parts=set(composed),
            habits=habits,
            sampling=self.request.sampling,
            stats=replace(bundle.stats, density=task.around.get("density")),
            steering=replace(steer, values=values, parts=frozenset(composed) if alone else None),
        )
        return region, partial(_placed, bundle, task, score, composed, self.request.quantise)

    # ------------------------------------------------------------------ where tokens differ

    def infill(self, task: Task, score: Score, given: Score, **options: Any) -> Infill:
        """The region to compose around the notes that stay, ``given``. They and ``score``, the
        whole file, have the programs that the model was trained with; ``options`` are those of
        :class:`.Infill`."""
        model, tokenizer = self.bundle.model, self.bundle.tokenizer
        assert isinstance(tokenizer, PerformanceTokenizer)
        return EventInfill(model, tokenizer, given, task.begin, task.end, **options)

    def usual(self, task: Task) -> dict[str, float]:
        """The usual levels of a melody with its accompaniment: its density and its register, which
        without this control stays too close to the melody."""
        levels, notes = self.usual_density(task), task.given.notes
        if len(notes):
            levels["register"] = max(float(notes["pitch"].mean()) - LOWER, 1.0)
        return levels

    def usual_density(self, task: Task) -> dict[str, float]:
        """The usual density of a melody with its accompaniment; without a melody, that of the
        accompaniment of a usual one."""
        rate = parts.accompanying(self.bundle, task, len(task.given))
        if task.around:
            rate = min(task.around["density"] + rate, self.bundle.stats.density or np.inf)
            return {"density": rate}
        return {"density": rate} if np.isfinite(rate) else {}


def composed_parts(bundle: Bundle, task: Task, score: Score) -> list[int]:
    """The parts that are composed where none is asked for by name: those of the tracks of a gap, or
    the model's usual accompaniment."""
    chosen = score.notes[np.isin(score.notes["track"], task.tracks)]
    if "program" not in bundle.tokenizer.kinds:
        programs = {0}
    elif task.tracks:
        programs = set(chosen["program"][~chosen["drum"]].tolist())
    else:
        programs = set(parts.programs(bundle).values()) - {parts.melody_program(bundle)}
    return [*sorted(programs or {0}), *([DRUM_PART] if chosen["drum"].any() else [])]


def _check_drums(bundle: Bundle, task: Task) -> None:
    """Refuse to compose a drum track with a model that writes no drums."""
    if "drums" in parts.of_model(bundle):
        return
    notes = task.score.notes
    for track in sorted(set(notes["track"][notes["drum"]].tolist()) & set(task.tracks)):
        name = task.score.names.get(track, "") or track + 1
        raise UserError(f"tracks={name}: these are drums, and {parts.refusal(bundle, 'drums')}")


def _placed(
    bundle: Bundle,
    task: Task,
    score: Score,
    order: Sequence[int],
    quantise: str,
    new: np.ndarray,
) -> np.ndarray:
    """The ``new`` notes on tracks of the file: quantised as asked, and inside the gap if there is
    one.

    In a gap, a note goes to the track that has its program in ``score``, the file with the programs
    that the model was trained with. An accompaniment gets new tracks, one for each part, in
    ``order``.
    """
    new = timeline.quantised(new, task.score, quantise)
    begin, end = (task.begin, task.end) if task.is_gap else (0.0, np.inf)
    if task.is_gap:
        new = timeline.within(new, task.score, quantise, begin, end)
    new = timeline.on_ticks(new, task.score, begin, end)
    if task.tracks:
        new = timeline.on_tracks(new, score, bundle.tokenizer, task.tracks)
        return timeline.sounding(new, task.score.notes)
    new["track"] = timeline.first_free(task.score)  # each program on a new one
    for number, part in enumerate(order):
        of = new["drum"] if part == DRUMS else (new["program"] == part) & ~new["drum"]
        new["track"][of] += number
    return new


def sample(
    bundle: Bundle,
    task: Task,
    new: np.ndarray,
    chords: Sequence[tuple[float, str]],
    done: bool,
) -> Sample:
    """The piece with its ``new`` notes, and with the ``chords`` that were composed as markers. New
    tracks have the names of the parts that were asked for, or else "accompaniment"."""
    kept, names = task.given if task.is_gap else task.score, dict(task.score.names)
    if not task.tracks:
        first, added = timeline.first_free(task.score), [name.capitalize() for name in task.add]
        for number, track in enumerate(np.unique(new["track"]).tolist(), 1):
            names[track] = "accompaniment" if number == 1 else f"accompaniment {number}"
            names[track] = added[track - first] if added else names[track]
    notes = np.concatenate([kept.notes, new])
    # Chords of a gap are not written: other tracks stay as they are, that of markers too.
    markers = tuple(sorted([*task.given.markers, *(() if task.is_gap else chords)]))
    piece = replace(kept, notes=notes, names=names, markers=markers)
    score = parts.as_given(bundle, piece, task.score)
    seam = task.begin if task.is_gap else 0.0
    ended: Ended = "seconds" if done else "stuck"
    return Sample(score, seam, np.empty(0, np.uint16), len(new), task.end - task.begin, ended)


def run(config: InfillConfig | AccompanyConfig) -> list[Result]:
    """Compose as ``config`` says; each version is written, and its path printed, as it is done."""
    return [report(result) for result in results(config)]


def results(config: InfillConfig | AccompanyConfig, notice: Notice = say) -> Iterator[Result]:
    """Writes each version as soon as it is composed, and yields it; ``notice`` is called with
    warnings for the user beforehand."""
    chords, either = None, ""
    if isinstance(config, InfillConfig):
        option, path, done = "file", config.file, "infilled"
    else:
        option, path, done, chords = "melody", config.melody, "accompanied", config.chords
        either = ", or chords='| C | Am7 F | G |'"
    if path is None and chords is None:
        raise UserError(f"{option}: missing; give a MIDI file{either}")
    score, limits, repeats = Score(), config.limits, config.repeats
    if path is not None:
        score = read_music(path, option, "to work on", limits, repeats=repeats, notice=notice)
    task = task_of(config, score)
    beats = chords is not None or is_chart(score) or grid_of(score).on_beats
    work = Work.of(config, path or "chords", notice, on_beats=beats, done=done)
    beats = on_beats(work.bundle, config.quantise)
    if beats:
        task = task.in_time()
        notice_of_beats(task.score, notice)
    instead = "give a file that keeps to its tempo marks, with quantise=16"
    check_notation(config.out, beats and formats.has_notation(score), instead)
    length = (task.end - task.begin) * config.samples
    with progress("composing", "seconds", length) as update:
        versions = composed(work.bundle, task, config, seed=work.seed, progress=update)
        for number, sample in enumerate(versions):
            yield work.write(number, sample, new_notes(sample), sample.remark)
