"""Columns of MIDI events -> the bytes of a Standard MIDI File, all its tracks at once.

Vectorised, because an object for each message would take a kilobyte: a million notes are written
in a second or two and 300 MB.

Source: "Standard MIDI Files 1.0", RP-001, MIDI Manufacturers Association.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from musictx.notes import order

#: One event: at equal ticks of a track those of lower rank come first, in a rank those of lower
#: place. ``body`` holds its ``size`` bytes; after them comes a text where ``text`` numbers one.
FILE_EVENT = np.dtype(
    [
        ("track", "i4"),
        ("tick", "i8"),
        ("rank", "i1"),
        ("place", "i8"),
        ("size", "u1"),
        ("body", "u1", (7,)),
        ("text", "i4"),
    ]
)
_END_OF_TRACK = b"\0\xff\x2f\0"


def events(track: Any, tick: np.ndarray, rank: Any, place: Any, *body: Any) -> np.ndarray:
    """Dtype :data:`FILE_EVENT`, (n,): of each column an array (n,) or one number for all."""
    table = np.zeros(len(tick), FILE_EVENT)
    table["track"], table["tick"], table["rank"], table["place"] = track, tick, rank, place
    for k, column in enumerate(body):
        table["body"][:, k] = column
    table["size"], table["text"] = len(body), -1
    return table


def file(tables: list[np.ndarray], texts: list[bytes], tracks: int, quarter: int) -> bytes:
    """A file of format 1 with ``quarter`` ticks a quarter note. Ticks are at most 2**28 - 1."""
    table = np.concatenate(tables)
    table = table[order(table["track"], table["tick"], table["rank"], table["place"])]
    data, ends = _encoded(table)
    out = [b"MThd", *(n.to_bytes(size, "big") for n, size in ((6, 4), (1, 2), (tracks, 2)))]
    out.append(quarter.to_bytes(2, "big"))
    bounds = np.searchsorted(table["track"], np.arange(tracks + 1))
    places = np.append(0, ends)[bounds].tolist()
    with_text = np.flatnonzero(table["text"] >= 0)
    first_text = np.searchsorted(with_text, bounds).tolist()
    for track in range(tracks):
        at, end = places[track], places[track + 1]
        pieces = []
        for row in with_text[first_text[track] : first_text[track + 1]].tolist():
            text = texts[int(table["text"][row])]
            pieces += [data[at : int(ends[row])], number(len(text)), text]
            at = int(ends[row])
        chunk = b"".join((*pieces, data[at:end], _END_OF_TRACK))
        out += [b"MTrk", len(chunk).to_bytes(4, "big"), chunk]
    return b"".join(out)


def _encoded(table: np.ndarray) -> tuple[bytes, np.ndarray]:
    """The bytes of sorted events, texts left out, and (n,) where each event ends in them."""
    n = len(table)
    new = np.diff(table["track"], prepend=-1) > 0
    delta = np.diff(table["tick"], prepend=0)
    delta[new] = table["tick"][new]
    status = table["body"][:, 0]
    before = np.append(np.uint8(0xFF), status[:-1])[:n]
    # In each row the delta time, at most four bytes, and the body; then what of it is written.
    rows = np.empty((n, 11), np.uint8)
    written = np.empty((n, 11), bool)
    for k, shift in enumerate((21, 14, 7, 0)):
        rows[:, k] = delta >> shift & 0x7F | (0x80 if shift else 0)
        written[:, k] = delta >> shift > 0
    written[:, 3] = True
    rows[:, 4:] = table["body"]
    written[:, 4] = new | (status >= 0xF0) | (status != before)  # running status
    written[:, 5:] = table["size"][:, None] > np.arange(1, 7)
    return rows[written].tobytes(), np.cumsum(written.sum(axis=1))


def number(value: int) -> bytes:
    """A variable-length quantity."""
    out = [value & 0x7F]
    while value := value >> 7:
        out.append(value & 0x7F | 0x80)
    return bytes(reversed(out))
