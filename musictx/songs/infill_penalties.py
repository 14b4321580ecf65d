"""Penalties on new notes around given ones, in bars. They are sparse, as described in
:mod:`musictx.songs.penalties`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from musictx.chords import NONE, Chord
from musictx.notes import DRUMS
from musictx.songs import constants
from musictx.songs.bar_codec import LENGTH, TONE, part_id
from musictx.songs.bar_constraint import WINDOW_STEPS, BarRow, steps_to_next
from musictx.songs.bar_grammar import BarState, GroupKey
from musictx.songs.bars import STEP_SECONDS
from musictx.songs.drummers import Drummer
from musictx.songs.penalties import Nats, earlier_groups, favour_copy, favour_parts, thinner_chord
from musictx.tokens.stream import CHORD

#: The program of a bass.
BASS = 33


class Bass(NamedTuple):
    """The notes that act as the bass: those of ``part`` from the pitch ``low`` to ``high``."""

    part: int = BASS
    low: int = 0
    high: int = 127


def drummer_strokes(
    row: BarRow, drummers: Sequence[Drummer | None], sections: Collection[int] = ()
) -> Nats:
    """Favour what the drummer of the current bar, one of ``drummers``, plays next, in regions of
    drums alone and in bars as long as the drummer's. ``sections`` are the numbers of the bars that
    begin a section: the drummer plays an opening in these bars, and a fill in the bars before."""
    drummer, state = drummers[row.bar], row.state
    place, steps = state.place, state.bars[-1].steps
    if drummer is None or DRUMS not in row.parts or steps != drummer.steps:
        return
    if row.bar + 1 in sections:
        drummer = drummer.closing
    elif row.bar in sections:
        drummer = drummer.opening
    struck = [group.tone for group in state.bars[-1].groups if group.key[:2] == (place, DRUMS)]
    due = row.ids_toward_given()
    if not state.group:
        log_probs, first = drummer.log_prob_silence(place, struck), state.ids["place"].start
        # Every new group is a stroke, so to choose a place is to choose that a stroke comes there.
        hits = [drummer.log_prob_hit(place, struck)]
        hits += [drummer.log_prob_hit(step, ()) for step in range(place + 1, steps)]
        log_probs[place:-1] += hits
        if due and first <= due[0] < first + steps:  # a given group may stand at this place
            log_probs[due[0] - first] -= hits[due[0] - first - place]
        yield slice(first, first + steps), -log_probs[:-1]
        yield row.bar_end(), -log_probs[-1]
    elif len(state.group) == 1 and due:
        yield part_id(row.table, DRUMS), -drummer.log_prob_hit(place, struck)
    elif state.at_tone and state.part == DRUMS:
        yield state.ids["drum"], -drummer.log_prob_drum(place, struck)


def at_harmony_change(state: BarState) -> bool:
    """Whether a bar or a chord begins at the current place."""
    chord_key = (state.place, CHORD)
    return state.place == 0 or any(group.key[:2] == chord_key for group in state.bars[-1].groups)


def on_root(row: BarRow, bass: Bass, slash: Mapping[int, int]) -> Nats:
    """Favour the root of the chord as the lowest note of the ``bass`` at a bar line or where a
    chord begins. ``slash`` is {step: pitch class to favour instead}; other notes of the ``bass``
    that last beyond such a step are penalised."""
    state, field = row.state, len(row.state.group)
    if state.in_line or field not in (TONE, LENGTH) or state.part != bass.part:
        return
    is_slash, is_lowest = state.step in slash, state.last_key[:2] != (state.place, bass.part)
    if field == LENGTH:
        if bass.low <= (pitch := state.value(TONE)) <= bass.high:
            other = [step for step, pitch_class in slash.items() if pitch_class != pitch % 12]
            lasts_into = row.table.values_in("length") > steps_to_next(np.array(other), state.step)
            yield state.ids["length"], constants.SLASH_GAIN * lasts_into
    elif is_lowest and (is_slash or (at_harmony_change(state) and state.chord != NONE)):
        pitches = row.table.values_in("pitch")
        gain = constants.SLASH_GAIN if is_slash else constants.ROOT_GAIN
        is_root = pitches % 12 == slash.get(state.step, state.chord.root)
        is_low = (pitches >= bass.low) & (pitches <= bass.high)
        yield state.ids["pitch"], -gain * (is_root & is_low)


def harmonic_fit(
    row: BarRow, given: np.ndarray, melodies: Collection[int], bass: Bass | None
) -> Nats:
    """Penalise pitches and lengths of new notes that do not fit the harmony of the ``given`` (n,)
    notes and chords. Notes of ``melodies`` need not be tones of a given chord; those of the
    ``bass`` are also penalised if they last into a chord of which they are not the root.

    A model of a few million parameters sustains some notes for seconds into the next chord, where
    songs end them, and writes more semitones against a melody than songs have (scripts/LOG.md).
    """
    state, field = row.state, len(row.state.group)
    if state.in_line or field not in (TONE, LENGTH) or state.part in (CHORD, DRUMS):
        return
    new_chords = CHORD in row.parts
    if field == TONE:
        pitches, begin = row.table.values_in("pitch"), given["start"]
        sounds = (begin <= state.step) & (state.step < begin + given["length"])
        sounding = given["pitch"][sounds & (given["part"] != CHORD) & (given["part"] != DRUMS)]
        clashing = np.concatenate([sounding - 1, sounding + 1]) % 12
        nats = constants.CLASH_PENALTY * np.isin(pitches % 12, clashing)
        if not new_chords and state.chord != NONE and state.part not in melodies:
            is_chord_tone = np.isin(pitches % 12, [*state.chord.classes])  # these may clash
            nats = np.where(is_chord_tone, 0.0, nats + constants.CLASH_PENALTY)
        yield state.ids["pitch"], nats
    else:
        pitch, lengths = state.value(TONE), row.table.values_in("length")
        is_bass = bass is not None and state.part == bass.part and pitch <= bass.high
        note_bass = bass if is_bass else None
        nats = overhang(given, pitch, state.step, lengths, new_chords, note_bass)
        yield state.ids["length"], nats


def overhang(
    given: np.ndarray, pitch: int, step: int, lengths: np.ndarray, clashes: bool, bass: Bass | None
) -> np.ndarray:
    """(n,) the nats for each of ``lengths`` (n,), in steps, of a note of ``pitch`` that begins at
    ``step``. It is penalised if it lasts into a chord of ``given`` of which it is not a tone (if it
    is a note of the ``bass``: not the root) or, with ``clashes``, into a note a semitone away."""
    is_chord = given["part"] == CHORD
    foreign = [
        start
        for start, _, root, quality, _ in given[is_chord & (given["pitch"] != NONE.root)].tolist()
        if pitch % 12 not in ([root] if bass else Chord(root, quality).classes)
    ]
    # A bass begins chords (bass_on_bar_line), which it cannot while another note sounds.
    penalty = constants.BAR_LINE_GAIN if bass == Bass() else constants.OVERHANG_PENALTY
    nats = penalty * (lengths > steps_to_next(np.array(foreign, np.int64), step))
    if clashes:
        is_near = np.isin((given["pitch"] - pitch) % 12, (1, 11)) & (given["part"] != DRUMS)
        lasts_into_clash = lengths > steps_to_next(given["start"][is_near & ~is_chord], step)
        nats = np.maximum(nats, constants.OVERHANG_PENALTY * lasts_into_clash)
    return nats


def over_tune(row: BarRow, parts: Collection[int], tune: np.ndarray) -> Nats:
    """Penalise notes of ``parts`` above the highest note of ``tune`` (n,), given notes, that sounds
    at the current place or, in a rest, next: they would cover it. If the last note of a chord has
    reached this pitch, any further note is penalised, since it would be higher."""
    state, step = row.state, row.state.step
    remaining = tune[tune["start"] + tune["length"] > step]
    if not len(remaining):
        return
    top = remaining["pitch"][remaining["start"] <= max(step, remaining["start"].min())].max()
    _, last_part, last_tone = state.last_key
    if state.at_tone and state.part in parts:
        yield state.ids["pitch"], constants.CLASH_PENALTY * (row.table.values_in("pitch") > top)
    elif len(state.group) < TONE and last_part in parts and last_tone >= top:
        yield from thinner_chord(row, constants.CLASH_PENALTY)


def low_intervals(row: BarRow) -> Nats:
    """Penalise pitches less than a fourth from a sounding note, given or new, if the lower of the
    two is below ``LOW_PITCH``: these intervals are muddy, and songs avoid them."""
    state = row.state
    if not state.at_tone or state.part in (CHORD, DRUMS):
        return
    pitches = row.table.values_in("pitch")
    nats = np.zeros(len(pitches))
    for program in state.ends:
        for _, other in state.sounding_at(program, state.step):
            is_close = (abs(pitches - other) < 5) & (pitches != other)
            is_low = np.minimum(pitches, other) < constants.LOW_PITCH
            nats[is_close & is_low] = constants.CLASH_PENALTY
    yield state.ids["pitch"], nats


def lead_into(row: BarRow, following: Mapping[int, tuple[int, int]]) -> Nats:
    """Penalise pitches by their distance from the next given note of their part, within a bar
    before that note: ``LEAP_PENALTY`` nats per semitone, and less the earlier they are.
    ``following`` is {part: (step, pitch) of its next given note}."""
    state = row.state
    if not state.at_tone or state.part not in following:
        return
    step, pitch = following[state.part]
    nearness = 1 - (step - state.step) / state.bars[-1].steps
    if nearness > 0:
        leaps = np.abs(row.table.values_in("pitch") - pitch)
        yield state.ids["pitch"], constants.LEAP_PENALTY * nearness * leaps


def filling_parts(row: BarRow, parts: Collection[int]) -> Nats:
    """Favour notes of those of ``parts`` that have less than the share ``PART_SHARE`` of their
    usual notes."""
    step = row.state.step
    if len(row.state.group) > 1:
        return
    since = max(row.first_step, step - WINDOW_STEPS)
    targets = {
        part: constants.PART_SHARE * habit.density * STEP_SECONDS * (step - since)
        for part, habit in row.limits.habits.items()
        if part in parts and part in row.parts and not row.is_full(part, step)
    }
    is_place = not row.state.group and row.remaining
    for ids, nats in favour_parts(row.state, targets, since):
        yield ids, nats
        if is_place and not row.parts_at(row.remaining[0].place):
            yield row.ids_toward_given()[0], -nats  # only a given note may come at that place


def bass_on_bar_line(row: BarRow, slash: Collection[int]) -> Nats:
    """Favour a new note of the bass at bar lines, where chords begin, and at the steps
    ``slash``."""
    state, place = row.state, row.state.place
    if BASS not in row.limits.habits or len(state.group) > 1 or state.last_key[:2] >= (place, BASS):
        return
    if (at_harmony_change(state) or state.step in slash) and BASS in row.parts_at(place):
        token = part_id(row.table, BASS) if state.group else state.ids["place"].start + place
        yield token, -constants.BAR_LINE_GAIN


def as_in_earlier_bar(
    row: BarRow, back: np.ndarray, same_rhythm: bool, melodies: Collection[int]
) -> Nats:
    """Favour a copy of the bar ``back[row.bar]`` bars before the current one. If that number is 0,
    with ``same_rhythm``, favour the rhythm of the previous bar without ``melodies``, and without
    its given notes if the region includes its bar line."""
    if distance := int(back[row.bar]):
        yield from favour_copy(row, earlier_groups(row.state, distance), fields=3)
    elif same_rhythm:
        previous = row.bar - 1
        is_new = row.given.lines[previous] >= row.limits.begin
        given = row.given.groups[previous] if is_new else ()
        rhythm = [
            group
            for group in earlier_groups(row.state, 1)
            if group.part not in melodies and group not in given
        ]
        yield from favour_copy(row, rhythm, fields=2)


def unlike_other_version(row: BarRow, notes: Collection[tuple[int, GroupKey]], nats: float) -> Nats:
    """Penalise by ``nats`` the ``notes`` (bar, key) of another version."""
    state = row.state
    if not state.at_tone:
        return
    kind = state.kind(TONE)
    for token, tone in enumerate(row.table.values_in(kind).tolist(), state.ids[kind].start):
        if (row.bar, (state.place, state.part, tone)) in notes:
            yield token, nats
