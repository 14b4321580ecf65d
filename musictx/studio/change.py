"""One operation on a document: what it removes, adds and changes, as a value; from JSON, checked.

An operation carries all that it needs to be undone, so a journal of them can be read in both
directions.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from musictx.config.checks import DAY
from musictx.studio.errors import Refused

#: (start, end, pitch, velocity, track), seconds from the start of the piece.
Note = tuple[float, float, int, int, int]
#: (id, start, end, pitch, velocity, track)
NamedNote = tuple[int, float, float, int, int, int]
#: Characters of a name that are kept.
LONGEST_NAME = 80
#: Settings of the mixer -> their MIDI controllers.
MIXER = {"volume": 7, "pan": 10, "reverb": 91}


class Track(NamedTuple):
    """A part of the piece; ``name`` may be empty. Then its mixer, in MIDI values, and whether
    it was added to the piece, even if one of that number was there before."""

    id: int
    name: str
    program: int
    drum: bool
    volume: int = 100
    pan: int = 64
    reverb: int = 40
    mute: bool = False
    solo: bool = False
    added: bool = False

    @property
    def kind(self) -> tuple[str, int, bool]:
        """Name, program and drums, without the mixer."""
        return self.name, self.program, self.drum


class Accepted(NamedTuple):
    """A proposal that is in the piece: the number of its first note, and how many it brought; the
    notes and tracks that left for it, which come back where another of its take keeps them."""

    take: int
    proposal: int
    first: int
    amount: int
    notes: tuple[NamedNote, ...] = ()
    tracks: tuple[Track, ...] = ()


@dataclass(frozen=True)
class Change:
    """What one operation does. Empty or None is what it leaves alone; of tracks, pedals and marks
    it holds the whole new list.

    ``accept`` and ``reject`` say which proposals come into the piece or leave it by this.
    """

    label: str = ""
    remove: tuple[int, ...] = ()
    add: tuple[NamedNote, ...] = ()
    change: tuple[NamedNote, ...] = ()
    lock: tuple[int, ...] = ()
    unlock: tuple[int, ...] = ()
    accept: tuple[Accepted, ...] = ()
    reject: tuple[Accepted, ...] = ()
    name: str | None = None
    tracks: tuple[Track, ...] | None = None
    pedals: tuple[tuple[float, int, int], ...] | None = None
    tempos: tuple[tuple[float, float], ...] | None = None
    meters: tuple[tuple[float, int, int], ...] | None = None
    keys: tuple[tuple[float, int, bool], ...] | None = None
    fermatas: tuple[float, ...] | None = None
    markers: tuple[tuple[float, str], ...] | None = None
    lyrics: tuple[tuple[float, str], ...] | None = None
    favourites: tuple[tuple[int, int], ...] | None = None

    def json(self) -> dict[str, Any]:
        """What it does, without what it leaves alone; :func:`recorded` is the inverse."""
        fields = {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if getattr(self, f.name) not in ((), None, "") or f.name in WHOLE
        }
        fields = {name: value for name, value in fields.items() if value is not None}
        if self.tracks is not None:
            fields["tracks"] = [track._asdict() for track in self.tracks]
        return fields


#: Parts of a change that are given whole; an empty one says something.
TEXTS = ("markers", "lyrics")
WHOLE = ("tracks", "pedals", "tempos", "meters", "keys", "fermatas", *TEXTS, "favourites", "name")


def recorded(data: Any) -> Change:
    """The change whose :meth:`Change.json` was written down. It was checked when it was made, but
    hands and disks damage files; what came from a file of music may be stranger than what a page
    may ask for. :class:`Refused` as by :func:`parse`."""
    return Change(**parts(data))


def parse(data: Any) -> Change:
    """The change that a page requests by the JSON ``data``; :class:`Refused` in one sentence that
    names the part that cannot be."""
    return Change(**parts(data, _ROWS))


def parts(data: Any, rows: Mapping[str, Callable[[Any, str], Any]] | None = None) -> dict[str, Any]:
    """The parts of a change, or of a document in a journal, each value of it checked by ``rows``,
    in a journal by the bounds that a Score has."""
    if not isinstance(data, Mapping):
        raise Refused("operation: expected a JSON object")
    if rows is None:  # older journals keep figures of a bass too
        rows, data = _RECORDED, {name: data[name] for name in data if name != "figures"}
    unknown = set(data) - {"label", "name", *rows}
    if unknown:
        raise Refused(f"operation: no part is called {', '.join(map(repr, sorted(unknown)))}")
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name in ("label", "name"):
            values[name] = clean_name(value, name)
        else:
            values[name] = tuple(rows[name](row, name) for row in _list(value, name))
    return values


def clean_name(value: Any, what: str = "name") -> str:
    """A name that can be shown anywhere: one line, no control or direction marks, not endless."""
    if not isinstance(value, str):
        raise Refused(f"{what}: expected text")
    plain = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in value)
    return " ".join(plain.split())[:LONGEST_NAME].strip()


def whole(value: Any, low: int, high: int, what: str) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not low <= value <= high:
        raise Refused(f"{what}: expected a whole number from {low} to {high}, not {_shown(value)}")
    return value


def _number(value: Any, low: float, high: float, what: str) -> float:
    if type(value) not in (int, float) or not low <= value <= high:  # nor NaN
        raise Refused(f"{what}: expected a number from {low:g} to {high:g}, not {_shown(value)}")
    return float(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _seconds(value: Any, what: str) -> float:
    return _number(value, 0, DAY, f"{what}, seconds")


def _list(value: Any, what: str) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise Refused(f"{what}: expected a list")
    return value


def _row(value: Any, length: int, what: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)) or len(value) != length:
        raise Refused(f"{what}: expected rows of {length} numbers, not {_shown(value)}")
    return tuple(value)


def _id(value: Any, what: str) -> int:
    return whole(value, 0, 2**53, f"{what}, number of a note")


def note(values: Any, what: str) -> Note:
    """(start, end, pitch, velocity, track), checked."""
    values = _row(values, 5, what)
    start, end = _seconds(values[0], what), _seconds(values[1], what)
    if end < start:
        raise Refused(f"{what}: a note ends at {end:g} s, before it begins at {start:g} s")
    pitch = whole(values[2], 0, 127, f"{what}, pitch")
    velocity = whole(values[3], 1, 127, f"{what}, velocity")
    return start, end, pitch, velocity, whole(values[4], 0, 65_534, f"{what}, track")


def _named_note(row: Any, what: str) -> NamedNote:
    values = _row(row, 6, what)
    return (_id(values[0], what), *note(values[1:], what))


def track(row: Any, what: str = "tracks") -> Track:
    """A track from JSON, checked."""
    if not isinstance(row, Mapping) or not {"id", "program"} <= set(row):
        raise Refused(f"{what}: expected rows with id, name, program and drum, not {_shown(row)}")
    usual = Track._field_defaults
    sound: dict[str, Any] = {n: whole(row.get(n, usual[n]), 0, 127, f"{what}, {n}") for n in MIXER}
    return Track(
        whole(row["id"], 0, 65_534, f"{what}, id"),
        clean_name(row.get("name", ""), f"{what}, name"),
        whole(row["program"], 0, 127, f"{what}, program"),
        **sound,
        **{name: bool(row.get(name, False)) for name in ("drum", "mute", "solo", "added")},
    )


def _pedal(row: Any, what: str) -> tuple[float, int, int]:
    time, value, of = _row(row, 3, what)
    value = whole(value, 0, 127, f"{what}, value")
    return _seconds(time, what), value, whole(of, 0, 65_534, f"{what}, track")


def _tempo(row: Any, what: str, low: float = 3.6, high: float = 6e7) -> tuple[float, float]:
    time, bpm = _row(row, 2, what)
    bpm = _number(bpm, low, high, f"{what}, quarter notes a minute")
    return _seconds(time, what), bpm


def _meter(row: Any, what: str, low: int = 1, high: int = 2**15) -> tuple[float, int, int]:
    time, above, below = _row(row, 3, what)
    above = whole(above, low, 255, f"{what}, beats of a bar")
    below = whole(below, low, high, f"{what}, part of a whole note")
    return _seconds(time, what), above, below


def _key(row: Any, what: str, low: int = -7, high: int = 7) -> tuple[float, int, bool]:
    time, sharps, minor = _row(row, 3, what)
    return _seconds(time, what), whole(sharps, low, high, f"{what}, sharps"), bool(minor)


def _text_row(row: Any, what: str) -> tuple[float, str]:
    time, text = _row(row, 2, what)
    return _seconds(time, what), clean_name(text, f"{what}, text")


def _pair(row: Any, what: str) -> tuple[int, int]:
    take, proposal = _row(row, 2, what)
    return whole(take, 1, 10**9, what), whole(proposal, 1, 1000, what)


_ROWS: dict[str, Callable[[Any, str], Any]] = {
    "remove": _id,
    "add": _named_note,
    "change": _named_note,
    "lock": _id,
    "unlock": _id,
    "tracks": track,
    "pedals": _pedal,
    "tempos": _tempo,
    "meters": _meter,
    "keys": _key,
    "fermatas": _seconds,
    **dict.fromkeys(TEXTS, _text_row),
    "favourites": _pair,
}


def accepted(row: Any, what: str) -> Accepted:
    """A proposal in the piece, from JSON; older journals do not say what left for it."""
    left = _list(row, what)[4:] or ((), ())
    *numbers, notes, tracks = _row((*row[:4], *left), 6, what)
    take, proposal, first, amount = (_id(number, what) for number in numbers)
    rows = (dict(zip(Track._fields, _list(one, what))) for one in _list(tracks, what))
    return Accepted(
        *(take, proposal, first, amount),
        notes=tuple(_named_note(one, what) for one in _list(notes, what)),
        tracks=tuple(track(row, what) for row in rows),
    )


_RECORDED = _ROWS | {
    "accept": accepted,
    "reject": accepted,
    "tempos": partial(_tempo, low=1e-9, high=1e12),
    "meters": partial(_meter, low=0, high=2**16 - 1),
    "keys": partial(_key, low=-128, high=127),
}
