"""Gaps, and accompaniments to a melody or chords, by models with bar tokens; see
:mod:`musictx.apps.infill`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from musictx import formats
from musictx.apps import parts
from musictx.apps.habits import NO_LIMITS, seconds_per_id_second
from musictx.apps.infill import arrange, compose_region, make_sample, usual_levels, with_beats
from musictx.apps.tasks import Task, melody_task, refuse_beats, requested_parts
from musictx.bundle import Bundle
from musictx.chords import NONE, chord_changes
from musictx.config import AccompanyConfig, InfillConfig
from musictx.config.checks import require
from musictx.errors import UserError
from musictx.keys import name_chords
from musictx.notes import DRUMS, Score
from musictx.sampling import timeline
from musictx.sampling.composer import Progress
from musictx.sampling.events import OnEvent, emit_all
from musictx.sampling.sample import Sample
from musictx.songs import chord_sheet, drummers
from musictx.songs.bar_infill import BarInfill
from musictx.songs.bars import blank_piece
from musictx.songs.chord_estimation import estimate_chords, search_chords
from musictx.songs.constants import LOUDNESS_RATIO
from musictx.songs.infill_penalties import BASS
from musictx.songs.passes import LeadIn, Loop


def compose(
    bundle: Bundle,
    task: Task,
    request: InfillConfig | AccompanyConfig,
    seed: int,
    *,
    progress: Progress | None,
    on_event: OnEvent | None,
) -> Iterator[Sample]:
    """As :func:`.compose_versions`, with a model with bar tokens: compose to the chords that the
    file names or the given notes imply, and with ``request.loop`` as a loop. In an accompaniment
    drums are composed after the other parts."""
    task = with_beats(bundle, task, request)
    named_parts, style = parts.find_parts(bundle, task.add), getattr(request, "style", None)
    hits = (request.sampling.density or 0.0) * seconds_per_id_second(bundle, task)
    players = drummers.choose_drummers(bundle, named_parts, style, hits)
    has_drums = DRUMS in named_parts.values()
    if isinstance(request, AccompanyConfig) and has_drums and len(named_parts) > 1:
        yield from _drums_last(bundle, task, request, seed, named_parts, progress, on_event)
        return
    chordless_task, task = task, with_chords(task)
    loop = Loop(task) if request.loop else None
    layout: LeadIn | None = loop
    if not (loop or task.is_gap or has_drums or task.score.pulse):
        layout = LeadIn(task, _beginning(task))
    model_task = layout.model_task() if layout else task
    score, brief = arrange(bundle, model_task, request, _usual_levels(bundle, model_task))
    if not task.is_gap:
        brief = replace(brief, begin=_beginning(model_task))
    varied = score if task.is_variation else None
    region = BarInfill(bundle, brief, players, varied, model_task.repeats)
    length = model_task.end - model_task.begin
    share = (task.end - task.begin) / length if length else 1.0
    stretch = share * seconds_per_id_second(bundle, model_task)
    callbacks: dict[str, Any] = {
        "progress": progress and (lambda count, seconds: progress(count, seconds * stretch)),
        "on_event": None if loop else on_event,
        "rework": layout and layout.notes,
    }
    is_drums_only = [*named_parts.values()] == [DRUMS]  # then no chords are written
    for version in compose_region(region, model_task, score, request, seed, **callbacks):
        if layout:
            version = version._replace(chords=layout.chords(version.chords))
        sample = make_sample(bundle, chordless_task if is_drums_only else task, version)
        yield replace(sample, score=loop.with_end(sample.score)) if loop else sample


def _beginning(task: Task) -> float:
    """The time in seconds at which an accompaniment begins: with the first given note or chord."""
    begins = [time for time, chord in chord_changes(task.given) if chord != NONE]
    return min([task.begin, *begins])


def _drums_last(
    bundle: Bundle,
    task: Task,
    request: AccompanyConfig,
    seed: int,
    named_parts: Mapping[str, int],
    progress: Progress | None,
    on_event: OnEvent | None,
) -> Iterator[Sample]:
    """Compose versions of the other parts, then drums to each. If all were composed at once, the
    other parts would begin notes where the drummer strikes: a place is drawn before its part.

    A requested density is divided among drums and other parts by their usual densities; register
    and polyphony apply to the other parts. Events are emitted when a version is finished."""
    (drums,) = (name for name, part in named_parts.items() if part == DRUMS)
    names = [name for name in task.add if name != drums]
    usual = bundle.stats.parts
    rates = {name: usual.get(part, NO_LIMITS).density for name, part in named_parts.items()}
    share = rates[drums] / total if (total := sum(rates.values())) else 1 / len(rates)
    pitched = replace(_with_density(request, 1 - share), add=",".join(names), style=None)
    drums_alone = _with_density(request, share)
    drums_alone = replace(drums_alone, add=drums, samples=1, register=None, polyphony=None)
    composed: dict[str, float] = {}  # seconds of the drums, and of the others

    def report(name: str, earlier: float, count: int, seconds: float) -> None:
        composed[name] = earlier + seconds
        if progress is not None:
            progress(count, sum(composed.values()) / 2)

    task_of_others, report_others = replace(task, add=(*names,)), partial(report, "others", 0.0)
    versions = compose(bundle, task_of_others, pitched, seed, progress=report_others, on_event=None)
    first = timeline.first_free_track(task.score)
    for number, version in enumerate(versions):
        notes = version.score.notes
        new = notes[notes["track"] >= first]
        notes = np.concatenate([task.given.notes, new])
        given = replace(task.given, notes=notes, markers=version.score.markers)
        drum_task = replace(task, score=version.score, given=given, add=(drums,))
        report_drums = partial(report, "drums", number * (task.end - task.begin))
        (sample,) = compose(
            bundle, drum_task, drums_alone, seed + number, progress=report_drums, on_event=None
        )
        if on_event is not None:
            notes = sample.score.notes
            emit_all(notes[notes["track"] >= first], partial(on_event, number))
        ended = version.ended if version.ended == "stuck" else sample.ended
        yield replace(sample, notes=version.notes + sample.notes, ended=ended)


def _with_density(request: AccompanyConfig, share: float) -> AccompanyConfig:
    """``request`` with its density, if any, multiplied by ``share``."""
    density = request.sampling.density
    if density is None:
        return request
    return replace(request, sampling=replace(request.sampling, density=density * share))


def _usual_levels(bundle: Bundle, task: Task) -> dict[str, float]:
    """The usual density, register, loudness and polyphony of a melody with its accompaniment.
    Without these targets the model writes short notes, as loud and as high as the melody. If the
    given notes are a bass, there is no target register, since their accompaniment is higher."""
    levels, notes = usual_levels(bundle, task), task.given.notes
    bass = bundle.stats.parts.get(BASS)
    if bass and len(notes) and np.median(notes["pitch"]) <= bass.high:
        del levels["register"]
    if bundle.stats.polyphony is not None:
        levels["polyphony"] = bundle.stats.polyphony
        if len(notes):
            levels["loudness"] = LOUDNESS_RATIO * float(notes["velocity"].mean())
    return levels


def with_chords(task: Task) -> Task:
    """``task`` with chords as markers, unless it is a gap or its given music has chord symbols: if
    parts to add are named, the chords that the given notes imply (:func:`.estimate_chords`), else
    chords for a melody (:func:`.search`)."""
    given = task.given
    if task.is_gap or chord_changes(given):
        return task
    chords = estimate_chords(given) if task.add else name_chords(given, search_chords(given))
    return replace(task, given=chord_sheet.with_markers(given, chords))


def under_chords(score: Score, request: AccompanyConfig, repairs: Counter[str] | None) -> Task:
    """The task of an accompaniment to the chords of ``request``, or else of ``score``, and to the
    melody in ``score``, if it has notes (:func:`.melody_task`). ``repairs``: see
    :func:`musictx.apps.tasks.task_of`."""
    if request.chords is not None:
        chart, bars = _sheet(request, request.chords, repairs)
        score = score if len(score) else chart
    else:
        refuse_beats(request)
        bars = chord_sheet.chord_bars(score)
    if len(score):
        task = melody_task(score, request).in_time()
        beats = task.score.beats
        first = max(beats.bar_at(task.begin) - 1, int(beats.pickup))  # not in a pick-up
        last = beats.bar_at(task.end, ends=True)
    else:
        add, track = requested_parts(request), request.melody_track
        require(track is None, "melody_track", track, "none without a melody")
        beats, first, last = score.beats, 0, len(bars)
        task = Task(score, score, 0.0, beats.seconds(beats.bar_line(0.0, last)), False, (), add=add)
    markers = chord_sheet.loop_markers(bars, beats, first, last)
    given = chord_sheet.with_markers(chord_sheet.without_chords(task.given), markers)
    return replace(task, given=given)


def _sheet(
    request: AccompanyConfig, chords: str, repairs: Counter[str] | None
) -> tuple[Score, list[chord_sheet.SheetBar]]:
    """A Score without notes in the tempo and meters of ``chords``, and the bars of the sheet.
    ``chords`` is a chord sheet (in those of ``request``), a link of iReal Pro or the name of a
    file."""
    path = Path(chords).expanduser()
    has_suffix = path.suffix.lower() in (*formats.SUFFIXES, *formats.CHORD_SUFFIXES)
    is_link = chords.lstrip().startswith("irealb")
    if not is_link and ("|" in chords or not (has_suffix or os.path.isfile(path))):
        blank = blank_piece(request.tempo, request.meter)
        return replace(blank, meters=blank.beats.meters), chord_sheet.sheet(chords)
    refuse_beats(request)
    try:
        score = formats.read(chords.encode() if is_link else path, repairs=repairs)
    except UserError as error:
        raise UserError(f"chords={error}") from None
    bars = chord_sheet.chord_bars(score)
    require(bool(bars), "chords", chords, "a file with chords or notes")
    return score.with_notes(score.notes[:0]), bars
