"""Groups of ids <-> tables of bars and of what stands in them; see :mod:`musictx.tokens.groups`."""

from __future__ import annotations

import numpy as np

from musictx.notes import DRUMS
from musictx.tokens.bars import STEPS
from musictx.tokens.controls import KNOWN
from musictx.tokens.returns import FARTHEST_BARS, returned
from musictx.tokens.vocab import SPECIALS, Vocabulary

#: Ids in a group.
FIELDS_A_GROUP = 5
#: Places in a bar that can be written: eight quarters.
PLACES = 8 * STEPS
#: The longest length, in steps; longer notes are divided.
LONGEST = 8 * STEPS
#: Steps of a drum stroke, decoded.
DRUM_STEPS = STEPS // 4
#: What a bar line says of its bar: 0 that it says no earlier one again, from RETURNS on how many
#: bars before it that one lies; 1 and 2 stand ahead of the piece only (:mod:`.ahead`).
RETURNS = 3
#: Which id of a bar line says that.
LINE_SAYS = 3
SECTIONS = RETURNS + FARTHEST_BARS
#: What sorts within a place: the chord, programs 0 to 127, drums.
CHORD, DRUM_PART = -1, DRUMS

#: A group that stands at a place: ``line`` is the number of its bar, ``part`` as above, ``tone``
#: the pitch, drum or root, ``length`` steps or quality, ``bin`` the velocity bin, 0 for a tie.
PLACED = np.dtype(
    [
        ("line", "i8"),
        ("place", "i8"),
        ("part", "i8"),
        ("tone", "i8"),
        ("length", "i8"),
        ("bin", "i8"),
    ]
)
#: A bar: its meter, and where it ends early (0: it does not).
BAR = np.dtype([("numerator", "i8"), ("exponent", "i8"), ("cut", "i8")])


def write(bars: np.ndarray, placed: np.ndarray, table: Vocabulary) -> np.ndarray:
    """(n,) uint16 ids of bars (:data:`BAR`) and groups (:data:`PLACED`) in the order of writing.
    Raises ``ValueError`` for a value that the vocabulary does not have, or a group in no bar."""
    if len(placed) and not 0 <= placed["line"].min() <= placed["line"].max() < len(bars):
        raise ValueError(f"groups: expected in bars 0 to {len(bars) - 1}")
    back = returned(bars, placed)
    lines = np.empty((len(bars), FIELDS_A_GROUP), np.int64)
    lines[:, 0] = table.id("bar")
    lines[:, 1] = table.ids("numerator", bars["numerator"])
    lines[:, 2] = table.ids("denominator", bars["exponent"])
    lines[:, LINE_SAYS] = table.ids("section", np.where(back, RETURNS - 1 + back, 0))
    lines[:, 4] = table.ids("place", bars["cut"])
    groups = np.empty((len(placed), FIELDS_A_GROUP), np.int64)
    groups[:, 0] = table.ids("place", placed["place"])
    chord, drum = placed["part"] == CHORD, placed["part"] == DRUM_PART
    pitched = ~chord & ~drum
    tie = pitched & (placed["bin"] == 0)
    columns: list[tuple[int, np.ndarray, str, str]] = [
        (1, chord, "harmony", ""),
        (1, drum, "drums", ""),
        (1, pitched, "program", "part"),
        (2, chord, "root", "tone"),
        (2, drum, "drum", "tone"),
        (2, pitched, "pitch", "tone"),
        (3, chord, "quality", "length"),
        (3, drum, "none", ""),
        (3, pitched, "length", "length"),
        (4, chord, "none", ""),
        (4, tie, "tie", ""),
        (4, ~chord & ~tie, "velocity", "bin"),
    ]
    for column, rows, kind, value in columns:
        groups[rows, column] = table.ids(kind, placed[value][rows]) if value else table.id(kind)
    both = np.concatenate([lines, groups])
    at = np.concatenate([np.arange(len(bars)) * 2, placed["line"] * 2 + 1])
    ids: np.ndarray = both[np.argsort(at, kind="stable")].astype(np.uint16).reshape(-1)
    return ids


def read(ids: np.ndarray, table: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Any ids -> bars and the groups in them; what is no group, stands before the first bar, or is
    known ahead (:mod:`musictx.tokens.ahead`), is passed over. Raises ``ValueError`` for ids that
    the vocabulary does not have."""
    if len(ids) and (ids.min() < 0 or ids.max() >= table.size):
        raise ValueError(f"ids: expected 0 to {table.size - 1}")
    content = ids[ids >= len(SPECIALS)]
    whole = content[: len(content) // FIELDS_A_GROUP * FIELDS_A_GROUP]
    groups = whole.reshape(-1, FIELDS_A_GROUP)
    names = np.array(table.kinds)[table.kind_of[groups]]
    value = table.value_of[groups]
    is_bar = (names == ["bar", "numerator", "denominator", "section", "place"]).all(1)
    line = np.cumsum(is_bar) - 1
    ahead = names[:, 0] == KNOWN
    opened = np.maximum.accumulate(np.where(is_bar | ahead, np.arange(len(groups)), 0))
    in_piece = ~ahead[opened] if len(groups) else ahead
    bars = np.zeros(int(is_bar.sum()), BAR)
    for name, field in (("numerator", 1), ("exponent", 2), ("cut", 4)):
        bars[name] = value[is_bar, field]
    shape = {
        CHORD: ["place", "harmony", "root", "quality", "none"],
        DRUM_PART: ["place", "drums", "drum", "none", "velocity"],
        0: ["place", "program", "pitch", "length", "velocity"],
    }
    tied = (names[:, 4] == "tie") & (names[:, :4] == shape[0][:4]).all(1)
    found = {part: (names == kinds).all(1) for part, kinds in shape.items()}
    found[0] |= tied
    used = (found[CHORD] | found[DRUM_PART] | found[0]) & (line >= 0) & in_piece
    placed = np.zeros(int(used.sum()), PLACED)
    value, line = value[used], line[used]
    chord, drum = found[CHORD][used], found[DRUM_PART][used]
    placed["line"], placed["place"] = line, value[:, 0]
    placed["part"] = np.select([chord, drum], [CHORD, DRUM_PART], value[:, 1])
    placed["tone"] = value[:, 2]
    placed["length"] = np.where(drum, 0, value[:, 3])
    placed["bin"] = np.where(chord | tied[used], 0, value[:, 4])
    return bars, placed
