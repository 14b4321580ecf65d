"""Penalties for all music in bars; those for notes around given ones are in
:mod:`.infill_penalties`.

They are sparse: a function of a row yields ids and the nats that are subtracted from their logits;
negative nats favour an id. :func:`sum_penalties` makes a penalty of the row of several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from musictx.notes import DRUMS
from musictx.sampling.constants import REPETITION_GAIN, REPETITION_NOTES, REQUESTED_GAIN
from musictx.sampling.constraints import Penalty, RowPenalty, forbidding
from musictx.sampling.penalties import feedback, polyphony_error, window_seconds
from musictx.sampling.steer import Steering
from musictx.songs import constants
from musictx.songs.bar_codec import FIRST_REPEAT, LENGTH, TONE, part_id
from musictx.songs.bar_constraint import BarRow
from musictx.songs.bar_grammar import BarState, Group
from musictx.songs.bars import STEP_SECONDS, STEPS_PER_SECOND
from musictx.tokens.stream import CHORD, STEPS_PER_QUARTER, NoteStream
from musictx.tokens.vocab import Vocabulary

#: Ids and the nats that are subtracted from their logits.
Nats = Iterator[tuple[slice | int, np.ndarray | float]]
#: A penalty on few ids: a function of the row, whose state is a :class:`.BarState`. Around given
#: notes the row is a :class:`.BarRow`.
SparsePenalty = Callable[[Any], Nats]
#: Steps in a sixteenth.
SIXTEENTH = STEPS_PER_QUARTER // 4


def sum_penalties(*penalties: SparsePenalty) -> RowPenalty:
    """The sum of ``penalties`` as a penalty of a row; it is ``None`` if the next id is forced."""

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
    """The id that ends the current bar; see also :meth:`.BarRow.bar_end`."""
    return row.bar_end() if isinstance(row, BarRow) else row.state.ids["bar"].start


def bar_feedback(row: Any, steering: Steering, has_chords: bool) -> Nats:
    """Steer towards the targets of ``steering``, as :mod:`musictx.sampling.penalties` does for
    event tokens. Levels are measured on the notes of ``steering.parts`` in the last seconds of the
    tokens (:func:`.window_seconds`). While a level is too high, the following are penalised; while
    it is too low, they are favoured:

    density    new notes, by ``CROWD_GAIN`` nats for each doubling of their number, and less if they
               begin later, to 0 after a second; the end of the bar is favoured by the time until
               it. With ``has_chords`` the first place of an empty bar is not penalised, since its
               chord comes there
    polyphony  long notes; if it is requested, also new notes, as for the density
    register   high notes
    loudness   loud notes

    Without a target of density the usual density is the target, by :data:`REQUESTED_GAIN` nats for
    each note per second. If it is exceeded, only another note of the same part at the same place is
    penalised: chords get thinner, and bars do not fall silent before they end.
    """
    state: BarState = row.state
    targets, span, field = steering.targets, window_seconds(state.seconds), len(state.group)
    recent = [*state.recent_notes(span, steering.parts)]
    polyphony = targets.get("polyphony", steering.usual_polyphony)
    sounding = sum(note.length for note in recent) / STEPS_PER_SECOND / span  # at once, on average
    if field == TONE and (target := targets.get("register")):
        if pitches := [note.tone for note in recent if note.part != DRUMS]:
            values = state.table.values_in("pitch")
            yield state.ids["pitch"], feedback("register", target, pitches, values)
    elif field == LENGTH and polyphony:
        doublings = np.log2(state.table.values_in("length") / STEPS_PER_QUARTER)
        yield state.ids["length"], constants.LENGTH_GAIN * (sounding - polyphony) * doublings
    elif field > LENGTH and recent and (target := targets.get("loudness")):
        velocities = state.velocities[[note.velocity_bin for note in recent]]
        yield state.ids["velocity"], feedback("loudness", target, velocities, state.velocities[1:])
    if field >= TONE:
        return
    polyphony_nats, density_nats, density = 0.0, 0.0, len(recent) / span
    if requested := targets.get("polyphony"):
        polyphony_nats = constants.CROWD_GAIN * polyphony_error(sounding, requested)
    if requested := targets.get("density"):
        density_nats = constants.CROWD_GAIN * polyphony_error(density, requested)
    elif steering.usual_density:
        density_nats = REQUESTED_GAIN * (density - steering.usual_density)
        yield from thinner_chord(row, max(density_nats, 0.0))
        density_nats = min(density_nats, 0.0)
    note_nats = density_nats + polyphony_nats
    if state.group:
        yield state.ids["program"], note_nats
        yield state.ids["drums"], density_nats
        return
    bar = state.bars[-1]
    waits = (state.table.values_in("place") - state.place) * STEP_SECONDS
    nats = note_nats * (1.0 - np.clip(waits, 0.0, 1.0))
    if has_chords and not bar.groups:
        nats[0] = 0.0
    yield state.ids["place"], nats
    yield bar_end(row), -note_nats * min((bar.steps - state.place) * STEP_SECONDS, 1.0)


def thinner_chord(row: BarRow, nats: float) -> Nats:
    """Penalise by ``nats`` another note of the last part at its place, if the part has new notes.

    The place is drawn before the part, so it is penalised, too, but only by the probability that it
    loses if the last part and those after it come there in proportion to their usual densities. If
    it were penalised by ``nats``, parts that come late, such as the melody, would be silent."""
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
    rates = {p: habit.density for p, habit in row.limits.habits.items() if part <= p != DRUMS}
    share = rates[part] / sum(rates.values()) if rates.get(part) else 1.0
    yield state.ids["place"].start + state.place, -np.log1p(share * np.expm1(-nats))


def lacking_parts(row: Any, rates: Mapping[int, float], seam: float = 0.0) -> Nats:
    """Favour parts that have begun fewer notes per second than ``rates`` ({part: notes per second})
    in the last ``PART_SECONDS``, but not before ``seam``, the seconds at which new music begins."""
    state: BarState = row.state
    if len(state.group) > 1:
        return
    seconds = min(max(state.seconds - seam, 0.0), constants.PART_SECONDS)
    targets = {part: rate * seconds for part, rate in rates.items()}
    yield from favour_parts(state, targets, state.step - seconds * STEPS_PER_SECOND)


def favour_parts(state: BarState, targets: Mapping[int, float], since: float) -> Nats:
    """Favour each part by ``PART_GAIN`` nats for each note that it lacks to its target ({part:
    notes since the step ``since``}), and all places by the greatest of these gains."""
    missing = {p: max(n - state.count_onsets(p, since), 0.0) for p, n in targets.items()}
    if not state.group:
        yield state.ids["place"], -constants.PART_GAIN * max(missing.values(), default=0.0)
        return
    for part, notes in missing.items():
        yield part_id(state.table, part), -constants.PART_GAIN * notes


def same_pitch(row: Any, parts: Collection[int], target: float) -> Nats:
    """Penalise the last pitch of each of ``parts``, as :func:`.event_idiom.repetition` does for
    event tokens: by :data:`REPETITION_GAIN` nats for each of the last :data:`REPETITION_NOTES`
    notes of the part that repeats the pitch before it, beyond the share ``target`` of these
    notes."""
    state: BarState = row.state
    if not state.at_tone or state.part not in parts:
        return
    latest = islice(state.recent_notes(np.inf, {state.part}), REPETITION_NOTES)
    tones = [group.tone for group in latest]
    repeated = sum(one == other for one, other in pairwise(tones))
    nats = REPETITION_GAIN * (repeated - target * len(tones))
    if nats > 0:
        yield state.table.id("pitch", tones[0]), nats


def on_first_beat(row: Any) -> Nats:
    """Until the piece has a note, allow neither a second bar nor a place after the first beat. Many
    pieces of the corpus begin with a pick-up; a new piece would begin with an almost empty bar."""
    state: BarState = row.state
    if state.line_count and not state.notes:
        places = state.ids["place"]
        yield slice(places.start + 1, places.stop), np.inf
        for kind in {"bar", "known"} & state.ids.keys():
            yield state.ids[kind], np.inf


def first_bar_line(row: Any, line: np.ndarray, line_count: int) -> Nats:
    """Until the piece has ``line_count`` bar lines, allow only copies of ``line`` (5,), the ids of
    a bar line. The copies may name any bar as the repeated one."""
    state: BarState = row.state
    if state.line_count < line_count and not state.at_repeat:
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


def section_return(row: Any) -> Nats:
    """At a bar line, favour by ``RETURN_GAIN`` nats the repetition of a bar at a distance in
    ``RETURN_BARS``."""
    if row.state.at_repeat:
        distances, zero = constants.RETURN_BARS, row.state.ids["section"].start + FIRST_REPEAT - 1
        yield slice(zero + distances.start, zero + distances.stop), -constants.RETURN_GAIN


def as_in_repeated_bar(row: Any) -> Nats:
    """Favour the places, parts and pitches of the bar that the last bar line names."""
    state: BarState = row.state
    return favour_copy(row, earlier_groups(state, state.bars[-1].back), fields=3)


def earlier_groups(state: BarState, distance: int) -> list[Group]:
    """The groups of the bar ``distance`` bars before the current one; empty if there is no such bar
    or ``distance`` is 0."""
    return state.bars[-1 - distance].groups if 0 < distance < len(state.bars) else []


def favour_copy(row: Any, groups: Sequence[Group], fields: int) -> Nats:
    """Favour by ``REPEAT_GAIN`` nats the next of the first ``fields`` ids of the next of
    ``groups``, and after the last of them the end of the bar. Around given notes, the next given
    note is favoured if it precedes the next of ``groups``."""
    state, count = row.state, len(row.state.group)
    if state.in_line or count >= fields or not groups:
        return
    given = row.remaining[:1] if isinstance(row, BarRow) else []
    rest = [group for group in (*groups, *given) if group.key > state.last_key]
    ids = min(rest, key=lambda group: group.key).ids if rest else [bar_end(row)]
    if count < len(ids) and ids[:count] == state.group:
        yield ids[count], -constants.REPEAT_GAIN


def section_contrast(
    stream: NoteStream, begins: Sequence[int], here: int, bars: int, *, steps: int, drums: bool
) -> Penalty:
    """The penalty, in a new section, on the chords and pitch classes that earlier sections have at
    the same place. It also forbids bar lines that name a bar before the new section as repeated.

    stream  the piece so far
    begins  the step at which each earlier section begins; may lie before the stream
    here    the step at which the new section begins
    bars    the length of each section in bars
    steps   the length of each bar, except a pick-up, in steps
    drums   whether drum strokes are penalised, too
    """
    first_bar = int(np.searchsorted(stream.lines, here))
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
            ids, new_bars = state.ids["section"], max(state.line_count - first_bar, 0)
            yield slice(ids.start + FIRST_REPEAT + new_bars, ids.stop), np.inf
        bar = (state.bars[-1].begin - here) // steps
        if not state.at_tone or not 0 <= bar < bars:
            return
        kind, place = state.kind(TONE), state.place
        tones = state.table.values_in(kind)
        if state.part == CHORD:
            is_same = np.isin(tones, roots[:, bar * steps + place])
            yield state.ids[kind], constants.SAME_ROOT * is_same
        elif state.part != DRUMS or drums:
            sixteenth = min(place, steps - 1) // SIXTEENTH
            yield state.ids[kind], constants.SAME_PITCH * pitches[bar, sixteenth][tones % 12]

    def penalty(states: Sequence[Any], past: np.ndarray) -> np.ndarray:
        return np.array([_dense(sparse(state), state) for state in states])

    return penalty
