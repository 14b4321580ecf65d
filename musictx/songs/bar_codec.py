"""Notes in bars <-> five ids each (:mod:`musictx.songs.bar_tokens`), and the layout of windows with
given notes ahead of the bars that are composed::

    bos|cut  stream density loudness register polyphony  P  [parts]  ahead  bar  ahead  bar ...

The group ``stream`` has the levels of the controls. The groups of the piece follow, bar after bar.
From the first bar in which something is composed, *groups ahead* stand before bar lines. They
announce the given notes of the bars to come::

    known  numerator  denominator  section  place    a bar, with the fields of its bar line; its
                                                     given notes and chords follow. Section 1: all
                                                     notes of the bar are given; section 2: the
                                                     given notes are those that this bar varies
    known  program    none  none  none               a part to compose; ``drums`` or ``harmony``
                                                     may replace the program. Without such groups
                                                     any part may be composed

The parts and the first ``look`` bars ahead precede the first bar that is composed; one more bar
ahead precedes each bar after it. Given notes are written again in the piece, which is complete
without the groups ahead. The model is free to replace notes that are varied.

Related: the anticipation of Thickstun et al. 2023, in bars instead of seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musictx.notes import DRUMS
from musictx.songs.repeats import FARTHEST_BARS, repeat_distances
from musictx.tokens.controls import CONTROLS, KNOWN, STREAM
from musictx.tokens.stream import BAR, CHORD, STEPS_PER_QUARTER, STREAM_NOTE, NoteStream
from musictx.tokens.vocab import SPECIALS, Vocabulary

#: Ids of a note, a chord or a bar line.
FIELDS_PER_NOTE = 5
#: Numbers of the fields of a note or a chord; the fifth is the velocity.
PLACE, PART, TONE, LENGTH = range(4)
#: The greatest length that can be written, in steps; longer notes are divided.
LONGEST = 8 * STEPS_PER_QUARTER
#: The length in steps of a decoded drum stroke.
DRUM_STEPS = STEPS_PER_QUARTER // 4
#: The number of the field ``section`` of a bar line, which names the repeated bar; the least value
#: that names one; the number of values. 0 means no repeat, REPEATS the bar before, REPEATS + 1 two
#: bars before, and so on. The values 1 and 2 are :data:`WHOLE` and :data:`VARIED`.
REPEAT_FIELD, REPEATS, SECTIONS = 3, 3, 3 + FARTHEST_BARS
#: The most bars after a gap that are given.
TAIL_BARS = 8
#: The section of a bar ahead whose notes are all given, and of one that varies its given notes.
WHOLE, VARIED = 1, 2
#: The kinds of the ids of each group. A tie lengthens a note.
LINE_KINDS = ("bar", "numerator", "denominator", "section", "place")
TIE_KINDS = ("place", "program", "pitch", "length", "tie")
NOTE_KINDS = ("place", "program", "pitch", "length", "velocity")
DRUM_KINDS = ("place", "drums", "drum", "none", "velocity")
CHORD_KINDS = ("place", "harmony", "root", "quality", "none")
#: The parts that are not programs, and the kinds of their ids.
NAMED_PARTS = {CHORD: "harmony", DRUMS: "drums"}
PARTS_BY_KIND = {kind: part for part, kind in NAMED_PARTS.items()}


def part_id(table: Vocabulary, part: int) -> int:
    """The id of ``part`` (a program, :data:`CHORD` or :data:`DRUMS`), the second id of a group."""
    return table.id(NAMED_PARTS[part]) if part in NAMED_PARTS else table.id("program", part)


def part_of(table: Vocabulary, ids: Sequence[int]) -> int:
    """The part of the group with these ``ids``."""
    kind, value = table.tokens[ids[PART]]
    return PARTS_BY_KIND.get(kind, value)


def section_of(distance: np.ndarray) -> np.ndarray:
    """The field ``section`` of bars that repeat the bar ``distance`` bars before them (0: none)."""
    return np.where(distance, REPEATS - 1 + distance, 0)


def write(stream: NoteStream, table: Vocabulary) -> np.ndarray:
    """(n,) uint16: the ids of ``stream``. Raises ``ValueError`` for a value that the vocabulary
    does not have, or a note outside all bars."""
    bars, notes, bar = stream.bars, stream.notes, stream.bar
    if len(notes) and not 0 <= bar.min() <= bar.max() < len(bars):
        raise ValueError(f"notes: expected in bars 0 to {len(bars) - 1}")
    sections = section_of(repeat_distances(stream))
    line_fields = (0 * sections, bars["numerator"], bars["exponent"], sections, bars["early_end"])
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
    by_kinds = (
        (TIE_KINDS, pitched & tie),
        (NOTE_KINDS, pitched & ~tie),
        (DRUM_KINDS, drum),
        (CHORD_KINDS, chord),
    )
    for kinds, mask in by_kinds:
        rows[mask] = _ids(table, kinds, [column[mask] for column in values])
    groups = np.concatenate([_ids(table, LINE_KINDS, line_fields), rows])
    rank = np.concatenate([np.arange(len(bars)) * 2, bar * 2 + 1])  # a line precedes its notes
    ids: np.ndarray = groups[np.argsort(rank, kind="stable")].astype(np.uint16).reshape(-1)
    return ids


def _ids(table: Vocabulary, kinds: Sequence[str], values: Sequence[np.ndarray]) -> np.ndarray:
    """(n, 5) the ids of groups of these ``kinds``, from their ``values`` by field, (n,) each."""
    return np.stack([table.ids(kind, column) for kind, column in zip(kinds, values)], 1)


def read(ids: np.ndarray | Sequence[int], table: Vocabulary) -> NoteStream:
    """Decode ``ids`` in any order to bars and notes. Invalid groups of five ids, groups before the
    first bar line and groups ahead are skipped. Raises ``ValueError`` for ids that the vocabulary
    does not have."""
    ids = table.as_ids(ids)
    content = ids[ids >= len(SPECIALS)]
    rows = content[: len(content) // FIELDS_PER_NOTE * FIELDS_PER_NOTE].reshape(-1, FIELDS_PER_NOTE)
    names = np.array(table.kinds)[table.kind_of[rows]]
    value = table.value_of[rows]
    is_bar, tie, note, drum, chord = (
        (names == kinds).all(1)
        for kinds in (LINE_KINDS, TIE_KINDS, NOTE_KINDS, DRUM_KINDS, CHORD_KINDS)
    )
    bar = np.cumsum(is_bar) - 1
    is_ahead = names[:, 0] == KNOWN
    latest_bar = np.maximum.accumulate(np.where(is_bar | is_ahead, np.arange(len(rows)), 0))
    in_piece = ~is_ahead[latest_bar] if len(rows) else is_ahead
    bars = np.zeros(int(is_bar.sum()), BAR)
    for name, field in (("numerator", 1), ("exponent", 2), ("early_end", 4)):
        bars[name] = value[is_bar, field]
    is_note = (tie | note | drum | chord) & (bar >= 0) & in_piece
    value, bar, chord, drum = (column[is_note] for column in (value, bar, chord, drum))
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

    begin     number of the first of these bars
    stop      number of the bar after the last one with given notes
    look      how many bars the model looks ahead, including the next bar
    given     (n,) notes and chords (:data:`musictx.tokens.stream.STREAM_NOTE`), in order
    sections  (bars,) :data:`WHOLE` for a bar in which nothing is composed, :data:`VARIED` for one
              whose given notes are those that it varies, else 0
    parts     the parts to compose: programs, ``CHORD``, ``DRUMS``; empty for any part
    """

    begin: int
    stop: int
    look: int
    given: np.ndarray
    sections: np.ndarray
    parts: Sequence[int] = ()


def control_prefix(table: Vocabulary, levels: Sequence[int]) -> np.ndarray:
    """(5,) the ids of the group of controls with these ``levels`` (0: any level)."""
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
    bars_ahead = by_bar(write(given, table), table)
    section = table.range("section")[0]
    for bar, value in zip(bars_ahead, ahead.sections[ahead.begin : ahead.stop]):
        bar[0, 0], bar[0, REPEAT_FIELD] = table.id(KNOWN), section + value
    none = table.id("none")
    parts = [[table.id(KNOWN), part_id(table, part), none, none, none] for part in ahead.parts]
    opening = np.array(parts, np.int64).reshape(-1, FIELDS_PER_NOTE)
    return [np.concatenate([opening, *bars_ahead[: ahead.look]]), *bars_ahead[ahead.look :]]


def interleave(
    stream: NoteStream,
    ahead: GivenAhead | None,
    table: Vocabulary,
    first: int = 0,
    stop: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The window of the bars ``first`` to ``stop`` - 1 (all by default): (n,) ids, and (n,) bool,
    which of them belong to the piece."""
    bars = by_bar(write(stream.in_bars(first, stop), table), table)
    none = np.empty((0, FIELDS_PER_NOTE), np.int64)
    by_number: dict[int, np.ndarray] = {}
    if ahead is not None:
        by_number = dict(enumerate(groups_ahead(stream.bars, ahead, table), ahead.begin))
    blocks = [
        groups
        for number, bar in enumerate(bars, first)
        for groups in (by_number.get(number, none), bar)
    ]
    sizes = np.array([groups.size for groups in blocks], int)
    in_piece = np.repeat(np.arange(len(blocks)) % 2 == 1, sizes)
    return np.concatenate([none, *blocks]).reshape(-1), in_piece
