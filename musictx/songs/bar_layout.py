"""The layout of windows of music in bars, with given notes ahead of the bars that are composed.

::

    bos|cut  stream density loudness register polyphony  P  [parts]  ahead  bar  ahead  bar ...

The group ``stream`` has the levels of the controls. The groups of the piece follow, bar after bar.
From the first bar on in which something is to be composed, groups *ahead* stand before bar lines.
They hold the given notes of the bars to come::

    known  numerator  denominator  section  place    a bar, with the fields of its bar line; its
                                                     given notes and chords follow. Section 1: all
                                                     notes of the bar are given; section 2: the
                                                     given notes are those that this bar varies
    known  program    none  none  none               a part that is to be composed, or ``drums`` or
                                                     ``harmony`` in place of the program. Without
                                                     such groups any part may be composed

The parts and the next ``look`` bars precede the first such bar; each further bar is preceded by the
bar that then comes into reach. Given notes are written again in the piece, which is complete
without the groups ahead. The model is free to replace notes that are varied.

Related: the anticipation of Thickstun et al. 2023, in bars instead of seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musictx.songs.bar_codec import FIELDS_PER_NOTE, part_id, write
from musictx.tokens.controls import CONTROLS, KNOWN, STREAM
from musictx.tokens.stream import NoteStream
from musictx.tokens.vocab import Vocabulary

#: The most bars after a gap that are given.
TAIL_BARS = 8
#: The section of a bar ahead whose notes are all given, and of one that varies its given notes.
WHOLE, VARIED = 1, 2


@dataclass(frozen=True)
class GivenAhead:
    """The given notes of bars that are to be composed.

    begin   number of the first of these bars
    stop    number of the bar after the last one with given notes
    look    how many bars the model looks ahead, with the next bar
    given   (n,) notes and chords (:data:`musictx.tokens.stream.STREAM_NOTE`), in order
    sections  (B,) of each bar: :data:`WHOLE` where nothing is composed in it, :data:`VARIED` where
            its given notes are those of another bar, else 0
    parts   the parts to compose: programs, ``CHORD``, ``DRUMS``; empty for any part
    """

    begin: int
    stop: int
    look: int
    given: np.ndarray
    sections: np.ndarray
    parts: Sequence[int] = ()


def control_prefix(table: Vocabulary, levels: Sequence[int]) -> np.ndarray:
    """(5,) ids: the group of the controls with these ``levels``, 0 for any level."""
    ids = [table.id(name, value) for name, value in zip(CONTROLS, levels)]
    return np.array([table.id(STREAM), *ids], np.int64)


def by_bar(ids: np.ndarray, first: int) -> list[np.ndarray]:
    """Split ``ids`` into bars, each (n, 5); ``first`` is the id that begins a bar line."""
    groups = ids.reshape(-1, FIELDS_PER_NOTE).astype(np.int64)
    lines = np.flatnonzero(groups[:, 0] == first)
    return [groups[begin:stop] for begin, stop in zip(lines, [*lines[1:], len(groups)])]


def groups_ahead(bars: np.ndarray, ahead: GivenAhead, table: Vocabulary) -> list[np.ndarray]:
    """The (n, 5) groups ahead that stand before each bar from ``ahead.begin`` on."""
    given = NoteStream(bars, ahead.given).in_bars(ahead.begin, ahead.stop)
    of_bars = by_bar(write(given, table), table.id("bar"))
    section = table.range("section")[0]
    for bar, value in zip(of_bars, ahead.sections[ahead.begin : ahead.stop]):
        bar[0, 0], bar[0, 3] = table.id(KNOWN), section + value
    none = table.id("none")
    parts = [[table.id(KNOWN), part_id(table, part), none, none, none] for part in ahead.parts]
    opening = np.array(parts, np.int64).reshape(-1, FIELDS_PER_NOTE)
    look = max(ahead.look, 1)
    return [np.concatenate([opening, *of_bars[:look]]), *of_bars[look:]]


def interleaved(
    stream: NoteStream,
    ahead: GivenAhead | None,
    table: Vocabulary,
    first: int = 0,
    stop: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The window of the bars from ``first`` to before ``stop``, all of them by default: (n,) ids,
    and which of them are the piece, bool."""
    bars = by_bar(write(stream.in_bars(first, stop), table), table.id("bar"))
    before: dict[int, np.ndarray] = {}
    if ahead is not None:
        before = dict(enumerate(groups_ahead(stream.bars, ahead, table), ahead.begin))
    rows, piece = [], []
    for number, bar in enumerate(bars, first):
        for groups, of_piece in ((before.get(number), False), (bar, True)):
            if groups is not None and len(groups):
                rows.append(groups)
                piece.append(np.full(len(groups), of_piece))
    if not rows:
        return np.empty(0, np.int64), np.empty(0, bool)
    return np.concatenate(rows).reshape(-1), np.repeat(np.concatenate(piece), FIELDS_PER_NOTE)
