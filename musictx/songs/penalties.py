"""Penalties for music in bars: those for new pieces and continuations, and those for all music in
bars. Those for music around given notes are in :mod:`.infill_penalties`.

They are sparse: a function of a row yields ids and the nats that are subtracted from their logits;
negative nats favour an id. :func:`summed` adds several to a penalty of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from musictx.notes import DRUMS
from musictx.sampling.constants import REPETITION_GAIN, REPETITION_STRIKES, REQUESTED_GAIN
from musictx.sampling.constraints import Penalty, RowPenalty, forbidding
from musictx.sampling.penalties import feedback, polyphony_error, window
from musictx.sampling.steer import Steering
from musictx.songs.bar_codec import FIRST_REPEAT, part_id
from musictx.songs.bar_constraint import BarRow
from musictx.songs.bar_grammar import BarState, Group
from musictx.songs.bars import STEP_SECONDS, STEPS_PER_SECOND
from musictx.songs.constants import (
    CROWD_GAIN,
    LENGTH_GAIN,
    PART_GAIN,
    PART_SECONDS,
    REPEAT_GAIN,
    RETURN_BARS,
    RETURN_GAIN,
    SAME_PITCH,
    SAME_ROOT,
)
from musictx.tokens.stream import CHORD, STEPS_PER_QUARTER, NoteStream
from musictx.tokens.vocab import Vocabulary

#: Ids and the nats that are subtracted from their logits.
Nats = Iterator[tuple[slice | int, np.ndarray | float]]
#: A penalty on few ids: a function of the row, whose state is a :class:`.BarState`. Around given
#: notes the row is a :class:`.BarRow`.
SparsePenalty = Callable[[Any], Nats]
#: Steps in a sixteenth.
SIXTEENTH = STEPS_PER_QUARTER // 4


def summed(*penalties: SparsePenalty) -> RowPenalty:
    """The sum of ``penalties``; ``None`` if the next id is forced."""

    def penalty(row: Any, past: np.ndarray) -> np.ndarray | None:
        if row.done or row.forced():
            return None
        return _dense(chain.from_iterable(sparse(row) for sparse in penalties), row.state)

    return penalty


def _dense(nats: Nats, state: BarState) -> np.ndarray:
    """(V,) ``nats`` as an array; those for the same id are added."""
    total = np.zeros(state.table.size)
    for ids, values in nats:
        total[ids] += values
    return total


def bar_end(row: Any) -> int:
    """The id that ends the current bar."""
    return row.bar_end() if isinstance(row, BarRow) else row.state.ids["bar"].start


# ------------------------------------------------------------------- too much and too little


def bar_feedback(row: Any, steering: Steering, chords: bool) -> Nats:
    """Steer towards the targets of ``steering``, as :mod:`musictx.sampling.penalties` does for
    event tokens. The levels are measured on the notes of ``steering.parts`` that began in the last
    seconds of the tokens (:func:`.window`). If a level is too high, these are penalised (and
    favoured if it is too low):

    density    new notes, by :data:`REQUESTED_GAIN` nats for each note per second too many, fading
               to 0 for those that begin a second later; the end of the bar gains nats by the time
               until it. With ``chords``, the first place of an empty bar is not penalised, since
               its chord comes there
    polyphony  long notes; if no notes are given, new notes, too, as for the density
    register   high notes
    loudness   loud notes

    Without a target of density the usual density counts. If it is exceeded, only another note of
    the same part at the same place is penalised: chords get thinner, and the rhythm stays. If all
    new notes were penalised, bars would fall silent before they end.
    """
    state: BarState = row.state
    targets, span, field = steering.targets, window(state.seconds), len(state.group)
    recent = [*state.recent_notes(span, steering.parts)]
    polyphony = targets.get("polyphony")
    at_once = sum(note.length for note in recent) / STEPS_PER_SECOND / span
    if field == 2 and (target := targets.get("register")):
        if pitches := [note.tone for note in recent if note.part != DRUMS]:
            values = state.table.values_in("pitch")
            yield state.ids["pitch"], feedback("register", target, pitches, values)
    elif field == 3 and polyphony:
        octaves = np.log2(state.table.values_in("length") / STEPS_PER_QUARTER)
        yield state.ids["length"], LENGTH_GAIN * (at_once - polyphony) * octaves
    elif field == 4 and recent and (target := targets.get("loudness")):
        velocities = state.velocities[[note.velocity_bin for note in recent]]
        yield state.ids["velocity"], feedback("loudness", target, velocities, state.velocities[1:])
    if field > 1:
        return
    crowd = 0.0  # nats for polyphony
    if polyphony and not isinstance(row, BarRow):
        crowd = CROWD_GAIN * polyphony_error(at_once, polyphony)
    requested = targets.get("density")
    target = requested or steering.usual_density
    excess = REQUESTED_GAIN * (len(recent) / span - target) if target else 0.0  # nats for density
    if not requested and excess > 0:
        yield from thinner_chord(row, excess)
        excess = 0.0
    if state.group:
        yield state.ids["program"], crowd + excess
        yield state.ids["drums"], excess
        return
    bar = state.bars[-1]
    waits = (state.table.values_in("place") - state.place) * STEP_SECONDS
    nats = (excess + crowd) * (1.0 - np.clip(waits, 0.0, 1.0))
    nats[0] *= not (chords and not bar.groups)
    yield state.ids["place"], nats
    wait = (bar.steps - state.place) * STEP_SECONDS
    yield bar_end(row), -(excess + crowd) * min(wait, 1.0)


def thinner_chord(row: BarRow, nats: float) -> Nats:
    """Penalise by ``nats`` another note of the last part at its place, if the part has new notes.

    A place is drawn before its part, so the place is penalised, too, but only by the probability
    that it loses if the last part and those after it come there in proportion to their usual
    densities. All ``nats`` would silence parts that come late, such as the melody."""
    state: BarState = row.state
    last = state.bars[-1].groups[-1:]
    if not last or last[0].place != state.place or not last[0].velocity_bin:  # a chord or a tie
        return
    part = last[0].part
    if part not in row.parts:
        return
    if state.group:
        yield part_id(state.table, part), nats
        return
    rates = {p: habit.density for p, habit in row.new.habits.items() if part <= p != DRUMS}
    share = rates[part] / sum(rates.values()) if rates.get(part) else 1.0
    yield state.ids["place"].start + state.place, -np.log1p(share * np.expm1(-nats))


def lacking_parts(row: Any, rates: Mapping[int, float], from_start: bool = False) -> Nats:
    """Favour parts that have begun fewer notes per second in the last :data:`PART_SECONDS` than
    ``rates`` (part -> notes per second); with ``from_start``, only since the start of the piece."""
    state: BarState = row.state
    if len(state.group) > 1:
        return
    seconds = min(state.seconds, PART_SECONDS) if from_start else PART_SECONDS
    targets = {part: rate * seconds for part, rate in rates.items()}
    yield from favour_parts(state, targets, state.step - PART_SECONDS * STEPS_PER_SECOND)


def favour_parts(state: BarState, targets: Mapping[int, float], since: float) -> Nats:
    """Favour each part by :data:`PART_GAIN` nats for each note by which it misses its target (part
    -> notes since the step ``since``), and all places by the greatest of these gains."""
    gains = {p: PART_GAIN * max(n - state.count_onsets(p, since), 0.0) for p, n in targets.items()}
    if not state.group:
        yield state.ids["place"], -max(gains.values(), default=0.0)
        return
    for part, gain in gains.items():
        yield part_id(state.table, part), -gain


def same_pitch(row: Any, parts: Collection[int], target: float) -> Nats:
    """Penalise the last pitch of each of ``parts``, as :func:`.event_idiom.repetition` does for
    event tokens. The penalty is :data:`REPETITION_GAIN` nats for each note among the last
    :data:`REPETITION_STRIKES` of the part that repeats the pitch before it, beyond the share
    ``target``."""
    state: BarState = row.state
    if len(state.group) != 2 or state.part not in parts:
        return
    latest = islice(state.recent_notes(np.inf, {state.part}), REPETITION_STRIKES)
    tones = [group.tone for group in latest]
    repeated = sum(one == other for one, other in pairwise(tones))
    nats = REPETITION_GAIN * (repeated - target * len(tones))
    if nats > 0:
        yield state.table.id("pitch", tones[0]), nats


# --------------------------------------------------------------------------- bar lines and places


def on_first_beat(row: Any) -> Nats:
    """Until the piece has a note, allow only the first place of a bar. Many pieces of the corpus
    begin with a pick-up; a new piece would begin with an almost empty bar."""
    state: BarState = row.state
    if state.line_count and not state.notes:
        places = state.ids["place"]
        yield slice(places.start + 1, places.stop), np.inf
        for kind in {"bar", "known"} & state.ids.keys():
            yield state.ids[kind], np.inf


def first_bar_line(row: Any, line: np.ndarray, lines: int) -> Nats:
    """Until the piece has ``lines`` bar lines, allow only copies of ``line`` (5,), the ids of a bar
    line. The copy may name any bar as the repeated one."""
    state: BarState = row.state
    if state.line_count < lines and not state.at_repeat:
        token = int(line[len(state.group)])
        yield slice(0, token), np.inf
        yield slice(token + 1, state.table.size), np.inf


def one_meter(table: Vocabulary, numerator: int, denominator: int) -> RowPenalty:
    """Forbid bars of meters other than ``numerator`` / ``denominator``."""
    other = np.zeros(table.size, bool)
    exponent = denominator.bit_length() - 1
    for kind, value in (("numerator", numerator), ("denominator", exponent)):
        other[table.slices[kind]] = True
        other[table.id(kind, value)] = False
    return forbidding(other)


# --------------------------------------------------------------------- repetition and contrast


def section_return(row: Any) -> Nats:
    """At a bar line, favour by :data:`RETURN_GAIN` nats the repetition of a bar at a distance in
    :data:`RETURN_BARS`."""
    if row.state.at_repeat:
        first = row.state.ids["section"].start + FIRST_REPEAT - 1
        yield slice(first + RETURN_BARS.start, first + RETURN_BARS.stop), -RETURN_GAIN


def as_in_repeated_bar(row: Any) -> Nats:
    """Favour the places, parts and pitches of the bar that the last bar line names."""
    state: BarState = row.state
    return copy_of(row, earlier_groups(state, state.bars[-1].back), fields=3)


def earlier_groups(state: BarState, distance: int) -> list[Group]:
    """The groups of the bar ``distance`` bars before the current one; empty if there is no such bar
    or ``distance`` is 0."""
    return state.bars[-1 - distance].groups if 0 < distance < len(state.bars) else []


def copy_of(row: Any, groups: Sequence[Group], fields: int) -> Nats:
    """Favour by :data:`REPEAT_GAIN` nats the next id of a copy of the first ``fields`` ids of each
    of ``groups``, and after the last group the end of the bar. Around given notes, the next given
    note is favoured if it precedes the next of ``groups``."""
    state, count = row.state, len(row.state.group)
    if state.in_line or count >= fields or not groups:
        return
    given = row.remaining[:1] if isinstance(row, BarRow) else []
    rest = [group for group in (*groups, *given) if group.key > state.last_key]
    ids = min(rest, key=lambda group: group.key).ids if rest else [bar_end(row)]
    if count < len(ids) and ids[:count] == state.group:
        yield ids[count], -REPEAT_GAIN


def section_contrast(
    stream: NoteStream, begins: Sequence[int], here: int, bars: int, *, steps: int, drums: bool
) -> Penalty:
    """The penalty on the chords and pitch classes that earlier sections have at the same place. It
    also forbids bar lines that name a bar before the new section as the repeated one.

    stream  the piece so far
    begins  the step at which each earlier section of ``bars`` bars begins, which may lie before the
            first bar of the stream
    here    the step at which the new section begins
    steps   the length of each bar but a pick-up
    drums   whether drum strokes are penalised, too
    """
    lines = int(np.searchsorted(stream.lines, here))
    # The pitch classes in any earlier section, and for each section the root in force, -1 for none.
    pitches = np.zeros((bars, -(-steps // SIXTEENTH), 12), bool)
    roots = np.full((len(begins), bars * steps), -1)
    for section_roots, begin in zip(roots, begins):
        since = stream.notes["start"] - begin
        inside = (since >= 0) & (since < bars * steps)
        for step, (_, part, tone, *_) in zip(since[inside], stream.notes[inside].tolist()):
            if part == CHORD:
                section_roots[step:] = tone
            elif part != DRUMS or drums:
                bar, place = divmod(step, steps)
                pitches[bar, place // SIXTEENTH, tone % 12] = True

    def sparse(state: BarState) -> Nats:
        if state.at_repeat:
            ids, first = state.ids["section"], FIRST_REPEAT + max(state.line_count - lines, 0)
            # From this value on, the repeated bar is in an earlier section.
            yield slice(ids.start + first, ids.stop), np.inf
        bar = (state.bars[-1].begin - here) // steps
        if len(state.group) != 2 or state.in_line or not 0 <= bar < bars:
            return
        kind, place = state.kind(2), state.place
        tones = state.table.values_in(kind)
        if state.part == CHORD:
            yield state.ids[kind], SAME_ROOT * np.isin(tones, roots[:, bar * steps + place])
        elif state.part != DRUMS or drums:
            sixteenth = min(place, steps - 1) // SIXTEENTH
            yield state.ids[kind], SAME_PITCH * pitches[bar, sixteenth][tones % 12]

    def penalty(states: Sequence[Any], past: np.ndarray) -> np.ndarray:
        return np.array([_dense(sparse(state), state) for state in states])

    return penalty
