"""Notes in bars <-> five ids each; see :mod:`musictx.songs.bar_tokens`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.notes import DRUMS
from musictx.songs.repeats import FARTHEST_BARS, repeated
from musictx.tokens.controls import KNOWN
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
#: occur only in groups ahead of the piece (:mod:`.bar_layout`).
REPEAT_FIELD, REPEATS = 3, 3
SECTIONS = REPEATS + FARTHEST_BARS
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


def read(ids: np.ndarray, table: Vocabulary) -> NoteStream:
    """Decode ``ids``, whatever their order, to bars and notes. Invalid groups of five ids, groups
    before the first bar line and groups ahead (:mod:`.bar_layout`) are skipped. Raises
    ``ValueError`` for ids that the vocabulary does not have."""
    if len(ids) and (ids.min() < 0 or ids.max() >= table.size):
        raise ValueError(f"ids: expected 0 to {table.size - 1}")
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
