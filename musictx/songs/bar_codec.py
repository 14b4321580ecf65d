"""Notes in bars <-> five ids each (:mod:`musictx.songs.bar_tokens`), and the layout of windows with
given notes ahead of the bars that are composed.

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

from musictx.notes import DRUMS
from musictx.songs.repeats import FARTHEST_BARS, repeated
from musictx.tokens.controls import CONTROLS, KNOWN, STREAM
from musictx.tokens.stream import BAR, CHORD, STEPS, STREAM_NOTE, NoteStream
from musictx.tokens.vocab import SPECIALS, Vocabulary

#: Ids of a note, a chord or a bar line.
FIELDS_PER_NOTE = 5
#: The greatest length that can be written, in steps; longer notes are divided.
LONGEST = 8 * STEPS
#: The length in steps of a decoded drum stroke.
DRUM_STEPS = STEPS // 4
#: The field of a bar line that names the repeated bar, and the least value that names one: 0 means
#: no repeat, REPEATS the bar before, REPEATS + 1 two bars before, and so on. The values 1 and 2
#: are :data:`WHOLE` and :data:`VARIED`.
REPEAT_FIELD, REPEATS = 3, 3
SECTIONS = REPEATS + FARTHEST_BARS
#: The most bars after a gap that are given.
TAIL_BARS = 8
#: The section of a bar ahead whose notes are all given, and of one that varies its given notes.
WHOLE, VARIED = 1, 2
#: Groups -> the kinds of their ids. A tie lengthens a note.
LINE = ("bar", "numerator", "denominator", "section", "place")
TIE = ("place", "program", "pitch", "length", "tie")
NOTE = ("place", "program", "pitch", "length", "velocity")
STROKE = ("place", "drums", "drum", "none", "velocity")
SYMBOL = ("place", "harmony", "root", "quality", "none")
#: The kinds of ids of the parts that are no programs.
NAMED_PARTS = {CHORD: "harmony", DRUMS: "drums"}
PARTS_NAMED = {kind: part for part, kind in NAMED_PARTS.items()}


def part_id(table: Vocabulary, part: int) -> int:
    """The id of ``part``, the second of a group; a part is a program, :data:`CHORD` or
    :data:`DRUMS`."""
    return table.id(NAMED_PARTS[part]) if part in NAMED_PARTS else table.id("program", part)


def part_of(table: Vocabulary, ids: Sequence[int]) -> int:
    """The part of a group, from its ids."""
    kind, value = table.tokens[ids[1]]
    return PARTS_NAMED.get(kind, value)


def section_of(distance: np.ndarray) -> np.ndarray:
    """The value of the field ``section`` of bars that repeat the bar ``distance`` bars before them,
    0 for none."""
    return np.where(distance, REPEATS - 1 + distance, 0)


def write(stream: NoteStream, table: Vocabulary) -> np.ndarray:
    """The ids of ``stream``, (n,) uint16. Raises ``ValueError`` for a value that the vocabulary
    does not have, or a note outside all bars."""
    bars, notes, bar = stream.bars, stream.notes, stream.bar
    if len(notes) and not 0 <= bar.min() <= bar.max() < len(bars):
        raise ValueError(f"notes: expected in bars 0 to {len(bars) - 1}")
    sections = section_of(repeated(stream))
    line = (0 * sections, bars["numerator"], bars["exponent"], sections, bars["early_end"])
    chord, drum = notes["part"] == CHORD, notes["part"] == DRUMS
    pitched, tie = ~chord & ~drum, notes["velocity_bin"] == 0
    rows = np.empty((len(notes), FIELDS_PER_NOTE), np.int64)
    values = (
        notes["start"] - stream.lines[bar],
        np.where(pitched, notes["part"], 0),
        notes["pitch"],
        np.where(drum, 0, notes["length"]),
        np.where(chord, 0, notes["velocity_bin"]),
    )
    kinds = ((TIE, pitched & tie), (NOTE, pitched & ~tie), (STROKE, drum), (SYMBOL, chord))
    for kind, chosen in kinds:
        rows[chosen] = _ids(table, kind, [column[chosen] for column in values])
    groups = np.concatenate([_ids(table, LINE, line), rows])
    rank = np.concatenate([np.arange(len(bars)) * 2, bar * 2 + 1])  # a line precedes its notes
    ids: np.ndarray = groups[np.argsort(rank, kind="stable")].astype(np.uint16).reshape(-1)
    return ids


def _ids(table: Vocabulary, kinds: Sequence[str], values: Sequence[np.ndarray]) -> np.ndarray:
    """(n, 5) the ids of groups of these ``kinds``, from their ``values`` by field, (n,) each."""
    return np.stack([table.ids(kind, column) for kind, column in zip(kinds, values)], 1)


def read(ids: np.ndarray | Sequence[int], table: Vocabulary) -> NoteStream:
    """Decode ``ids``, whatever their order, to bars and notes. Invalid groups of five ids, groups
    before the first bar line and groups ahead are skipped. Raises
    ``ValueError`` for ids that the vocabulary does not have."""
    ids = table.as_ids(ids)
    content = ids[ids >= len(SPECIALS)]
    whole = content[: len(content) // FIELDS_PER_NOTE * FIELDS_PER_NOTE]
    rows = whole.reshape(-1, FIELDS_PER_NOTE)
    names = np.array(table.kinds)[table.kind_of[rows]]
    value = table.value_of[rows]
    is_bar, tie, note, drum, chord = (
        (names == kinds).all(1) for kinds in (LINE, TIE, NOTE, STROKE, SYMBOL)
    )
    bar = np.cumsum(is_bar) - 1
    is_ahead = names[:, 0] == KNOWN
    opened = np.maximum.accumulate(np.where(is_bar | is_ahead, np.arange(len(rows)), 0))
    in_piece = ~is_ahead[opened] if len(rows) else is_ahead
    bars = np.zeros(int(is_bar.sum()), BAR)
    for name, field in (("numerator", 1), ("exponent", 2), ("early_end", 4)):
        bars[name] = value[is_bar, field]
    used = (tie | note | drum | chord) & (bar >= 0) & in_piece
    value, bar, chord, drum = (column[used] for column in (value, bar, chord, drum))
    notes = np.zeros(len(value), STREAM_NOTE)
    notes["start"] = NoteStream(bars, notes).lines[bar] + value[:, 0]
    notes["part"] = np.select([chord, drum], [CHORD, DRUMS], value[:, 1])
    for name, field in (("pitch", 2), ("length", 3), ("velocity_bin", 4)):  # none and tie are 0
        notes[name] = value[:, field]
    return NoteStream(bars, notes)


# ------------------------------------------------------------------- windows with notes ahead


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


def by_bar(ids: np.ndarray, table: Vocabulary) -> list[np.ndarray]:
    """Split ``ids`` into bars, each (n, 5)."""
    groups = ids.reshape(-1, FIELDS_PER_NOTE).astype(np.int64)
    lines = np.flatnonzero(groups[:, 0] == table.id("bar"))
    return [groups[begin:stop] for begin, stop in zip(lines, [*lines[1:], len(groups)])]


def groups_ahead(bars: np.ndarray, ahead: GivenAhead, table: Vocabulary) -> list[np.ndarray]:
    """The (n, 5) groups ahead that stand before each bar from ``ahead.begin`` on."""
    given = NoteStream(bars, ahead.given).in_bars(ahead.begin, ahead.stop)
    of_bars = by_bar(write(given, table), table)
    section = table.range("section")[0]
    for bar, value in zip(of_bars, ahead.sections[ahead.begin : ahead.stop]):
        bar[0, 0], bar[0, 3] = table.id(KNOWN), section + value
    none = table.id("none")
    parts = [[table.id(KNOWN), part_id(table, part), none, none, none] for part in ahead.parts]
    opening = np.array(parts, np.int64).reshape(-1, FIELDS_PER_NOTE)
    return [np.concatenate([opening, *of_bars[: ahead.look]]), *of_bars[ahead.look :]]


def interleaved(
    stream: NoteStream,
    ahead: GivenAhead | None,
    table: Vocabulary,
    first: int = 0,
    stop: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The window of the bars from ``first`` to before ``stop``, all of them by default: (n,) ids,
    and which of them are the piece, bool."""
    bars = by_bar(write(stream.in_bars(first, stop), table), table)
    none = np.empty((0, FIELDS_PER_NOTE), np.int64)
    before: dict[int, np.ndarray] = {}
    if ahead is not None:
        before = dict(enumerate(groups_ahead(stream.bars, ahead, table), ahead.begin))
    rows = [
        groups
        for number, bar in enumerate(bars, first)
        for groups in (before.get(number, none), bar)
    ]
    sizes = np.array([groups.size for groups in rows], int)
    of_piece = np.repeat(np.arange(len(rows)) % 2 == 1, sizes)
    return np.concatenate([none, *rows]).reshape(-1), of_piece
