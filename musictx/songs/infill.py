"""Infilling of songs, and accompaniments to a melody or to chords, by models of notes in bars: see
:mod:`musictx.apps.infill`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from musictx import formats
from musictx.apps import parts
from musictx.apps.habits import ANY
from musictx.apps.infill import arrange, compose_region, make_sample, usual_levels, with_beats
from musictx.apps.tasks import Task, melody_task, requested_parts
from musictx.bundle import Bundle
from musictx.chords import NONE, chord_changes
from musictx.config import AccompanyConfig, InfillConfig
from musictx.config.checks import require
from musictx.errors import UserError
from musictx.notes import DRUMS, Score
from musictx.sampling import timeline
from musictx.sampling.composer import Progress
from musictx.sampling.events import OnEvent, emit_all
from musictx.sampling.sample import Sample
from musictx.songs import chord_sheet, drummers
from musictx.songs.bar_infill import BarInfill
from musictx.songs.bars import blank_piece
from musictx.songs.chord_estimation import implied, search
from musictx.songs.infill_penalties import BASS
from musictx.songs.lead_in import LeadIn
from musictx.songs.loops import Loop
from musictx.songs.strengths import QUIETER


def compose(
    bundle: Bundle,
    task: Task,
    request: InfillConfig | AccompanyConfig,
    seed: int,
    *,
    progress: Progress | None,
    on_event: OnEvent | None,
) -> Iterator[Sample]:
    """Do what :func:`.compose_versions` does, with a model of notes in bars: compose to the chords
    that the file names or the given notes imply, and in a loop if the request says so. Drums are
    composed after the other parts."""
    task = with_beats(bundle, task, request)
    named_parts, style = parts.find_parts(bundle, task.add), getattr(request, "style", None)
    players = drummers.players(bundle, named_parts, style, task.score)
    has_drums = DRUMS in named_parts.values()
    if isinstance(request, AccompanyConfig) and has_drums and len(named_parts) > 1:
        yield from _drums_last(bundle, task, request, seed, named_parts, progress, on_event)
        return
    bare, task = task, with_chords(task)
    loop = Loop(task) if request.loop else None
    layout: Loop | LeadIn | None = loop
    if not (loop or task.is_gap or has_drums or task.score.pulse):
        layout = LeadIn(task, _beginning(task))
    laid_out = layout.laid_out() if layout else task
    score, brief = arrange(bundle, laid_out, request, _usual_levels(bundle, laid_out))
    if not task.is_gap:
        brief = replace(brief, begin=_beginning(laid_out))
    varied = score if task.is_variation else None
    region = BarInfill(bundle, brief, players, varied, laid_out.repeats)
    length = laid_out.end - laid_out.begin
    share = (task.end - task.begin) / length if length else 1.0
    callbacks: dict[str, Any] = {
        "progress": progress and (lambda count, seconds: progress(count, seconds * share)),
        "on_event": None if loop else on_event,
        "take": layout and layout.notes,
    }
    written = bare if [*named_parts.values()] == [DRUMS] else task  # drums follow no chords
    for version in compose_region(region, laid_out, score, request, seed, **callbacks):
        if layout:
            version = version._replace(chords=layout.chords(version.chords))
        piece = make_sample(bundle, written, version)
        yield replace(piece, score=loop.ended(piece.score)) if loop else piece


def _beginning(task: Task) -> float:
    """The seconds at which an accompaniment begins: its chords may begin before the first given
    note."""
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
    """Compose the parts other than drums, and drums to each version. Composed at once, the other
    parts would strike where the drummer does: the place of a note is drawn before its part.

    A requested density is divided as the usual one is. Register and polyphony are those of the
    other parts. Events are those of finished versions."""
    (drums,) = (name for name, part in named_parts.items() if part == DRUMS)
    names = [name for name in task.add if name != drums]
    usual = bundle.stats.parts
    rates = {name: usual.get(part, ANY).density for name, part in named_parts.items()}
    share = rates[drums] / total if (total := sum(rates.values())) else 1 / len(rates)
    pitched = replace(_with_density(request, 1 - share), add=",".join(names), style=None)
    alone = _with_density(request, share)
    alone = replace(alone, add=drums, samples=1, register=None, polyphony=None)
    composed: dict[str, float] = {}  # seconds of the drums, and of the other parts

    def report(part: str, earlier: float, count: int, seconds: float) -> None:
        composed[part] = earlier + seconds
        if progress is not None:
            progress(count, sum(composed.values()) / 2)

    others, of_others = replace(task, add=(*names,)), partial(report, "others", 0.0)
    versions = compose(bundle, others, pitched, seed, progress=of_others, on_event=None)
    first = timeline.first_free(task.score)
    for number, version in enumerate(versions):
        notes = version.score.notes
        new = notes[notes["track"] >= first]
        given = replace(
            task.given,
            notes=np.concatenate([task.given.notes, new]),
            markers=version.score.markers,
        )
        to_them = replace(task, score=version.score, given=given, add=(drums,))
        of_drums = partial(report, "drums", number * (task.end - task.begin))
        (piece,) = compose(bundle, to_them, alone, seed + number, progress=of_drums, on_event=None)
        if on_event is not None:
            notes = piece.score.notes
            emit_all(notes[notes["track"] >= first], partial(on_event, number))
        ended = version.ended if version.ended == "stuck" else piece.ended
        yield replace(piece, notes=version.notes + piece.notes, ended=ended)


def _with_density(request: AccompanyConfig, share: float) -> AccompanyConfig:
    """``request`` with a ``share`` of its density, if it has one."""
    density = request.sampling.density
    if density is None:
        return request
    return replace(request, sampling=replace(request.sampling, density=density * share))


def _usual_levels(bundle: Bundle, task: Task) -> dict[str, float]:
    """The usual density, register, loudness and polyphony of a melody with its accompaniment.
    Without targets for them the model writes short notes, as loud and as high as the melody. What
    accompanies a bass lies above it."""
    levels, notes = usual_levels(bundle, task), task.given.notes
    bass = bundle.stats.parts.get(BASS)
    if bass and len(notes) and np.median(notes["pitch"]) <= bass.high:
        del levels["register"]
    if bundle.stats.polyphony is not None:
        levels["polyphony"] = bundle.stats.polyphony
        if len(notes):
            levels["loudness"] = QUIETER * float(notes["velocity"].mean())
    return levels


def with_chords(task: Task) -> Task:
    """``task`` with the chords that its given notes imply, or that fit a melody, if the file has no
    chord symbols."""
    given = task.given
    if task.is_gap or chord_changes(given):
        return task
    chords = implied(given) if task.add else search(given)
    return replace(task, given=chord_sheet.with_markers(given, chords))


def under_chords(score: Score, request: AccompanyConfig) -> Task:
    """The task of composing an accompaniment to the chords of ``request`` or else of ``score``, and
    to the melody that :func:`musictx.apps.tasks.melody_task` finds, if any."""
    if request.chords is not None:
        chart, bars = _sheet(request.chords)
        score = score if len(score) else chart
    else:
        bars = chord_sheet.bars_of(score)
    if not len(score):
        add, track = requested_parts(request), request.melody_track
        require(track is None, "melody_track", track, "none without a melody")
        clock = score.beats
        end = clock.seconds(clock.bar_line(0.0, len(bars)))
        kept = replace(score, markers=chord_sheet.laid(bars, clock, 0, len(bars)))
        return Task(score, kept, 0.0, end, False, (), add=add)
    task = melody_task(score, request).in_time()
    clock = task.score.beats
    first, last = clock.bar_at(task.begin), clock.bar_at(task.end, ends=True)
    lines = np.diff([clock.bar_line(0.0, first - 1 + n) for n in range(3)])
    first += lines[0] < lines[1] - 1e-6  # the sheet begins after a pick-up
    kept = chord_sheet.without_chords(task.given)
    kept = chord_sheet.with_markers(kept, chord_sheet.laid(bars, clock, first - 1, last))
    return replace(task, given=kept)


def _sheet(chords: str) -> tuple[Score, list[chord_sheet.SheetBar]]:
    """The bars of ``chords``, which is a chord sheet, a link of iReal Pro or the name of a file,
    and a Score without notes in its tempo and meters; a sheet is in 4/4, in the usual tempo."""
    path = Path(chords).expanduser()
    named = path.suffix.lower() in (*formats.SUFFIXES, *formats.CHORD_SUFFIXES)
    link = chords.lstrip().startswith("irealb")
    if not link and ("|" in chords or not (named or os.path.isfile(path))):
        return blank_piece(), chord_sheet.sheet(chords)
    if not link and not path.is_file():
        raise UserError(f"chords={chords}: no such file")
    try:
        score = formats.read(chords.encode() if link else path)
    except UserError as error:
        raise UserError(f"chords={error}") from None
    bars = chord_sheet.bars_of(score)
    if not bars:
        raise UserError(f"chords={chords}: this file holds no chords")
    return score.with_notes(score.notes[:0]), bars
