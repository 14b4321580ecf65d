"""The ids of notes in bars (:mod:`musictx.songs.bar_tokens`), and windows with given notes.

A window of a model with controls has a group of controls and, if some notes are given while others
are composed, *groups ahead*, which announce the given notes of the bars to come::

    bos|cut  stream density loudness register polyphony  P  [parts]  ahead  bar  ahead  bar ...

``stream`` is followed by the level of each control. P are the bars before the first bar in which
something is composed. A group ahead is one of::

    known  numerator  denominator  section  place    a bar, with the fields of its bar line. The
                                                     given notes and chords of the bar follow.
                                                     Section 1: all notes of the bar are given;
                                                     section 2: the bar varies its given notes
    known  program    none  none  none               a part to compose; ``drums`` or ``harmony``
                                                     may replace the program. Without such groups
                                                     any part may be composed

The parts and the first ``lookahead`` bars ahead precede the first bar that is composed; one more
bar ahead precedes each bar after it. Given notes are written again in the bars, so the piece is
complete without the groups ahead. Notes that are varied may be replaced.

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

#: The number of ids of a note, a chord or a bar line.
FIELDS_PER_NOTE = 5
#: The indices of the fields of a note or a chord; the fifth is the velocity.
PLACE, PART, TONE, LENGTH = range(4)
#: The greatest length in steps that one group can encode; longer notes are divided.
LONGEST_NOTE = 8 * STEPS_PER_QUARTER
#: The length in steps of a decoded drum stroke.
DRUM_STEPS = STEPS_PER_QUARTER // 4
#: The most bars after a gap that are given.
TAIL_BARS = 8
#: The index of the field ``section`` of a bar line, and the number of its values: 0 if the bar
#: repeats no earlier bar, FIRST_REPEAT if it repeats the bar before it, FIRST_REPEAT + 1 for the
#: bar two bars before it, and so on. WHOLE and VARIED occur only in groups ahead: all notes of the
#: bar are given, or the bar varies its given notes.
REPEAT_FIELD = 3
WHOLE, VARIED, FIRST_REPEAT = 1, 2, 3
SECTIONS = FIRST_REPEAT + FARTHEST_BARS
#: The kinds of the ids of each group. A tie lengthens a note.
LINE_KINDS = ("bar", "numerator", "denominator", "section", "place")
TIE_KINDS = ("place", "program", "pitch", "length", "tie")
NOTE_KINDS = ("place", "program", "pitch", "length", "velocity")
DRUM_KINDS = ("place", "drums", "drum", "none", "velocity")
CHORD_KINDS = ("place", "harmony", "root", "quality", "none")
#: {kind of the second id of a group: the kinds of its ids}; ties have those of notes.
KINDS = {kinds[1]: kinds for kinds in (LINE_KINDS, NOTE_KINDS, DRUM_KINDS, CHORD_KINDS)}
#: {part that is not a program: the kind of its id}, and the inverse.
NAMED_PARTS = {CHORD: "harmony", DRUMS: "drums"}
PARTS_BY_KIND = {kind: part for part, kind in NAMED_PARTS.items()}


def part_id(table: Vocabulary, part: int) -> int:
    """The id of ``part`` (a program, :data:`CHORD` or :data:`DRUMS`), the second id of a group."""
    return table.id(NAMED_PARTS[part]) if part in NAMED_PARTS else table.id("program", part)


def part_of(table: Vocabulary, ids: Sequence[int]) -> int:
    """The part of the group that begins with these ``ids``."""
    kind, value = table.tokens[ids[PART]]
    return PARTS_BY_KIND.get(kind, value)


def section_of(distance: np.ndarray) -> np.ndarray:
    """The field ``section`` of bars that repeat the bar ``distance`` bars before them (0: none)."""
    return np.where(distance, FIRST_REPEAT - 1 + distance, 0)


def write(stream: NoteStream, table: Vocabulary) -> np.ndarray:
    """(n,) uint16: the ids of ``stream``. Raises ``ValueError`` for a value that the vocabulary
    does not have, or a note outside all bars."""
    bars, notes, bar = stream.bars, stream.notes, stream.bar
    if len(notes) and not 0 <= bar.min() <= bar.max() < len(bars):
        raise ValueError(f"notes: expected in bars 0 to {len(bars) - 1}")
    sections = section_of(repeat_distances(stream))
    none = np.zeros_like(sections)
    line_fields = (none, bars["numerator"], bars["exponent"], sections, bars["early_end"])
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
    return np.ravel(groups[np.argsort(rank, kind="stable")]).astype(np.uint16)


def _ids(table: Vocabulary, kinds: Sequence[str], values: Sequence[np.ndarray]) -> np.ndarray:
    """(n, 5) the ids of groups of these ``kinds``; ``values`` are five columns (n,)."""
    return np.stack([table.ids(kind, column) for kind, column in zip(kinds, values)], 1)


def read(ids: np.ndarray | Sequence[int], table: Vocabulary) -> NoteStream:
    """Decode ``ids`` to bars and notes. Any ids of the vocabulary can be decoded: invalid groups of
    five ids, groups before the first bar line and groups ahead are skipped. Raises ``ValueError``
    for ids that the vocabulary does not have."""
    ids = table.as_ids(ids)
    content = ids[ids >= len(SPECIALS)]
    rows = content[: len(content) // FIELDS_PER_NOTE * FIELDS_PER_NOTE].reshape(-1, FIELDS_PER_NOTE)
    names, value = np.array(table.kinds)[table.kind_of[rows]], table.value_of[rows]
    is_bar, tie, note, drum, chord = (
        (names == kinds).all(1)
        for kinds in (LINE_KINDS, TIE_KINDS, NOTE_KINDS, DRUM_KINDS, CHORD_KINDS)
    )
    bar = np.cumsum(is_bar) - 1
    # The notes between a group ahead and the next bar line are skipped with that group.
    is_ahead = names[:, 0] == KNOWN
    latest_line = np.maximum.accumulate(np.where(is_bar | is_ahead, np.arange(len(rows)), 0))
    in_piece = ~is_ahead[latest_line]
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


@dataclass(frozen=True)
class GivenAhead:
    """The given notes of the bars that are composed, and of bars after these.

    begin      the number of the first bar that is composed
    stop       the number of the bar after the last one with given notes
    lookahead  how many bars the model looks ahead, including the next bar
    given      (n,) notes and chords (:data:`musictx.tokens.stream.STREAM_NOTE`), in order
    sections   (bars,) :data:`WHOLE` for a bar in which nothing is composed, :data:`VARIED` for one
               that varies its given notes, else 0
    parts      the parts to compose: programs, ``CHORD``, ``DRUMS``; empty for any part
    """

    begin: int
    stop: int
    lookahead: int
    given: np.ndarray
    sections: np.ndarray
    parts: Sequence[int] = ()


def control_prefix(table: Vocabulary, levels: Sequence[int]) -> np.ndarray:
    """(5,) the ids of the group of controls with these ``levels`` (0: any level)."""
    ids = [table.id(name, value) for name, value in zip(CONTROLS, levels)]
    return np.array([table.id(STREAM), *ids], np.int64)


def split_bars(ids: np.ndarray, table: Vocabulary) -> list[np.ndarray]:
    """Split ``ids`` of whole groups into bars, each (n, 5): a bar line and the groups after it."""
    groups = ids.reshape(-1, FIELDS_PER_NOTE).astype(np.int64)
    lines = np.flatnonzero(groups[:, 0] == table.id("bar"))
    return [groups[begin:stop] for begin, stop in zip(lines, [*lines[1:], len(groups)])]


def groups_ahead(bars: np.ndarray, ahead: GivenAhead, table: Vocabulary) -> list[np.ndarray]:
    """The groups ahead, (n, 5), that stand before each bar from ``ahead.begin`` on. ``bars`` are
    all bars of the piece."""
    given = NoteStream(bars, ahead.given).in_bars(ahead.begin, ahead.stop)
    bars_ahead = split_bars(write(given, table), table)
    for bar, section in zip(bars_ahead, ahead.sections[ahead.begin : ahead.stop]):
        bar[0, 0] = table.id(KNOWN)
        bar[0, REPEAT_FIELD] = table.id("section", section)
    none = table.id("none")
    parts = [[table.id(KNOWN), part_id(table, part), none, none, none] for part in ahead.parts]
    opening = np.array(parts, np.int64).reshape(-1, FIELDS_PER_NOTE)
    lookahead = ahead.lookahead
    return [np.concatenate([opening, *bars_ahead[:lookahead]]), *bars_ahead[lookahead:]]


def interleave(
    stream: NoteStream,
    ahead: GivenAhead | None,
    table: Vocabulary,
    first: int = 0,
    stop: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The bars ``first`` to ``stop`` - 1 (``None``: to the last), with groups ahead: (n,) ids, and
    (n,) bool, which of them belong to bars and not to groups ahead."""
    no_groups = np.empty((0, FIELDS_PER_NOTE), np.int64)
    ahead_by_bar: dict[int, np.ndarray] = {}
    if ahead is not None:
        ahead_by_bar = dict(enumerate(groups_ahead(stream.bars, ahead, table), ahead.begin))
    blocks = []  # in turn: groups ahead, a bar
    for number, bar in enumerate(
        split_bars(write(stream.in_bars(first, stop), table), table), first
    ):
        blocks += [ahead_by_bar.get(number, no_groups), bar]
    in_piece = np.arange(len(blocks)) % 2 == 1
    sizes = np.array([groups.size for groups in blocks], int)
    return np.concatenate([no_groups, *blocks]).reshape(-1), np.repeat(in_piece, sizes)
