"""One operation on a document: what it removes, adds and changes, as a value; from JSON, checked
by its types.

An operation carries all that it needs to be undone, so a list of them can be read in both
directions.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

from musictx.config.checks import DAY
from musictx.studio.errors import Refused, checked

#: Characters of a name that are kept.
LONGEST_NAME = 80
#: Settings of the mixer -> their MIDI controllers.
MIXER = {"volume": 7, "pan": 10, "reverb": 91}
#: Parts of a change that are given whole; an empty one says something.
TEXTS = ("markers", "lyrics")
WHOLE = ("tracks", "pedals", "tempos", "meters", "keys", "fermatas", *TEXTS, "favourites", "name")


def clean_name(text: str) -> str:
    """A name that can be shown anywhere: one line, no control or direction marks, not endless."""
    plain = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text)
    return " ".join(plain.split())[:LONGEST_NAME].strip()


Row = TypeVar("Row", bound=tuple[Any, ...])


def _in_time(row: Row) -> Row:
    """A note, with its number or without, that ends where it begins or later."""
    start, end = row[-5:-3]
    if end < start:
        raise ValueError(f"it ends at {end:g} s, before it begins at {start:g} s")
    return row


Seconds = Annotated[float, Field(ge=0, le=DAY, allow_inf_nan=False)]
#: A number that is given once and never again.
Number = Annotated[int, Field(ge=0, le=2**53)]
Byte = Annotated[int, Field(ge=0, le=127)]
Velocity = Annotated[int, Field(ge=1, le=127)]
TrackId = Annotated[int, Field(ge=0, le=65_534)]
Name = Annotated[str, AfterValidator(clean_name)]
#: (start, end, pitch, velocity, track), seconds from the start of the piece.
Note = Annotated[tuple[Seconds, Seconds, Byte, Velocity, TrackId], AfterValidator(_in_time)]
#: (id, start, end, pitch, velocity, track)
NamedNote = Annotated[
    tuple[Number, Seconds, Seconds, Byte, Velocity, TrackId], AfterValidator(_in_time)
]
#: (seconds, quarter notes a minute), (seconds, beats of a bar, part of a whole note) and (seconds,
#: sharps, minor): as a Score has them, since files may be stranger than anybody would be.
Tempo = tuple[Seconds, Annotated[float, Field(ge=1e-9, le=1e12, allow_inf_nan=False)]]
Meter = tuple[
    Seconds,
    Annotated[int, Field(ge=0, le=255)],
    Annotated[int, Field(ge=0, le=65_535)],
]
Key = tuple[Seconds, Annotated[int, Field(ge=-128, le=127)], bool]
Pedal = tuple[Seconds, Byte, TrackId]
Text = tuple[Seconds, Name]


class Track(NamedTuple):
    """A part of the piece; ``name`` may be empty. Then its mixer, in MIDI values, and whether
    it was added to the piece, even if one of that number was there before."""

    id: TrackId
    name: Name = ""
    program: Byte = 0
    drum: bool = False
    volume: Byte = 100
    pan: Byte = 64
    reverb: Byte = 40
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

    take: Number
    proposal: Number
    first: Number
    amount: Number
    notes: tuple[NamedNote, ...] = ()
    tracks: tuple[Track, ...] = ()


@dataclass(frozen=True)
class Change:
    """What one operation does. Empty or None is what it leaves alone; of tracks, pedals and marks
    it holds the whole new list.

    ``accept`` and ``reject`` say which proposals come into the piece or leave it by this.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    label: Name = ""
    remove: tuple[Number, ...] = ()
    add: tuple[NamedNote, ...] = ()
    change: tuple[NamedNote, ...] = ()
    lock: tuple[Number, ...] = ()
    unlock: tuple[Number, ...] = ()
    accept: tuple[Accepted, ...] = ()
    reject: tuple[Accepted, ...] = ()
    name: Name | None = None
    tracks: tuple[Track, ...] | None = None
    pedals: tuple[Pedal, ...] | None = None
    tempos: tuple[Tempo, ...] | None = None
    meters: tuple[Meter, ...] | None = None
    keys: tuple[Key, ...] | None = None
    fermatas: tuple[Seconds, ...] | None = None
    markers: tuple[Text, ...] | None = None
    lyrics: tuple[Text, ...] | None = None
    favourites: tuple[tuple[Number, Number], ...] | None = None

    def json(self) -> dict[str, Any]:
        """What it does, without what it leaves alone; :func:`recorded` is the inverse."""
        fields: dict[str, Any] = _CHANGE.dump_python(self, exclude_defaults=True)
        return fields


_CHANGE = TypeAdapter(Change)


def recorded(data: Any) -> Change:
    """The change whose :meth:`Change.json` was written down, which hands and disks may damage;
    :class:`Refused` in one sentence that names the part that cannot be."""
    change: Change = checked(_CHANGE, data)
    return change


def parse(data: Any) -> Change:
    """The change that a page requests by the JSON ``data``: it accepts by a route of its own."""
    change: Change = checked(_CHANGE, data)
    if change.accept or change.reject:
        raise Refused("accept: proposals are accepted by their take")
    return change
