"""What makes ids likelier or rarer in music in bars, as functions of its state.

A bias yields ids and the nats that are added to their logits. Bars repeat: one of a section ago,
note by note; others keep a rhythm; new sections differ. What the last seconds are too much of
makes ids rarer, as :mod:`musictx.sampling.penalties` does for events. Biases around given notes are
in :mod:`.infill_biases`.
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
#: What the third to the fifth id of a group in bars are of.
CONTROLS_OF = {2: "register", 3: "polyphony", 4: "loudness"}
#: Ids and the nats that are added to their logits.
Nats = Iterator[tuple[slice | int, np.ndarray | float]]
#: A bias of music in bars.
Bias = Callable[[BarState], Nats]


def penalty_of(table: Vocabulary, *biases: Bias) -> RowPenalty:
    """The penalty of one row that takes off the sum of its ``biases``."""
    return lambda state, past: taken_off(table, (bias(state) for bias in biases))  # type: ignore


def taken_off(table: Vocabulary, gains: Iterable[Nats]) -> np.ndarray | None:
    """(V,) the sum of all ``gains``, as nats that are taken off; ``None`` if there are none."""
    nats = None
    for some in gains:
        for ids, gain in some:
            nats = np.zeros(table.size) if nats is None else nats
            nats[ids] -= gain
    return nats


# ------------------------------------------------------------------------------- what repeats


def bar_return(state: BarState) -> Nats:
    """A bar line that says that its bar repeats one as many bars ago as :data:`RETURN_BARS` has
    gains :data:`RETURN_GAIN` nats."""
    if state.at_repeat:
        first = state.ids["section"].start + REPEATS - 1
        yield slice(first + RETURN_BARS.start, first + RETURN_BARS.stop), RETURN_GAIN


def bar_repetition(state: BarState) -> Nats:
    """In a bar that repeats an earlier one, as its bar line says, what came next in that bar gains
    :data:`REPEAT_GAIN` nats: a place, part and pitch, or the next bar line; in a bar that repeats
    none a place and part of the bar before."""
    if state.in_line:
        return
    back = state.bars[-1].back
    fields = REPEATED if back else RHYTHM
    token = state.continued(state.earlier(back or 1), fields, state.ids["bar"].start)
    if token is not None:
        yield token, REPEAT_GAIN


class SectionContrast:
    """What the bars of earlier sections have at the same place costs, and none of them is repeated.

    stream  the piece so far
    begins  the first bar of each earlier section of ``bars`` bars
    here    that of the new one, not counting a bar before them of ``pickup`` steps, 0 for none
    steps   of a bar: all others are equally long
    drums   whether strokes of drums are to be others too
    lines   how many bar lines stand before that of the bar ``here``
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
            mine, since = stream.notes[inside], since[inside]
            note = (mine["part"] != CHORD) & ((mine["part"] != DRUM_PART) | drums)
            bar, place = np.divmod(since[note], steps)
            self.pitches[bar, place // SIXTEENTH, mine["pitch"][note] % 12] = True
            for at, one in zip(since, mine):
                if one["part"] == CHORD:
                    self.roots[number, at:] = one["pitch"]

    def __call__(self, state: BarState) -> Nats:
        if state.at_repeat:
            ids, mine = state.ids["section"], REPEATS + max(state.lines - self.lines, 0)
            yield slice(ids.start + mine, ids.stop), -np.inf  # from here on: of another section
        bar = (state.bars[-1].begin - self.pickup) // self.steps - self.here
        if len(state.group) != 2 or state.in_line or not 0 <= bar < len(self.pitches):
            return
        kind = {CHORD: "root", DRUM_PART: "drum"}.get(state.part, "pitch")
        tones, place = state.table.value_of[state.ids[kind]], state.place
        if state.part == CHORD:
            same = np.isin(tones, self.roots[:, bar * self.steps + place])
            yield state.ids[kind], -SAME_ROOT * same
        elif state.part != DRUM_PART or self.drums:
            at = min(place, self.steps - 1) // SIXTEENTH
            yield state.ids[kind], -SAME_PITCH * self.pitches[bar, at][tones % 12]


# ------------------------------------------------------------------- too much and too little


class BarFeedback:
    """``density``, ``polyphony``, ``register`` and ``loudness`` of notes in bars, in the units of
    the controls, over the notes of ``parts``, of all by default, that began in the last
    :data:`WINDOW_SECONDS` of the tokens; a bias.

    density    a new note costs :data:`ASKED_GAIN` nats for each note a second too many, and less
               the later it begins; a bar line gains as much for the time until then. The first
               place of an empty bar, where its chord stands, costs nothing
    polyphony  the longer a note, the more it costs where too many sound; where no notes are
               ``given`` a new one costs as well, and time that passes gains
    register   the higher a note, the more it costs where the music is too high
    loudness   the louder a note, the more it costs where the music is too loud
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
        at_once = sum(one.length for one in recent) / PER_SECOND / span
        target = self.targets.get(CONTROLS_OF.get(field, ""))
        if field < 2:
            yield from self._time(state, at_once, len(recent) / span)
        elif field == 2 and target:
            pitches = [one.tone for one in recent if one.part != DRUM_PART]
            if pitches:
                error = REGISTER_GAIN * (float(np.mean(pitches)) - target) / 12
                yield state.ids["pitch"], -error * (self.pitches - target) / 12
        elif field == 3 and target:
            yield state.ids["length"], -LENGTH_GAIN * (at_once - target) * self.octaves
        elif field == 4 and target and recent:
            loud = self.velocity[[one.velocity_bin - 1 for one in recent]]
            error = LOUDNESS_GAIN * (loud.mean() - target) / 10
            yield state.ids["velocity"], -error * (self.velocity - target) / 10

    def _time(self, state: BarState, at_once: float, rate: float) -> Nats:
        """Where a place, or the part at a place, comes next."""
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
    """Parts that have fewer than ``least`` (part -> notes within :data:`PART_SECONDS`): places, and
    the part itself, gain :data:`PART_GAIN` nats for each note that it lacks. ``from_start``: of a
    new piece, in proportion to its first seconds."""
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
    if not state.group:
        yield state.ids["place"], PART_GAIN * max(lacks.values(), default=0.0)
        return
    for part, lack in lacks.items():
        yield part_id(state.table, part), PART_GAIN * lack
