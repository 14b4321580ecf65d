"""Bars repeat: one of a section ago, note by note; parts keep their rhythm, new sections differ.

Each is a bias of the state of a piece (:mod:`musictx.songs.biases`). Around given notes see
:func:`musictx.songs.infill_biases.as_in_repeated_bar`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.songs.bar_codec import REPEATS, part_id
from musictx.songs.bar_grammar import Bar, BarState
from musictx.songs.biases import Nats
from musictx.songs.strengths import (
    LEFT_OUT,
    NEW_ONSET,
    REPEAT_GAIN,
    RETURN_BARS,
    RETURN_GAIN,
    SAME_PITCH,
    SAME_ROOT,
)
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS, NoteStream

#: Steps in a sixteenth.
SIXTEENTH = STEPS // 4
#: The bars before the present one in which the rhythm of parts is compared.
RHYTHM_BARS = 4


def bar_return(state: BarState) -> Nats:
    """A bar line that says that its bar repeats one as many bars ago as :data:`RETURN_BARS` has
    gains :data:`RETURN_GAIN` nats."""
    if state.at_repeat:
        first = state.ids["section"].start + REPEATS - 1
        yield slice(first + RETURN_BARS.start, first + RETURN_BARS.stop), RETURN_GAIN


def bar_repetition(state: BarState) -> Nats:
    """In a bar that repeats an earlier one, as its bar line says, what came next in that bar gains
    :data:`REPEAT_GAIN` nats: a place, part and pitch, or the next bar line."""
    if not state.in_line:
        token = state.continued(state.bars[-1].back, state.ids["bar"].start)
        if token is not None:
            yield token, REPEAT_GAIN


def rhythm_consistency(state: BarState) -> Nats:
    """What parts do that have played in each of the last :data:`RHYTHM_BARS` bars, all as long as
    this one: a note costs :data:`NEW_ONSET` where its part struck in none of them, and so does a
    place where no such part did, but at the beginning and the middle of the bar, where chords
    stand; what passes over a place costs :data:`LEFT_OUT` for each part that struck there in all of
    them."""
    if len(state.group) > 1 or state.in_line or len(state.bars) <= RHYTHM_BARS:
        return
    *before, bar = list(state.bars)[-RHYTHM_BARS - 1 :]
    onsets = [_onsets(one) for one in before if one.steps == bar.steps]
    parts = set.intersection(*({part for _, part in some} for some in onsets)) if onsets else set()
    if len(onsets) < RHYTHM_BARS or not parts:
        return
    usual = {one for one in set.union(*onsets) if one[1] in parts}
    common = {0, bar.steps // 2} | {at for at, _ in usual}
    if state.group:
        if state.place in common:
            for part in parts:
                if (state.place, part) not in usual:
                    yield part_id(state.table, part), -NEW_ONSET
        return
    places = state.ids["place"]
    passed = np.zeros(places.stop - places.start + 1)
    for at, part in set.intersection(*onsets) - _onsets(bar):
        if part in parts and (at, part) > state.last[:2]:
            passed[at + 1] += LEFT_OUT
    passed = np.cumsum(passed)
    new = np.full(len(passed) - 1, NEW_ONSET)
    new[[*common, state.place]] = 0.0
    yield places, -passed[:-1] - new
    yield state.ids["bar"].start, -passed[-1]


def _onsets(bar: Bar) -> set[tuple[int, int]]:
    """(place, part) of the notes that begin in a bar."""
    return {one.key[:2] for one in bar.groups if one.velocity_bin}


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
