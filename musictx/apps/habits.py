"""What is usual in the parts that are composed around given notes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from musictx.apps import parts
from musictx.apps.tasks import AROUND_SECONDS, Task
from musictx.bundle import Bundle
from musictx.card import WINDOW_SECONDS, Habit
from musictx.config import AccompanyConfig, InfillConfig, SamplingConfig
from musictx.data.statistics import at_once, densest, habit, parts_of, usual_length
from musictx.notes import DRUMS, Score
from musictx.sampling.steer import controls_of
from musictx.sampling.strengths import FEWEST_NOTES

#: A melody and its accompaniment have so many notes for each of the melody's, as real music has (a
#: bit fewer with fast melodies), but no more than is usual in the model's corpus (scripts/LOG.md).
ACCOMPANIED = 3.0
#: New notes of a track reach so many semitones beyond those it has, a lead's beyond the tune's.
MARGIN = 4
#: A part without statistics.
ANY = Habit(DRUMS, 0, 127)


def asked(
    habits: Mapping[int, Habit], sampling: SamplingConfig, values: Mapping[str, float]
) -> dict[int, Habit]:
    """``habits`` but for what the request sets: notes at once and lengths (``polyphony`` among the
    ``values`` of controls), notes in a few seconds (``density``), pitches (``register``, and
    ``low`` and ``high`` of ``sampling``)."""
    result = dict(habits)
    if "polyphony" in values:
        result = {p: one._replace(voices=ANY.voices, longest=np.inf) for p, one in result.items()}
    if "density" in values:
        result = {part: one._replace(densest=np.inf) for part, one in result.items()}
    if "register" in values or sampling.low is not None or sampling.high is not None:
        result = {
            part: one if part == DRUMS else one._replace(low=0, high=127)
            for part, one in result.items()
        }
    return result


def accompanying(bundle: Bundle, task: Task, notes: int) -> float:
    """Notes a second that accompany a tune of so many ``notes``; without any, a tune that is usual
    in the corpus; infinite where the card has none."""
    usual = bundle.stats.parts
    tune = usual.get(parts.melody_program(bundle) or 0)
    if notes:
        return (ACCOMPANIED - 1) * notes / max(task.end - task.begin, 1.0)
    return np.inf if tune is None else (ACCOMPANIED - 1) * tune.density


def habits_of(
    bundle: Bundle,
    task: Task,
    wanted: Mapping[str, int],
    request: InfillConfig | AccompanyConfig,
    score: Score,
    composed: Collection[int],
    all_tracks: bool = False,
) -> dict[int, Habit]:
    """What is usual in each part that is ``composed``: of an accompaniment, and of parts ``wanted``
    by name, in the corpus, but that a lead lies where the tune does, and that none has more notes
    than what accompanies that tune; of tracks in themselves; but for what the ``request`` says of
    notes at once and of pitches. ``score`` is the file with the programs that the model knows; a
    bound on notes at once counts ``all_tracks`` of a part, or new notes alone."""
    habits = parts.habits(bundle, wanted)
    tune_track = parts.tune_of(score, parts.melody_program(bundle))
    tunes = [one for one in task.melody or [tune_track] if one is not None]
    tune = score.notes["pitch"][np.isin(score.notes["track"], tunes) & ~score.notes["drum"]]
    if "lead" in wanted and len(tune):  # a second voice
        _, low, high, _ = map(int, habit([np.ones(1)], [tune], [0.0]))
        lead = habits[wanted["lead"]]
        habits[wanted["lead"]] = lead._replace(low=max(low - MARGIN, 0), high=high + MARGIN)
    if wanted:
        rate = accompanying(bundle, task, len(tune))
        pace = bundle.tokenizer.clock(task.score).pace(task.begin, task.end)
        habits = {
            part: one if part == DRUMS else one._replace(density=min(one.density, rate * pace))
            for part, one in habits.items()
        }
    if not task.closes and not wanted:
        usual = bundle.stats.parts
        habits = {
            part: usual[part]._replace(density=0.0, densest=WINDOW_SECONDS * usual[part].density)
            for part in composed
            if part in usual
        }
    if task.closes:
        notes = score.notes.copy()
        if "program" not in bundle.tokenizer.kinds:
            notes["program"] = 0
        written = notes[np.isin(notes["track"], task.tracks)]
        together = parts_of(notes if all_tracks else written)
        for part, part_notes in parts_of(written).items():
            if len(part_notes) >= FEWEST_NOTES:
                pace = bundle.tokenizer.clock(task.score).pace(task.begin, task.end)
                habits[part] = _habit_around(task, part, part_notes, together[part], pace)
    return asked(habits, request.sampling, controls_of(request))


def _habit_around(
    task: Task, part: int, written: np.ndarray, together: np.ndarray, pace: float
) -> Habit:
    """What is usual in a part around a gap: of its notes on the tracks that are ``written``, of all
    of them ``together`` how many sound at once; as dense as in the seconds before and after the
    gap, with ``pace`` seconds of the file for one of the tokens."""
    start = written["start"]
    first, last = max(task.begin - AROUND_SECONDS, 0.0), task.end + AROUND_SECONDS
    near = (start >= first) & (start < last) & ~((start >= task.begin) & (start < task.end))
    span = task.begin - first + max(min(last, task.score.duration) - task.end, 0.0)
    if near.sum() >= FEWEST_NOTES:
        rate = near.sum() / span
    else:
        rate = len(written) / max(float(np.ptp(start)), 1.0)
    row = habit([at_once(together)], [written["pitch"]], [rate * pace])
    most, low, high = map(int, row[:3])
    more = 0 if part == DRUMS else MARGIN
    return Habit(
        most,
        max(low - more, 0),
        min(high + more, 127),
        row[3],
        densest(written, WINDOW_SECONDS * pace),
        np.inf if part == DRUMS else usual_length(written["end"] - start) / pace,
    )
