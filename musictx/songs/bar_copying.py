"""Bars repeat: one of a section ago, note by note; others keep a rhythm; new sections differ.

Each is a bias of the state of a piece (:mod:`musictx.songs.biases`). Around given notes see
:func:`musictx.songs.infill_biases.as_in_repeated_bar`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.songs.bar_codec import REPEATS
from musictx.songs.bar_grammar import REPEATED, RHYTHM, BarState
from musictx.songs.biases import Nats
from musictx.songs.strengths import (
    REPEAT_GAIN,
    RETURN_BARS,
    RETURN_GAIN,
    SAME_PITCH,
    SAME_ROOT,
)
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS, NoteStream

#: Steps in a sixteenth.
SIXTEENTH = STEPS // 4


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
