"""Accompaniments to chords: those of a sheet or a file, and those that fit a melody."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from musictx import formats
from musictx.apps.tasks import Task, added, under_melody
from musictx.chords import annotated, marked
from musictx.config import AccompanyConfig
from musictx.config.checks import require
from musictx.errors import UserError
from musictx.grid import in_time
from musictx.notes import Score
from musictx.songs import chord_search, chord_sheet


def with_chords(task: Task) -> Task:
    """``task`` with chords that fit the melody, where it is alone and the file names none."""
    melody = task.given
    if task.closes or annotated(melody) or (task.add and not melody.one_voice):
        return task
    chords = ((at, str(chord)) for at, chord in chord_search.search(melody))
    markers = tuple(sorted([*melody.markers, *chords]))
    return replace(task, given=replace(melody, markers=markers))


def under_chords(score: Score, request: AccompanyConfig) -> Task:
    """An accompaniment is to be composed to the chords of ``request``, or of ``score`` where it has
    no notes, and to the melody that :func:`musictx.apps.tasks.under_melody` finds, if any."""
    if request.chords is not None:
        chart, bars = _sheet(request.chords)
        score = score if len(score) else chart
    else:
        bars = chord_sheet.bars_of(score)
    if not len(score):
        add, track = added(request), request.melody_track
        require(track is None, "melody_track", track, "none without a melody")
        clock = score.beats
        end = float(clock.seconds(clock.bar_line(0.0, len(bars))))
        kept = replace(score, markers=chord_sheet.laid(bars, clock, 0, len(bars)))
        return Task(score, kept, 0.0, end, False, (), add=add)
    task = under_melody(score, request)
    score = in_time(score)
    kept = replace(task.given, pulse=score.pulse)
    clock = score.beats
    first, last = (
        clock.bar(float(clock.quarters(at)) - 1e-6)[0] for at in (task.begin + 2e-6, task.end)
    )
    lines = np.diff([clock.bar_line(0.0, first - 1 + n) for n in range(3)])
    first += lines[0] < lines[1] - 1e-6  # a pick-up comes before the sheet
    chords = marked(kept)
    others = tuple(one for one in kept.markers if one[1] not in chords)
    laid = chord_sheet.laid(bars, clock, first - 1, last)
    kept = replace(kept, markers=tuple(sorted(others + laid)))
    return replace(task, score=score, given=kept)


def _sheet(chords: str) -> tuple[Score, list[chord_sheet.Bar]]:
    """The bars of a sheet, or of the file of that name, whose tempo and meters are those of the
    Score, as are its notes if it has any: none of them is kept."""
    path = Path(chords).expanduser()
    if "|" in chords or not os.path.isfile(path):
        return Score(), chord_sheet.sheet(chords)
    try:
        score = formats.read(path)
    except UserError as error:
        raise UserError(f"chords={error}") from None
    bars = chord_sheet.bars_of(score)
    if not bars:
        raise UserError(f"chords={chords}: this file holds no chords")
    return score.with_notes(score.notes[:0]), bars
