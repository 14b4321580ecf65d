"""What makes ids likelier or rarer while notes in bars are composed around given ones.

Each is a function of a row (:class:`~musictx.songs.bar_constraint.BarRow`) that yields ids and the
nats that are added to their logits, as in :mod:`musictx.songs.biases`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import cache

import numpy as np

from musictx.chords import NONE, Chord
from musictx.sampling.constraints import RowPenalty
from musictx.songs.bar_codec import part_id
from musictx.songs.bar_constraint import WINDOW, BarRow
from musictx.songs.bar_grammar import REPEATED, RHYTHM, BarState, Key
from musictx.songs.bars import STEP_SECONDS
from musictx.songs.biases import Nats, taken_off
from musictx.songs.drummers import Drummer
from musictx.songs.repeats import repeated
from musictx.songs.strengths import (
    CLASH,
    ON_LINE,
    ON_ROOT,
    OVERHANG,
    PART_GAIN,
    PART_SHARE,
    REPEAT_GAIN,
)
from musictx.tokens.stream import CHORD, DRUM_PART, NoteStream

#: The program of a bass.
BASS = 33


def penalty_around(row: BarRow, biases: Sequence[Callable[[BarRow], Nats]]) -> RowPenalty:
    """The penalty of a row that takes off the sum of its ``biases`` where there is a choice."""
    return lambda state, past: (
        None if row.done or row.queue else taken_off(row.table, (bias(row) for bias in biases))
    )


def drummer_strokes(row: BarRow, drummer: Drummer, sections: Collection[int] = ()) -> Nats:
    """What a drummer plays next, in a bar of 4/4; ``sections``: the bars that begin one."""
    if row.bar + 1 in sections:
        drummer = drummer.closing
    elif row.bar in sections:
        drummer = drummer.opening
    state, parts = row.state, row.new.parts or ()
    bar, place, written = state.bars[-1].steps, state.place, state.bars[-1].groups
    if DRUM_PART not in parts or bar != drummer.steps:
        return
    struck = [one.tone for one in written if one.key[:2] == (place, DRUM_PART)]
    alone, due = not {*parts} - {CHORD, DRUM_PART}, row.due()
    if not state.group:
        nats, first = drummer.log_prob_onset(place, struck), row.new.ids["place"].start
        if alone:  # a new group is a stroke, but where a given one comes
            at = [
                drummer.log_prob_hit(at, struck if at == place else ()) for at in range(place, bar)
            ]
            nats[place:-1] += at
            if due and first <= due[0] < first + bar:
                nats[due[0] - first] -= at[due[0] - first - place]
        yield slice(first, first + bar), nats[:-1]
        yield row.leaves(), nats[-1]
    elif len(state.group) == 1 and (due or not alone):
        yield part_id(row.table, DRUM_PART), drummer.log_prob_hit(place, struck)
    elif len(state.group) == 2 and state.part == DRUM_PART:
        yield row.new.ids["drum"], drummer.log_prob_drum(place, struck)


def at_chord(state: BarState) -> bool:
    """Whether a bar or a chord begins at the present place."""
    chord = (state.place, CHORD)
    return state.place == 0 or any(one.key[:2] == chord for one in state.bars[-1].groups)


def on_root(row: BarRow, part: int, low: int = 0, high: int = 127) -> Nats:
    """The lowest note of ``part`` at a bar line, or where a chord begins, is the root of the chord
    between two pitches: no other part is a bass."""
    state = row.state
    if len(state.group) != 2 or state.part != part or state.last[:2] == (state.place, part):
        return
    if at_chord(state) and state.chord != NONE:
        pitches = row.new.values("pitch")
        roots = (pitches % 12 == state.chord.root) & (pitches >= low) & (pitches <= high)
        yield row.new.ids["pitch"], ON_ROOT * roots


class HarmonicFit:
    """What new notes cost in the harmony of the ``given`` notes and chords of a piece, (n,) as in
    :data:`musictx.tokens.stream.NOTE`.

    A model of a few million parameters holds some notes over the next chord for seconds, where
    songs change them, and writes more semitones to a melody than songs have (scripts/LOG.md).
    """

    def __init__(self, given: np.ndarray) -> None:
        self._notes = given[(given["part"] != CHORD) & (given["part"] != DRUM_PART)]
        chords = given[(given["part"] == CHORD) & (given["pitch"] != NONE.root)]
        self._chords = [(at, Chord(root, kind)) for at, _, root, kind, _ in chords.tolist()]
        self.clashes = cache(self._clashes)

    def _clashes(self, step: int) -> np.ndarray:
        """(12,) nats of each pitch class of a note that begins at ``step``."""
        notes, begin = self._notes, self._notes["start"]
        near = notes["pitch"][(begin <= step) & (step < begin + notes["length"])]
        nats = np.zeros(12)
        nats[np.concatenate([near - 1, near + 1]) % 12] = CLASH
        return nats

    def lengths(
        self, pitch: int, step: int, lengths: np.ndarray, composed: bool, bass: bool = False
    ) -> np.ndarray:
        """(n,) nats of each of ``lengths``, steps, of a note ``pitch`` that begins at ``step``;
        ``composed``: chords are, too; ``bass``: it may outlast a chord only into one of its
        root."""
        pitch_class = pitch % 12
        off = [
            at
            for at, chord in self._chords
            if pitch_class not in ([chord.root] if bass else chord.classes)
        ]
        nats = OVERHANG * (lengths > _room(np.array(off, np.int64), step))
        if composed:
            clashing = self._notes[np.isin((self._notes["pitch"] - pitch) % 12, (1, 11))]
            nats = np.maximum(nats, OVERHANG * (lengths > _room(clashing["start"], step)))
        return nats


def _room(begins: np.ndarray, step: int) -> float:
    """Steps from ``step`` to the first of ``begins`` after it."""
    return float((begins[begins > step] - step).min(initial=10**9))


def in_harmony(row: BarRow, fit: HarmonicFit) -> Nats:
    """What the pitch and the length of a new note cost in the harmony of the given ones."""
    state, field = row.state, len(row.state.group)
    if field not in (2, 3) or state.part in (CHORD, DRUM_PART):
        return
    kind = "pitch" if field == 2 else "length"
    ids, values = row.new.ids[kind], row.new.values(kind)
    composed = CHORD in (row.new.parts or ())
    if field == 2:
        nats = fit.clashes(state.step)[values % 12]
        if not composed and state.chord != NONE:  # it is given, and may clash
            inside = np.isin(values % 12, [*state.chord.classes])
            nats = np.where(inside, 0.0, nats + CLASH)
    else:
        nats = fit.lengths(state.value(2), state.step, values, composed, state.part == BASS)
    for token in row.due():  # a given note costs nothing
        nats[token - ids.start] = 0.0
    yield ids, -nats


def as_in_repeated_bar(row: BarRow, back: np.ndarray, steady: bool) -> Nats:
    """What came next in the bar that this one repeats, so many bars ``back`` (B,) of each bar, or
    the next given note before it; if ``steady``, in a bar that repeats none the place and part of
    what came next, of new notes, in the bar before."""
    bars, before = int(back[row.bar]), row.bar - 1
    if not bars and not steady:
        return
    like = row.state.earlier(bars or 1)
    if not bars and row.given.lines[before] >= row.new.begin:
        like = [one for one in like if one not in row.given.groups[before]]
    if like:
        like = [*like, *row.left[:1]]
    token = row.state.continued(like, REPEATED if bars else RHYTHM, row.leaves())
    if token is not None:
        yield token, REPEAT_GAIN


def unlike_other_version(row: BarRow, notes: Collection[tuple[int, Key]], nats: float) -> Nats:
    """The ``notes``, by bar and key, that another version has become rarer."""
    if len(row.state.group) != 2:
        return
    place, part = row.state.place, row.state.part
    kind = row.new.kind(part)
    for token, tone in enumerate(row.new.values(kind).tolist(), row.new.ids[kind].start):
        if (row.bar, (place, part, tone)) in notes and token not in row.due():
            yield token, -nats


def filling_parts(row: BarRow) -> Nats:
    """Notes of parts that have fewer than they should (:data:`PART_SHARE`)."""
    step = row.state.step
    if len(row.state.group) > 1:
        return
    lacks, since = {}, max(row.since, step - WINDOW)
    for part, habit in row.new.habits.items():
        count = len(row.begun[part]) - bisect_left(row.begun[part], since)
        if part in (row.new.parts or ()) and not row.full(part, step):
            target = PART_SHARE * habit.density * STEP_SECONDS * (step - since)
            lacks[part] = max(target - count, 0.0)
    if row.state.group:
        for part, lack in lacks.items():
            yield part_id(row.table, part), PART_GAIN * lack
        return
    nats = PART_GAIN * max(lacks.values(), default=0.0)
    yield row.new.ids["place"], nats
    if row.left and not row.parts_at(row.left[0].place):
        yield row.due()[0], -nats


def bass_on_bar_line(row: BarRow) -> Nats:
    """A bass that is silent at a bar line, or where a chord begins, begins there."""
    state, place = row.state, row.state.place
    if BASS not in row.new.habits or len(state.group) > 1 or state.last[:2] >= (place, BASS):
        return
    if at_chord(state) and BASS in row.parts_at(place):
        yield (
            (part_id(row.table, BASS) if state.group else row.new.ids["place"].start + place),
            ON_LINE,
        )


def repeated_bars(given: NoteStream) -> np.ndarray:
    """(B,) how many bars before each bar lies the one whose ``given`` notes are repeated in it
    (:func:`.repeats.repeated`), whatever the chords."""
    return repeated(given._replace(notes=given.notes[given.notes["part"] != CHORD]))
