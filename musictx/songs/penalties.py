"""Penalties of music in bars.

They are sparse: a function of a row yields ids and the nats that are subtracted from their logits,
so negative nats favour an id. :func:`summed` makes the penalty of a row of several.
Feedback corrects the density, polyphony, register and loudness of the last seconds, as
:mod:`musictx.sampling.penalties` does for events. What repeats and what differs is in
:mod:`.repetition`; penalties around given notes are in :mod:`.infill_penalties`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from musictx.notes import DRUMS
from musictx.sampling.constraints import RowPenalty
from musictx.sampling.penalties import feedback, fullness, window
from musictx.sampling.steer import Steering
from musictx.sampling.strengths import ASKED_GAIN
from musictx.songs.bar_codec import part_id
from musictx.songs.bar_grammar import BarState
from musictx.songs.bars import PER_SECOND, STEP_SECONDS
from musictx.songs.strengths import CROWD_GAIN, LENGTH_GAIN, PART_GAIN, PART_SECONDS
from musictx.tokens.stream import STEPS

#: Ids and the nats that are subtracted from their logits.
Nats = Iterator[tuple[slice | int, np.ndarray | float]]
#: A penalty that concerns few ids: a function of the row, whose state is a :class:`.BarState`.
#: Around given notes the row is a :class:`.BarRow`.
SparsePenalty = Callable[[Any], Nats]


def summed(*penalties: SparsePenalty) -> RowPenalty:
    """The sum of ``penalties``; nothing where the next id is forced."""

    def nats_of(row: Any, past: np.ndarray) -> np.ndarray | None:
        total = None
        if not row.done and not row.forced():
            for penalty in penalties:
                for ids, nats in penalty(row):
                    total = np.zeros(row.state.table.size) if total is None else total
                    total[ids] += nats
        return total

    return nats_of


# ------------------------------------------------------------------- too much and too little


def bar_feedback(row: Any, steering: Steering, chords: bool, given: bool) -> Nats:
    """Steer towards the targets of ``steering``: levels of ``density``, ``polyphony``, ``register``
    and ``loudness``, in the units of the controls. The present levels are measured on the notes of
    ``steering.parts`` that began in the last seconds of the tokens (:func:`.window`). If a level is
    too high (too low: with the opposite sign):

    density    a new note costs :data:`ASKED_GAIN` nats for each note a second too many, less the
               later the note begins, and a bar line gains nats by the time until it. With
               ``chords``, the first place of an empty bar costs nothing, since its chord stands
               there
    polyphony  a note costs more the longer it is; if no notes are ``given``, new notes also cost,
               and bar lines gain, as for the density
    register   a note costs more the higher it is
    loudness   a note costs more the louder it is

    Without a target of density the usual one counts. If there are more notes, only another note of
    the same part at the same place costs nats: chords get thinner, and the rhythm stays. If time
    had to pass, bars would fall silent before they end.
    """
    state: BarState = row.state
    targets, span, field = steering.targets, window(state.seconds), len(state.group)
    recent = [*state.recent(span, steering.parts)]
    polyphony = targets.get("polyphony")
    at_once = sum(note.length for note in recent) / PER_SECOND / span
    if field == 2 and (target := targets.get("register")):
        if pitches := [note.tone for note in recent if note.part != DRUMS]:
            values = state.table.values_in("pitch")
            yield state.ids["pitch"], feedback("register", target, pitches, values)
    elif field == 3 and polyphony:
        octaves = np.log2(state.table.values_in("length") / STEPS)
        yield state.ids["length"], LENGTH_GAIN * (at_once - polyphony) * octaves
    elif field == 4 and recent and (target := targets.get("loudness")):
        velocities = state.loudness[[note.velocity_bin for note in recent]]
        yield state.ids["velocity"], feedback("loudness", target, velocities, state.loudness[1:])
    if field > 1:
        return
    crowd = 0.0
    if polyphony and not given:
        crowd = CROWD_GAIN * fullness(at_once, polyphony)
    asked = targets.get("density")
    target = asked or steering.usual_density
    error = ASKED_GAIN * (len(recent) / span - target) if target else 0.0
    if not asked and error > 0:
        yield from _thinner_chord(row, error)
        error = 0.0
    if state.group:
        yield state.ids["program"], crowd + error
        yield state.ids["drums"], error
        return
    bar = state.bars[-1]
    waits = (state.table.values_in("place") - state.place) * STEP_SECONDS
    nats = (error + crowd) * (1.0 - np.clip(waits, 0.0, 1.0))
    nats[0] *= not (chords and not bar.groups)
    yield state.ids["place"], nats
    wait = (bar.steps - state.place) * STEP_SECONDS
    yield row.bar_end() if given else state.ids["bar"], -(error + crowd) * min(wait, 1.0)


def _thinner_chord(row: Any, nats: float) -> Nats:
    """Let a further note of the last part cost ``nats`` at its place, if that is a new part. Since
    a place is drawn before a part, the place costs what would be lost if the last part and later
    ones came as often there as they usually come. The whole cost would silence parts that come late
    in a place, such as the melody."""
    state: BarState = row.state
    last = state.bars[-1].groups[-1:]
    if not last or last[0].place != state.place or not last[0].velocity_bin:  # a chord symbol
        return
    part = last[0].part
    if part not in (row.new.parts or ()):
        return
    if state.group:
        yield part_id(state.table, part), nats
        return
    rates = {p: habit.density for p, habit in row.new.habits.items() if part <= p != DRUMS}
    share = rates[part] / sum(rates.values()) if rates.get(part) else 1.0
    yield state.ids["place"].start + state.place, -np.log1p(share * np.expm1(-nats))


def on_first_beat(row: Any) -> Nats:
    """Forbid every place but the first until the piece has a note. Many pieces of the corpus begin
    with a pick-up, and a new piece would leave the rest of that bar empty."""
    state: BarState = row.state
    if state.lines and not state.notes:
        places = state.ids["place"]
        yield slice(places.start + 1, places.stop), np.inf
        for kind in {"bar", "known"} & state.ids.keys():
            yield state.ids[kind], np.inf


def lacking_parts(row: Any, least: Mapping[int, float], from_start: bool = False) -> Nats:
    """Favour parts that have fewer notes than ``least`` (part -> notes) in the last
    :data:`PART_SECONDS`. With ``from_start``, for a new piece, ``least`` is reduced in proportion
    until the piece has lasted so long."""
    state: BarState = row.state
    if len(state.group) > 1:
        return
    passed = min(state.seconds / PART_SECONDS, 1.0) if from_start else 1.0
    targets = {part: passed * notes for part, notes in least.items()}
    yield from favour_parts(state, targets, state.step - PART_SECONDS * PER_SECOND)


def favour_parts(state: BarState, targets: Mapping[int, float], since: float) -> Nats:
    """Favour each part by :data:`PART_GAIN` nats for each note that it has fewer than its target
    (part -> notes) since the step ``since``, and places by as much as the part that lacks most."""
    gains = {p: PART_GAIN * max(n - state.begun(p, since), 0.0) for p, n in targets.items()}
    if not state.group:
        yield state.ids["place"], -max(gains.values(), default=0.0)
        return
    for part, gain in gains.items():
        yield part_id(state.table, part), -gain
