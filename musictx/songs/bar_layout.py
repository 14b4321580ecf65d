"""Windows of music in bars of which some is known ahead; see :mod:`musictx.songs.bar_tokens`.

::

    bos|cut  stream density loudness register polyphony  P  [parts]  ahead  bar  ahead  bar ...

The group ``stream`` says by levels what the music of the window is like. The other groups are the
piece, bar after bar. From the bar on in which something is to be composed, groups *ahead* stand
before bar lines, and say what is known of the bars to come::

    known  numerator  denominator  section  place    a bar, as its bar line says it; the notes and
                                                     chords known of it follow. Section 1: all of
                                                     it; section 2: those of another bar, which
                                                     this one varies
    known  program    none  none  none               a part that is to be composed; drums, harmony
                                                     alike. Where there is none, any may be

Before the first such bar stand the parts and the bars ahead up to ``look`` bars, before each
further one the bar that comes into sight then. What is known is written once more where it belongs,
so the piece is whole without the groups ahead; what is varied is written as the model likes.

Related: the anticipation of Thickstun et al. 2023, in bars instead of seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musictx.songs.bar_codec import FIELDS_PER_NOTE, write
from musictx.tokens.controls import CONTROLS, KNOWN, STREAM
from musictx.tokens.stream import CHORD, DRUM_PART, NoteStream
from musictx.tokens.vocab import Vocabulary

#: Bars after a gap that are given at most; bars that an accompaniment looks ahead when it is
#: composed.
TAIL_BARS = LOOKAHEAD_BARS = 8
#: The section of a bar ahead of which all is known, and of one that varies what is known of it.
WHOLE, VARIED = 1, 2


@dataclass(frozen=True)
class Lookahead:
    """What is known of bars that are to be composed.

    begin   number of the first of them;  stop  of the first bar after those of which anything is
            known
    look    of how many bars that stands, from the one on that comes next
    known   (n,) the notes and chords that are known (:data:`musictx.tokens.stream.NOTE`), in order
    sections  (B,) of each bar :data:`WHOLE`, where nothing is composed in it, :data:`VARIED`, where
            its known notes are those of another bar, or 0
    parts   what is to be composed: programs, :data:`CHORD`, :data:`DRUM_PART`; empty: anything
    """

    begin: int
    stop: int
    look: int
    known: np.ndarray
    sections: np.ndarray
    parts: Sequence[int] = ()


def control_prefix(table: Vocabulary, levels: Sequence[int]) -> np.ndarray:
    """(5,) ids: the group of the controls with these levels, 0 for any."""
    ids = [table.id(name, value) for name, value in zip(CONTROLS, levels)]
    return np.array([table.id(STREAM), *ids], np.int64)


def by_bar(ids: np.ndarray, first: int) -> list[np.ndarray]:
    """Ids -> (n, 5) those of each bar; ``first`` is the first id of a bar line."""
    groups = ids.reshape(-1, FIELDS_PER_NOTE).astype(np.int64)
    lines = np.flatnonzero(groups[:, 0] == first)
    return [groups[a:b] for a, b in zip(lines, [*lines[1:], len(groups)])]


def groups_ahead(bars: np.ndarray, ahead: Lookahead, table: Vocabulary) -> list[np.ndarray]:
    """The (n, 5) groups ahead that stand before each bar from ``ahead.begin`` on."""
    known = NoteStream(bars, ahead.known).in_bars(ahead.begin, ahead.stop)
    of_bars = by_bar(write(known, table), table.id("bar"))
    section = table.range("section")[0]
    for bar, value in zip(of_bars, ahead.sections[ahead.begin : ahead.stop]):
        bar[0, 0], bar[0, 3] = table.id(KNOWN), section + value
    none = table.id("none")
    named = {CHORD: "harmony", DRUM_PART: "drums"}
    ids = [table.id(named[p]) if p in named else table.id("program", p) for p in ahead.parts]
    parts = [[table.id(KNOWN), part, none, none, none] for part in ids]
    opening = np.array(parts, np.int64).reshape(-1, FIELDS_PER_NOTE)
    look = max(ahead.look, 1)
    return [np.concatenate([opening, *of_bars[:look]]), *of_bars[look:]]


def interleaved(
    stream: NoteStream,
    ahead: Lookahead | None,
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
