"""What makes ids likelier or rarer while notes in bars are composed around given ones.

Each bias is a function of a row (:class:`~musictx.songs.bar_constraint.BarRow`): it yields ids and
the nats that are added to their logits. :class:`InfillBias` sums them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.chords import NONE, Chord
from musictx.songs.bar_codec import part_id
from musictx.songs.bar_constraint import BarRow, Key
from musictx.songs.bar_copying import next_in
from musictx.songs.bars import PER_SECOND, STEP_SECONDS
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
from musictx.tokens.tokenizer import GrammarState

#: The program of a bass; the steps in which the notes of a part are counted.
BASS, PART_WINDOW = 33, round(WINDOW_SECONDS * PER_SECOND)
#: Ids and the nats that are added to their logits.
Nats = Iterator[tuple[slice | int, np.ndarray | float]]
#: A bias of a row.
Bias = Callable[[BarRow], Nats]


class InfillBias:
    """A penalty of one row: the sum of its ``biases``, taken off."""

    def __init__(self, row: BarRow, biases: Sequence[Bias]) -> None:
        self.row, self.biases = row, biases

    def __call__(self, state: GrammarState, past: np.ndarray) -> np.ndarray | None:
        row = self.row
        if row.done or row.queue:  # there is nothing to choose, or no note
            return None
        sums = np.zeros(row.table.size)
        for bias in self.biases:
            for ids, nats in bias(row):
                sums[ids] += nats
        return -sums


def drummer_strokes(row: BarRow, drummer: Drummer, sections: Collection[int] = ()) -> Nats:
    """What a drummer plays next, in a bar of 4/4; ``sections``: the bars that begin one."""
    if row.bar + 1 in sections:
        drummer = drummer.closing
    elif row.bar in sections:
        drummer = drummer.opening
    bar, parts = row.length, row.new.parts or ()
    if DRUM_PART not in parts or bar != drummer.steps:
        return
    place = row.place
    written = [key for key, _ in row.written.get(row.bar, ())]
    struck = [tone for at, part, tone in written if (at, part) == (place, DRUM_PART)]
    alone, due = not {*parts} - {CHORD, DRUM_PART}, row.due()
    if not row.group:
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
    elif len(row.group) == 1 and (due or not alone):
        yield part_id(row.table, DRUM_PART), drummer.log_prob_hit(place, struck)
    elif len(row.group) == 2 and row.part() == DRUM_PART:
        yield row.new.ids["drum"], drummer.log_prob_drum(place, struck)


def at_chord(row: BarRow) -> bool:
    """Whether a bar or a chord begins at the present place."""
    chord = (row.place, CHORD)
    return row.place == 0 or any(key[:2] == chord for key, _ in row.written.get(row.bar, ()))


def bass_on_root(row: BarRow) -> Nats:
    """A bass at a bar line, or where a chord begins, plays the root of the chord."""
    if BASS not in row.new.habits or len(row.group) != 2 or row.part() != BASS:
        return
    if at_chord(row) and row.chord != NONE:
        root = row.new.values("pitch") % 12 == row.chord.root
        yield row.new.ids["pitch"], ON_ROOT * root


def lowest_on_root(row: BarRow, part: int, bass: tuple[int, int]) -> Nats:
    """The lowest note of ``part`` at a bar line, or where a chord begins, is the root of the chord
    from the lowest pitch of ``bass`` to the highest: no other part is one."""
    if len(row.group) != 2 or row.part() != part or row.last[:2] == (row.place, part):
        return
    if at_chord(row) and row.chord != NONE:
        pitches = row.new.values("pitch")
        roots = (pitches % 12 == row.chord.root) & (pitches >= bass[0]) & (pitches <= bass[1])
        yield row.new.ids["pitch"], ON_ROOT * roots


class HarmonicFit:
    """What new notes cost in the harmony of the given notes and chords of a piece.

    A model of a few million parameters holds some notes over the next chord for seconds, where
    songs change them, and writes more semitones to a melody than songs have (scripts/LOG.md).

    sounding  (part, pitch) -> (begin, end) of its given notes, steps
    chords    (step, chord) of the given chords, in order
    """

    def __init__(
        self,
        sounding: Mapping[tuple[int, int], Sequence[tuple[int, int]]],
        chords: Sequence[tuple[int, Chord]],
    ) -> None:
        tones = [[(begin, end, tone) for begin, end in sounding[_, tone]] for _, tone in sounding]
        self._notes = np.array([*chain(*tones)], np.int64).reshape(-1, 3)
        self._chords = [(step, chord) for step, chord in chords if chord != NONE]
        self.clashes = cache(self._clashes)

    def _clashes(self, step: int) -> np.ndarray:
        """(12,) nats of each pitch class of a note that begins at ``step``."""
        begin, end, tone = self._notes.T
        near = tone[(begin <= step) & (step < end)]
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
            begin, _, tone = self._notes.T
            clash = np.isin((tone - pitch) % 12, (1, 11))
            nats = np.maximum(nats, OVERHANG * (lengths > _room(begin[clash], step)))
        return nats


def _room(begins: np.ndarray, step: int) -> float:
    """Steps from ``step`` to the first of ``begins`` after it."""
    return float((begins[begins > step] - step).min(initial=10**9))


def in_harmony(row: BarRow, fit: HarmonicFit) -> Nats:
    """What the pitch and the length of a new note cost in the harmony of the given ones."""
    if len(row.group) not in (2, 3) or row.part() in (CHORD, DRUM_PART):
        return
    kind = "pitch" if len(row.group) == 2 else "length"
    ids, values = row.new.ids[kind], row.new.values(kind)
    composed = CHORD in (row.new.parts or ())
    if len(row.group) == 2:
        nats = fit.clashes(row.step)[values % 12]
        if not composed and row.chord != NONE:  # it is given, and may clash
            inside = np.isin(values % 12, [*row.chord.classes])
            nats = np.where(inside, 0.0, nats + CLASH)
    else:
        nats = fit.lengths(row.value(2), row.step, values, composed, row.part() == BASS)
    for token in row.due():  # a given note costs nothing
        nats[token - ids.start] = 0.0
    yield ids, -nats


def as_in_repeated_bar(row: BarRow, bars: Mapping[int, int]) -> Nats:
    """What came next in the bar that this one repeats: ``bars`` has the earlier one of each."""
    written = row.written.get(bars.get(row.bar, -1))
    token = None if written is None else next_in(written, row.last, row.group, row.leaves())
    if token is not None:
        yield token, REPEAT_GAIN


def unlike_other_version(row: BarRow, notes: Collection[tuple[int, Key]], nats: float) -> Nats:
    """The ``notes``, by bar and key, that another version has become rarer."""
    if len(row.group) != 2:
        return
    place, part = row.value(0), row.part()
    kind = row.new.kind(part)
    for token, tone in enumerate(row.new.values(kind).tolist(), row.new.ids[kind].start):
        if (row.bar, (place, part, tone)) in notes and token not in row.due():
            yield token, -nats


def filling_parts(row: BarRow) -> Nats:
    """Notes of parts that have fewer than they should (:data:`PART_SHARE`)."""
    if len(row.group) > 1:
        return
    lacks, since = {}, max(row.since, row.step - PART_WINDOW)
    for part, habit in row.new.habits.items():
        count = len(row.begun[part]) - bisect_left(row.begun[part], since)
        if part in (row.new.parts or ()) and not row.full(part, row.step):
            target = PART_SHARE * habit.density * STEP_SECONDS * (row.step - since)
            lacks[part] = max(target - count, 0.0)
    if row.group:
        for part, lack in lacks.items():
            yield part_id(row.table, part), PART_GAIN * lack
        return
    nats = PART_GAIN * max(lacks.values(), default=0.0)
    yield row.new.ids["place"], nats
    if row.left and not row.parts_at(row.left[0][0][0]):
        yield row.due()[0], -nats


def bass_on_bar_line(row: BarRow) -> Nats:
    """A bass that is silent at a bar line, or where a chord begins, begins there."""
    place = row.place
    if BASS not in row.new.habits or len(row.group) > 1 or row.last[:2] >= (place, BASS):
        return
    if at_chord(row) and BASS in row.parts_at(place):
        yield part_id(row.table, BASS) if row.group else row.new.ids["place"].start + place, ON_LINE


def repeated_bars(given: NoteStream) -> dict[int, int]:
    """Bars whose ``given`` notes repeat those of an earlier bar (:func:`.repeats.repeated`): the
    number of each, and that of the earlier one."""
    back = repeated(given._replace(notes=given.notes[given.notes["part"] != CHORD]))
    return {bar: bar - int(back[bar]) for bar in np.flatnonzero(back).tolist()}
