"""What returns and what differs, in bars: sparse penalties (:mod:`.penalties`).

Bars repeat the bars that their lines name (:func:`as_in_earlier_bar`), and lines name bars of a
section ago (:func:`bar_return`). A new section differs from earlier ones
(:func:`section_contrast`), a version from another one (:func:`unlike_other_version`), and a tune
or an accompaniment does not stay on one pitch (:func:`same_pitch`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np

from musictx.notes import DRUMS
from musictx.sampling.constraints import Penalty
from musictx.sampling.strengths import REPETITION_GAIN, REPETITION_STRIKES
from musictx.songs.bar_codec import REPEATS
from musictx.songs.bar_constraint import BarRow
from musictx.songs.bar_grammar import BarState, GroupKey
from musictx.songs.penalties import Nats
from musictx.songs.repeats import repeated
from musictx.songs.strengths import REPEAT_GAIN, RETURN_BARS, RETURN_GAIN, SAME_PITCH, SAME_ROOT
from musictx.tokens.stream import CHORD, STEPS, NoteStream

#: Steps in a sixteenth.
SIXTEENTH = STEPS // 4


def bar_return(row: Any) -> Nats:
    """At a bar line, favour by :data:`RETURN_GAIN` nats the repetition of a bar that lies a number
    of bars in :data:`RETURN_BARS` before."""
    if row.state.at_repeat:
        first = row.state.ids["section"].start + REPEATS - 1
        yield slice(first + RETURN_BARS.start, first + RETURN_BARS.stop), -RETURN_GAIN


def same_pitch(row: Any, parts: Collection[int], target: float) -> Nats:
    """Penalise the last pitch of each of ``parts``, as :func:`.event_idiom.repetition` does for
    events: by :data:`REPETITION_GAIN` nats for each note among its last
    :data:`REPETITION_STRIKES` that has the pitch of the one before, in excess of the share
    ``target``."""
    state = row.state
    if len(state.group) != 2 or state.part not in parts:
        return
    latest = islice(state.recent(np.inf, {state.part}), REPETITION_STRIKES)
    tones = [group.tone for group in latest]
    repeated = sum(one == other for one, other in pairwise(tones))
    nats = REPETITION_GAIN * (repeated - target * len(tones))
    if nats > 0:
        yield state.table.id("pitch", tones[0]), nats


def as_in_earlier_bar(
    row: Any,
    back: np.ndarray | None = None,
    steady: bool = False,
    melodies: Collection[int] = (),
) -> Nats:
    """Favour by :data:`REPEAT_GAIN` nats the next id of a copy of an earlier bar: its places, parts
    and pitches, and after its last group the end of the bar. Around given notes, the next given
    note is favoured if it precedes.

    back    (B,) for each bar, how many bars before it the bar lies that it copies, 0 for none;
            ``None``: the bar that its line names
    steady  a bar that copies none copies the rhythm of the bar before: places and parts, but not of
            ``melodies``, nor of the given notes of that bar if it was composed from its beginning
    """
    state, count = row.state, len(row.state.group)
    distance = state.bars[-1].back if back is None else int(back[row.bar])
    fields = 3 if distance else 2  # place, part and tone, or the rhythm: place and part
    bars_back = distance or 1
    if state.in_line or not (distance or steady) or count >= fields or bars_back >= len(state.bars):
        return
    like, end = state.bars[-1 - bars_back].groups, state.ids["bar"].start
    if not distance:
        before = row.bar - 1
        like = [group for group in like if group.part not in melodies]
        if row.given.lines[before] >= row.new.begin:
            like = [group for group in like if group not in row.given.groups[before]]
    if not like:
        return
    if isinstance(row, BarRow):
        like, end = [*like, *row.remaining[:1]], row.bar_end()
    after = [group for group in like if group.key > state.last]
    ids = min(after, key=lambda group: group.key).ids if after else [end]
    if count < len(ids) and ids[:count] == state.group:
        yield ids[count], -REPEAT_GAIN


def repeated_bars(given: NoteStream) -> np.ndarray:
    """(B,) for each bar, how many bars before it the bar lies that it repeats, 0 for none, judged
    by the ``given`` notes without the chords (:func:`.repeats.repeated`)."""
    return repeated(given._replace(notes=given.notes[given.notes["part"] != CHORD]))


def unlike_other_version(row: BarRow, notes: Collection[tuple[int, GroupKey]], nats: float) -> Nats:
    """Penalise by ``nats`` the ``notes`` of another version, given by bar and key."""
    if len(row.state.group) != 2:
        return
    place, part = row.state.place, row.state.part
    kind = row.new.kind(part)
    for token, tone in enumerate(row.table.values_in(kind).tolist(), row.state.ids[kind].start):
        if (row.bar, (place, part, tone)) in notes:
            yield token, nats


def section_contrast(
    stream: NoteStream, begins: Sequence[int], here: int, bars: int, *, steps: int, drums: bool
) -> Penalty:
    """The penalty on the chords and pitch classes of earlier sections at the same place. It also
    forbids bars that repeat a bar from before the new section.

    stream  the piece so far
    begins  the step at which each earlier section of ``bars`` bars begins, which may lie before the
            first bar of the stream
    here    the step at which the new section begins
    steps   steps of a bar: all bars but a pick-up are equally long
    drums   whether drum strokes are to differ, too
    """
    lines = int(np.searchsorted(stream.lines, here))
    # (bars, sixteenths, 12): pitch classes; (bars, steps): the root in force, -1 for none.
    pitches = np.zeros((bars, -(-steps // SIXTEENTH), 12), bool)
    roots = np.full((len(begins), bars * steps), -1)
    for of_section, begin in zip(roots, begins):
        since = stream.notes["start"] - begin
        inside = (since >= 0) & (since < bars * steps)
        for step, (_, part, tone, *_) in zip(since[inside], stream.notes[inside].tolist()):
            if part == CHORD:
                of_section[step:] = tone
            elif part != DRUMS or drums:
                bar, place = divmod(step, steps)
                pitches[bar, place // SIXTEENTH, tone % 12] = True

    def costs(state: BarState) -> Nats:
        if state.at_repeat:
            ids, first = state.ids["section"], REPEATS + max(state.lines - lines, 0)
            # Repetitions from so many bars ago on would be of another section.
            yield slice(ids.start + first, ids.stop), np.inf
        bar = (state.bars[-1].begin - here) // steps
        if len(state.group) != 2 or state.in_line or not 0 <= bar < bars:
            return
        kind = {CHORD: "root", DRUMS: "drum"}.get(state.part, "pitch")
        tones, place = state.table.values_in(kind), state.place
        if state.part == CHORD:
            yield state.ids[kind], SAME_ROOT * np.isin(tones, roots[:, bar * steps + place])
        elif state.part != DRUMS or drums:
            sixteenth = min(place, steps - 1) // SIXTEENTH
            yield state.ids[kind], SAME_PITCH * pitches[bar, sixteenth][tones % 12]

    def penalty(states: Sequence[Any], past: np.ndarray) -> np.ndarray:
        total = np.zeros((len(states), states[0].table.size))
        for row, state in zip(total, states):
            for ids, nats in costs(state):
                row[ids] += nats
        return total

    return penalty
