"""Habits of parts, such as their range and density: statistics of the corpus, or of the tracks
around a gap (:func:`habits_of`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from musictx.apps.parts import find_melody_track, melody_program
from musictx.apps.tasks import Task
from musictx.bundle import Bundle
from musictx.config import AccompanyConfig, InfillConfig, SamplingConfig
from musictx.data.statistics import (
    WINDOW_SECONDS,
    Habit,
    densest,
    measure_habit,
    notes_at_onsets,
    parts_of,
    usual_length,
)
from musictx.notes import DRUMS, Score
from musictx.pedal import fold_sustain
from musictx.sampling.constants import (
    FEWEST_NOTES,
    NEAR_SECONDS,
    NOTES_PER_MELODY_NOTE,
    RANGE_MARGIN,
)

#: The habit of a part without statistics.
NO_LIMITS = Habit(voices=128, low=0, high=127)
#: Monophonic parts, even if other parts with their program play chords.
LINES = ("melody", "lead", "counter-melody", "bass", "flute")
#: The monophonic parts that are second voices to a melody.
SECOND_VOICES = {"lead", "counter-melody"}


def without_overridden_limits(
    habits: Mapping[int, Habit], sampling: SamplingConfig, values: Mapping[str, float]
) -> dict[int, Habit]:
    """Return ``habits`` without the limits that a request overrides:

    polyphony            overrides the limits on simultaneous notes and on the length of notes
    density              overrides the limit on notes within a few seconds
    register, low, high  override the limits on pitches, except for drums

    ``values`` are the controls that the request sets.
    """
    removed = set()
    if "polyphony" in values:
        removed |= {"voices", "longest"}
    if "density" in values:
        removed.add("densest")
    if "register" in values or sampling.low is not None or sampling.high is not None:
        removed |= {"low", "high"}
    result = {}
    for part, habit in habits.items():
        names = removed - {"low", "high"} if part == DRUMS else removed
        result[part] = habit._replace(**{name: getattr(NO_LIMITS, name) for name in names})
    return result


def seconds_per_id_second(bundle: Bundle, task: Task) -> float:
    """Return the mean seconds of the file per second of the ids in the region of ``task``."""
    return bundle.tokenizer.clock(task.score).seconds_per_id_second(task.begin, task.end)


def accompaniment_density(bundle: Bundle, task: Task, notes: int) -> float:
    """Return the usual density, in notes per second of the file, of the accompaniment to a melody
    of ``notes`` notes. 0: to a melody as dense as in the corpus; infinite if that is unknown."""
    melody = bundle.stats.parts.get(melody_program(bundle) or 0)
    if notes:
        density = notes / max(task.end - task.begin, 1.0)
    else:  # statistics count seconds of the ids
        density = melody.density / seconds_per_id_second(bundle, task) if melody else np.inf
    return (NOTES_PER_MELODY_NOTE - 1) * density


def habits_of(
    bundle: Bundle,
    task: Task,
    named_parts: Mapping[str, int],
    request: InfillConfig | AccompanyConfig,
    score: Score,
    new_parts: Collection[int],
) -> dict[int, Habit]:
    """Return the habit of each part to compose, without the limits that ``request`` overrides
    (:func:`without_overridden_limits`). Those of a gap are measured in its tracks, others are those
    of the corpus.

    named_parts  {name: program} of the parts that the request names
    score        the file with the programs that the model was trained with
    new_parts    the programs of all parts to compose
    """
    if task.is_gap:
        habits = _habits_around(bundle, task, score)
    elif named_parts:
        habits = _habits_of_named_parts(bundle, task, named_parts, score)
    else:  # only the density of all parts together has a target; each has a maximum
        habits = {
            part: habit._replace(density=0.0, densest=WINDOW_SECONDS * habit.density)
            for part, habit in bundle.stats.parts.items()
            if part in new_parts
        }
    return without_overridden_limits(habits, request.sampling, request.controls)


def _habits_of_named_parts(
    bundle: Bundle, task: Task, named_parts: Mapping[str, int], score: Score
) -> dict[int, Habit]:
    """Return the habits of the ``named_parts`` in the corpus, of :data:`LINES` with one voice. A
    lead and a counter-melody have about the range of the melody, and no part but drums is denser
    than the usual accompaniment."""
    habits = {part: bundle.stats.parts.get(part, NO_LIMITS) for part in named_parts.values()}
    for part in [named_parts[name] for name in LINES if name in named_parts]:
        habits[part] = habits[part]._replace(voices=1)
    melody_track = find_melody_track(score, melody_program(bundle))
    tracks = [track for track in task.melody or [melody_track] if track is not None]
    melody = score.notes["pitch"][np.isin(score.notes["track"], tracks) & ~score.notes["drum"]]
    if len(melody):
        tune = measure_habit([np.ones(1)], [melody], [0.0])
        low, high = max(tune.low - RANGE_MARGIN, 0), min(tune.high + RANGE_MARGIN, 127)
        for part in [named_parts[name] for name in SECOND_VOICES & named_parts.keys()]:
            habits[part] = habits[part]._replace(low=low, high=high)
    highest = accompaniment_density(bundle, task, len(melody)) * seconds_per_id_second(bundle, task)
    return {
        part: habit if part == DRUMS else habit._replace(density=min(habit.density, highest))
        for part, habit in habits.items()
    }


def _habits_around(bundle: Bundle, task: Task, score: Score) -> dict[int, Habit]:
    """Return the habits of the parts with enough notes on the tracks of a gap, measured in these
    tracks. The density is that near the gap, or on the whole track if few notes are near."""
    in_bars = bundle.tokenizer.beats
    notes = (score if in_bars else fold_sustain(score)).notes.copy()
    if "program" not in bundle.tokenizer.vocabulary.kinds:
        notes["program"] = 0
    on_tracks = notes[np.isin(notes["track"], task.tracks)]
    # The limits on simultaneous notes, and on notes within a few seconds, are measured in these. In
    # bars they count all tracks of a part.
    all_notes = parts_of(notes if in_bars else on_tracks)
    stretch = seconds_per_id_second(bundle, task)
    first, last = max(task.begin - NEAR_SECONDS, 0.0), task.end + NEAR_SECONDS
    span = task.begin - first + max(min(last, task.score.duration) - task.end, 0.0)
    habits = {}
    for part, part_notes in parts_of(on_tracks).items():
        if len(part_notes) < FEWEST_NOTES:
            continue
        start, is_drum = part_notes["start"], part == DRUMS
        is_near = (start >= first) & (start < last) & ~((start >= task.begin) & (start < task.end))
        if is_near.sum() >= FEWEST_NOTES:
            rate = is_near.sum() / span
        else:
            rate = len(part_notes) / max(float(np.ptp(start)), 1.0)
        habit = measure_habit(
            [notes_at_onsets(all_notes[part])], [part_notes["pitch"]], [rate * stretch]
        )
        margin = 0 if is_drum else RANGE_MARGIN
        habits[part] = habit._replace(
            low=max(habit.low - margin, 0),
            high=min(habit.high + margin, 127),
            densest=densest(all_notes[part], WINDOW_SECONDS * stretch),
            longest=np.inf if is_drum else usual_length(part_notes["end"] - start) / stretch,
        )
    return habits
