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
    bars, notes = stream.bars, stream.notes
    bar_lines = np.empty((len(bars), FIELDS_PER_NOTE), np.int64)
    bar_lines[:, 0] = table.id("bar")
    bar_lines[:, 1] = table.ids("numerator", bars["numerator"])
    bar_lines[:, 2] = table.ids("denominator", bars["exponent"])
    bar_lines[:, 4] = table.ids("place", bars["early_end"])
    bar, lines = stream.bar, stream.lines
    if len(notes) and not 0 <= bar.min() <= bar.max() < len(bars):
        raise ValueError(f"notes: expected in bars 0 to {len(bars) - 1}")
    bar_lines[:, REPEAT_FIELD] = table.ids("section", section_of(repeated(stream)))
    rows = np.empty((len(notes), FIELDS_PER_NOTE), np.int64)
    rows[:, 0] = table.ids("place", notes["start"] - lines[bar])
    chord, drum = notes["part"] == CHORD, notes["part"] == DRUMS
    pitched = ~chord & ~drum
    tie = pitched & (notes["velocity_bin"] == 0)
    columns: list[tuple[int, np.ndarray, str, str]] = [
        (1, chord, "harmony", ""),
        (1, drum, "drums", ""),
        (1, pitched, "program", "part"),
        (2, chord, "root", "pitch"),
        (2, drum, "drum", "pitch"),
        (2, pitched, "pitch", "pitch"),
        (3, chord, "quality", "length"),
        (3, drum, "none", ""),
        (3, pitched, "length", "length"),
        (4, chord, "none", ""),
        (4, tie, "tie", ""),
        (4, ~chord & ~tie, "velocity", "velocity_bin"),
    ]
    for column, chosen, kind, value in columns:
        rows[chosen, column] = table.ids(kind, notes[value][chosen]) if value else table.id(kind)
    groups = np.concatenate([bar_lines, rows])
    rank = np.concatenate([np.arange(len(bars)) * 2, bar * 2 + 1])  # a line precedes its notes
    ids: np.ndarray = groups[np.argsort(rank, kind="stable")].astype(np.uint16).reshape(-1)
    return ids


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
    is_bar = (names == ["bar", "numerator", "denominator", "section", "place"]).all(1)
    bar = np.cumsum(is_bar) - 1
    is_ahead = names[:, 0] == KNOWN
    opened = np.maximum.accumulate(np.where(is_bar | is_ahead, np.arange(len(rows)), 0))
    in_piece = ~is_ahead[opened] if len(rows) else is_ahead
    bars = np.zeros(int(is_bar.sum()), BAR)
    for name, field in (("numerator", 1), ("exponent", 2), ("early_end", 4)):
        bars[name] = value[is_bar, field]
    chord = (names == ["place", "harmony", "root", "quality", "none"]).all(1)
    drum = (names == ["place", "drums", "drum", "none", "velocity"]).all(1)
    pitched = (names[:, :4] == ["place", "program", "pitch", "length"]).all(1)
    tie = pitched & (names[:, 4] == "tie")
    used = chord | drum | tie | (pitched & (names[:, 4] == "velocity"))
    used &= (bar >= 0) & in_piece
    value, bar, chord, drum, tie = (column[used] for column in (value, bar, chord, drum, tie))
    notes = np.zeros(len(value), STREAM_NOTE)
    notes["start"] = NoteStream(bars, notes).lines[bar] + value[:, 0]
    notes["part"] = np.select([chord, drum], [CHORD, DRUMS], value[:, 1])
    notes["pitch"] = value[:, 2]
    notes["length"] = np.where(drum, 0, value[:, 3])
    notes["velocity_bin"] = np.where(chord | tie, 0, value[:, 4])
    return NoteStream(bars, notes)
