"""The idiom of event tokens (note-ons, note-offs and time shifts) and its penalties.

:meth:`EventIdiom.limits` returns the penalties of all music, :meth:`EventIdiom.penalties` further
ones for new pieces and continuations, :meth:`EventIdiom.feedback_penalties` those that keep
controls near their targets. Each is a function of one row; see :mod:`.penalties`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from musictx.data.statistics import RESTRUCK_SECONDS, WINDOW_SECONDS
from musictx.sampling.constants import (
    POLYPHONY_GAIN,
    REPETITION_GAIN,
    REPETITION_NOTES,
    REQUESTED_GAIN,
    USUAL_GAIN,
)
from musictx.sampling.constraints import RowConstraint, RowPenalty
from musictx.sampling.idiom import Idiom
from musictx.sampling.penalties import (
    feedback,
    instruments,
    limits_pitches,
    polyphony_error,
    window_seconds,
)
from musictx.sampling.region import Region
from musictx.sampling.repetition import MelodyRepetition, Reprise
from musictx.tokens import events as ev
from musictx.tokens.stream import Velocities
from musictx.tokens.tokenizer import GrammarState, NoteEvents, Tokenizer


class EventIdiom(Idiom):
    """How music is composed in event tokens."""

    end_of_new_piece = "natural"
    notes_are_immediate = True

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        assert tokenizer.note_events is not None
        self.events: NoteEvents = tokenizer.note_events

    def silence(self, ids: np.ndarray, state: GrammarState, until: float) -> Iterable[int]:
        steps = int(np.ceil((until - state.seconds) / self.events.step_seconds - 1e-6))
        return ev.to_ids(np.empty(0, ev.EVENT), self.tokenizer.vocabulary, max(steps, 0)).tolist()

    def limits(self, region: Region) -> list[RowPenalty]:
        events, stats, targets = self.events, region.stats, region.steering.targets
        habits = region.sampling.habits
        result: list[RowPenalty] = []
        if stats.instruments is not None and (events.program >= 0).any():
            result.append(instruments(self.tokenizer, stats.instruments, region.primer))
        most = stats.most_notes if habits else None
        result.append(partial(limit_polyphony, events=events, most=most))
        if habits:
            result.append(partial(limit_silence, events=events))
            result.append(partial(repetition, events=events, target=stats.repetition_rate))
        has_target = "density" in targets
        target = targets["density"] if has_target else region.primer.density or stats.density
        if target and (has_target or habits):
            rule = partial(density, events=events, target=target, has_target=has_target)
            result.append(rule)
        return result

    def penalties(self, region: Region, state: GrammarState) -> list[RowPenalty]:
        result = super().penalties(region, state)
        if region.sampling.habits:
            # The first phrase may return if tokens have no programs and no option limits pitches.
            vocabulary = self.tokenizer.vocabulary
            if "program" not in vocabulary.kinds and not limits_pitches(region.sampling):
                result.append(Reprise(vocabulary, self.events, region.primer.ids))
            result.append(MelodyRepetition(self.events))
        return result

    def feedback_penalties(self, region: Region) -> list[RowPenalty]:
        targets = region.steering.targets
        if not targets.keys() - {"density"}:
            return []
        velocity = np.zeros(self.tokenizer.vocabulary.size)
        low, high = self.tokenizer.vocabulary.range("velocity")
        velocity[low:high] = Velocities(high - low).of_bin[1:]
        return [partial(event_feedback, events=self.events, velocity=velocity, targets=targets)]


def among(values: np.ndarray, members: Sequence[int]) -> np.ndarray:
    """Bool array: whether each of ``values`` (-1 to 128) is one of ``members`` (0 to 255).
    ``np.isin`` would take longer than a step of the model."""
    table = np.zeros(257, bool)
    table[members] = True
    return table[values]  # the last entry, which stays False, is that of -1


def limit_polyphony(
    row: RowConstraint, ids: np.ndarray, events: NoteEvents, most: int | None
) -> np.ndarray | None:
    """Forbids note-ons of pitches that sound in the current program, and all new notes while
    ``most`` or more notes sound (``None``: no limit)."""
    sounding = row.state.sounding
    if not len(sounding):
        return None
    forbidden = among(events.note_on, sounding.pitches_of_program())
    if most is not None and len(sounding) >= most:
        may_follow = (events.note_on < 0) & ~events.describes_note
        if not sounding.has_onset:  # notes may still be released, which may need their program
            may_follow |= among(events.program, [program for program, _ in sounding])
        forbidden |= ~may_follow
    return np.where(forbidden, np.inf, 0.0)


def limit_silence(row: RowConstraint, ids: np.ndarray, events: NoteEvents) -> np.ndarray | None:
    """Forbids a silence of more than :data:`WINDOW_SECONDS` within the music. Real performances
    hardly have any: none of 64 excerpts has one of 5 s (docs/results.md)."""
    if len(row.state.sounding):
        return None
    waits = events.shift_seconds
    last = np.flatnonzero(waits[ids] == 0)[-1]  # the index of the last id that is no time shift
    seconds = waits[ids[last:]].sum() + waits
    return np.where((waits > 0) & (seconds > WINDOW_SECONDS + 1e-6), np.inf, 0.0)


def density(
    row: RowConstraint, ids: np.ndarray, events: NoteEvents, target: float, has_target: bool
) -> np.ndarray:
    """Keeps the density (notes per second) of the last :data:`WINDOW_SECONDS` near ``target``.

    The error is the measured density minus ``target``. The penalty of note-ons, and of programs and
    velocities before them, is ``gain * error`` nats; time shifts get this number as a bonus, in
    proportion to their length. If the controls have a target, note-offs are penalised, too:
    otherwise notes would become short while note-ons are penalised.
    """
    state, gain = row.state, REQUESTED_GAIN if has_target else USUAL_GAIN
    span = window_seconds(state.seconds)
    begin = state.seconds - span - 1e-6
    # Count the onsets after `begin`; they are sorted from the last to the first.
    count = bisect_left(state.sounding.recent_onsets(), -begin, key=lambda onset: -onset.seconds)
    penalised = (events.note_on >= 0) | events.describes_note
    penalised |= has_target & (events.note_off >= 0)
    nats: np.ndarray = gain * (
        (count / span - target) * (penalised - events.shift_seconds / events.shift_seconds.max())
    )
    return nats


def repetition(
    row: RowConstraint, ids: np.ndarray, events: NoteEvents, target: float
) -> np.ndarray | None:
    """Penalises note-ons of pitches that began within the last :data:`RESTRUCK_SECONDS`.

    ``target`` is the share of such re-struck notes in the corpus. The penalty is
    :data:`REPETITION_GAIN` nats for each re-struck note among the last :data:`REPETITION_NOTES`
    notes in excess of that share.
    """
    state = row.state
    onsets = state.sounding.recent_onsets()[:REPETITION_NOTES]
    repetitions = 0
    last_onset: dict[int, float] = {}  # pitch -> seconds
    for seconds, pitch, _ in reversed(onsets):
        if seconds - last_onset.get(pitch, -np.inf) < RESTRUCK_SECONDS - 1e-6:
            repetitions += 1
        last_onset[pitch] = seconds
    nats = REPETITION_GAIN * (repetitions - target * len(onsets))
    recent = [p for p, at in last_onset.items() if state.seconds - at < RESTRUCK_SECONDS - 1e-6]
    if nats <= 0 or not recent:
        return None
    return np.where(among(events.note_on, recent), nats, 0.0)


def event_feedback(
    row: RowConstraint,
    ids: np.ndarray,
    events: NoteEvents,
    velocity: np.ndarray,
    targets: Mapping[str, float],
) -> np.ndarray:
    """Feedback on ``loudness``, ``register`` and ``polyphony``, whose ``targets`` are in the units
    of the controls. Loudness and register are those of the notes that began in the last
    :data:`WINDOW_SECONDS`. ``velocity`` (V,) has the MIDI velocity of each velocity id, 0 for other
    ids.

    loudness   while the music is too loud, louder notes are penalised more: velocity ids, and
               note-ons by the current velocity
    register   while the music is too high, higher notes are penalised more
    polyphony  while too many notes sound, note-offs become more likely; while too few, less likely
    """
    state, pitches, nats = row.state, events.note_on, np.zeros(len(velocity))
    is_note_on, is_velocity = pitches >= 0, velocity > 0
    begin = state.seconds - WINDOW_SECONDS - 1e-6
    recent = [onset for onset in state.sounding.recent_onsets() if onset.seconds > begin]
    if target := targets.get("polyphony"):
        error = polyphony_error(len(state.sounding), target)
        nats[events.note_off >= 0] -= POLYPHONY_GAIN * error
    if (target := targets.get("register")) and recent:
        recent_pitches = [onset.pitch for onset in recent]
        nats[is_note_on] += feedback("register", target, recent_pitches, pitches[is_note_on])
    if (target := targets.get("loudness")) and recent:
        recent_velocities = [onset.velocity for onset in recent]
        by_loudness = partial(feedback, "loudness", target, recent_velocities)
        nats[is_velocity] += by_loudness(velocity[is_velocity])
        nats[is_note_on] += by_loudness(state.sounding.velocity)
    return nats
