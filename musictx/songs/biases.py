"""Biases of the sampler for music in bars, as functions of the grammar's state.

A bias yields ids and the nats that are added to their logits. Some biases make bars repeat the bar
of a section ago, or keep the rhythm of the bar before; one makes new sections differ. Feedback
corrects the density, polyphony, register and loudness of the last seconds, as
:mod:`musictx.sampling.penalties` does for events. Biases around given notes are in
:mod:`.infill_biases`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.sampling.constraints import RowPenalty
from musictx.sampling.strengths import ASKED_GAIN, LOUDNESS_GAIN, REGISTER_GAIN
from musictx.songs.bar_codec import REPEATS, part_id
from musictx.songs.bar_grammar import REPEATED, RHYTHM, BarState
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import PER_SECOND, STEP_SECONDS
from musictx.songs.strengths import (
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
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS, NoteStream, Velocities
from musictx.tokens.vocab import Vocabulary

#: Steps in a sixteenth.
SIXTEENTH = STEPS // 4
#: The number of complete ids in a group -> the control that its next id influences.
CONTROLS_OF = {2: "register", 3: "polyphony", 4: "loudness"}
#: Ids and the nats that are added to their logits.
Nats = Iterator[tuple[slice | int, np.ndarray | float]]
#: A bias of music in bars.
Bias = Callable[[BarState], Nats]


def penalty_of(table: Vocabulary, *biases: Bias) -> RowPenalty:
    """The penalty that applies the sum of ``biases`` to one row."""
    return lambda state, past: taken_off(table, (bias(state) for bias in biases))  # type: ignore


def taken_off(table: Vocabulary, gains: Iterable[Nats]) -> np.ndarray | None:
    """(V,) the sum of all ``gains`` with its sign reversed, as the nats that a penalty subtracts;
    ``None`` if there are no gains."""
    nats = None
    for bias in gains:
        for ids, gain in bias:
            nats = np.zeros(table.size) if nats is None else nats
            nats[ids] -= gain
    return nats


# ------------------------------------------------------------------------------- what repeats


def bar_return(state: BarState) -> Nats:
    """At a bar line, favour by :data:`RETURN_GAIN` nats the repetition of a bar that lies a number
    of bars in :data:`RETURN_BARS` before."""
    if state.at_repeat:
        first = state.ids["section"].start + REPEATS - 1
        yield slice(first + RETURN_BARS.start, first + RETURN_BARS.stop), RETURN_GAIN


def bar_repetition(state: BarState) -> Nats:
    """Favour the next id of a copied bar by :data:`REPEAT_GAIN` nats. A bar whose bar line names an
    earlier bar copies that bar's places, parts and pitches; any other bar copies the places and
    parts of the bar before. After the last group of the copied bar the next bar line is favoured.
    """
    if state.in_line:
        return
    back = state.bars[-1].back
    fields = REPEATED if back else RHYTHM
    token = state.continued(state.earlier(back or 1), fields, state.ids["bar"].start)
    if token is not None:
        yield token, REPEAT_GAIN


class SectionContrast:
    """A bias against the chords and pitch classes of earlier sections at the same place, which also
    forbids bars that repeat a bar from before the new section.

    stream  the piece so far
    begins  the number of the first bar of each earlier section of ``bars`` bars
    here    the number of the first bar of the new section, where a pick-up does not count as a bar
    pickup  steps of the pick-up, 0 for none
    steps   steps of a bar: all bars but the pick-up are equally long
    drums   whether drum strokes are to differ, too
    lines   how many bar lines precede that of the bar ``here``
    """

    def __init__(
        self,
        stream: NoteStream,
        begins: Sequence[int],
        bars: int,
        here: int,
        *,
        pickup: int = 0,
        steps: int,
        drums: bool,
        lines: int,
    ) -> None:
        self.lines, self.pickup, self.steps, self.drums = lines, pickup, steps, drums
        #: (bars, sixteenths, 12): pitch classes; (bars, steps): the root in force, -1 for none.
        self.pitches = np.zeros((bars, -(-steps // SIXTEENTH), 12), bool)
        self.roots = np.full((len(begins), bars * steps), -1)
        self.here = here
        for number, begin in enumerate(begins):
            first = int(stream.lines[max(begin, 0)]) + min(begin, 0) * steps
            since = stream.notes["start"] - first
            inside = (since >= 0) & (since < bars * steps)
            notes, since = stream.notes[inside], since[inside]
            counts = (notes["part"] != CHORD) & ((notes["part"] != DRUM_PART) | drums)
            bar, place = np.divmod(since[counts], steps)
            self.pitches[bar, place // SIXTEENTH, notes["pitch"][counts] % 12] = True
            for step, note in zip(since, notes):
                if note["part"] == CHORD:
                    self.roots[number, step:] = note["pitch"]

    def __call__(self, state: BarState) -> Nats:
        if state.at_repeat:
            ids, first = state.ids["section"], REPEATS + max(state.lines - self.lines, 0)
            # Repetitions from so many bars ago on would be of another section.
            yield slice(ids.start + first, ids.stop), -np.inf
        bar = (state.bars[-1].begin - self.pickup) // self.steps - self.here
        if len(state.group) != 2 or state.in_line or not 0 <= bar < len(self.pitches):
            return
        kind = {CHORD: "root", DRUM_PART: "drum"}.get(state.part, "pitch")
        tones, place = state.table.value_of[state.ids[kind]], state.place
        if state.part == CHORD:
            same = np.isin(tones, self.roots[:, bar * self.steps + place])
            yield state.ids[kind], -SAME_ROOT * same
        elif state.part != DRUM_PART or self.drums:
            sixteenth = min(place, self.steps - 1) // SIXTEENTH
            yield state.ids[kind], -SAME_PITCH * self.pitches[bar, sixteenth][tones % 12]


# ------------------------------------------------------------------- too much and too little


class BarFeedback:
    """A bias towards target levels of ``density``, ``polyphony``, ``register`` and ``loudness``, in
    the units of the controls. The present levels are measured on the notes of ``parts``, of all
    parts by default, that began in the last :data:`WINDOW_SECONDS` of the tokens. If a level is too
    high (too low: with the opposite sign):

    density    a new note costs :data:`ASKED_GAIN` nats for each note a second too many, less the
               later the note begins, and a bar line gains nats by the time until it. With chords,
               the first place of an empty bar costs nothing, since its chord stands there
    polyphony  a note costs more the longer it is; if no notes are ``given``, new notes also cost,
               and bar lines gain, as for the density
    register   a note costs more the higher it is
    loudness   a note costs more the louder it is
    """

    def __init__(
        self,
        tokenizer: BarTokenizer,
        targets: Mapping[str, float],
        *,
        given: bool,
        parts: Collection[int] | None = None,
    ) -> None:
        self.targets, self.given, self.parts = targets, given, parts
        self.chords, table = tokenizer.chords, tokenizer.vocabulary
        length, pitch = (slice(*table.range(kind)) for kind in ("length", "pitch"))
        self.octaves = np.log2(table.value_of[length] / STEPS)
        self.pitches = table.value_of[pitch]
        self.velocity = Velocities(tokenizer.velocity_bins).of_bin[1:]

    def __call__(self, state: BarState) -> Nats:
        span = min(max(state.seconds, 1.0), WINDOW_SECONDS)
        recent, field = [*state.recent(span, self.parts)], len(state.group)
        at_once = sum(note.length for note in recent) / PER_SECOND / span
        target = self.targets.get(CONTROLS_OF.get(field, ""))
        if field < 2:
            yield from self._time(state, at_once, len(recent) / span)
        elif field == 2 and target:
            pitches = [note.tone for note in recent if note.part != DRUM_PART]
            if pitches:
                error = REGISTER_GAIN * (float(np.mean(pitches)) - target) / 12
                yield state.ids["pitch"], -error * (self.pitches - target) / 12
        elif field == 3 and target:
            yield state.ids["length"], -LENGTH_GAIN * (at_once - target) * self.octaves
        elif field == 4 and target and recent:
            velocities = self.velocity[[note.velocity_bin - 1 for note in recent]]
            error = LOUDNESS_GAIN * (velocities.mean() - target) / 10
            yield state.ids["velocity"], -error * (self.velocity - target) / 10

    def _time(self, state: BarState, at_once: float, rate: float) -> Nats:
        """The feedback on density and polyphony, where the next id is a place or a part."""
        crowd, target = 0.0, self.targets.get("polyphony")
        if target and not self.given:
            crowd = CROWD_GAIN * float(np.log2(max(at_once, 0.5) / target))
        target = self.targets.get("density")
        error = ASKED_GAIN * (rate - target) if target else 0.0
        if state.group:
            yield state.ids["program"], -(crowd + error)
            yield state.ids["drums"], -error
            return
        places, bar = state.ids["place"], state.bars[-1]
        waits = (np.arange(places.stop - places.start) - state.place) * STEP_SECONDS
        nats = (error + crowd) * (1.0 - np.clip(waits, 0.0, 1.0))
        nats[0] *= not (self.chords and not bar.groups)
        yield places, -nats
        wait = (bar.steps - state.place) * STEP_SECONDS
        yield state.ids["bar"], (error + crowd) * min(wait, 1.0)


def lacking_parts(state: BarState, least: Mapping[int, float], from_start: bool = False) -> Nats:
    """Favour parts that have fewer notes than ``least`` (part -> notes) in the last
    :data:`PART_SECONDS`. With ``from_start``, for a new piece, ``least`` is reduced in proportion
    until the piece has lasted so long."""
    if len(state.group) > 1:
        return
    passed = min(state.seconds / PART_SECONDS, 1.0) if from_start else 1.0
    lacks = {part: passed * notes for part, notes in least.items() if passed * notes > 0}
    for note in state.recent(PART_SECONDS):
        if not lacks:
            return
        if note.part in lacks:
            lacks[note.part] -= 1
            if lacks[note.part] <= 0:
                del lacks[note.part]
    yield from favour_parts(state, lacks)


def favour_parts(state: BarState, lacks: Mapping[int, float]) -> Nats:
    """Favour each part by :data:`PART_GAIN` nats for each note that it ``lacks``, and places by as
    much as the part that lacks most."""
    if not state.group:
        yield state.ids["place"], PART_GAIN * max(lacks.values(), default=0.0)
        return
    for part, lack in lacks.items():
        yield part_id(state.table, part), PART_GAIN * lack
