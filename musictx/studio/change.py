"""One operation on a document, as a value: what it removes, adds and changes.

An operation is saved together with its inverse, so that it can be undone and redone.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, fields
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, ConfigDict, Field

from musictx.config.checks import DAY
from musictx.studio.errors import Refused, adapter, validate

#: The most characters of a name; longer ones are cut.
LONGEST_NAME = 80
#: {setting of the mixer: its MIDI controller}
MIXER = {"volume": 7, "pan": 10, "reverb": 91}
#: Fields whose rows are (seconds, text).
TEXTS = ("markers", "lyrics")


def clean_name(text: str) -> str:
    """Return ``text`` as one line of at most :data:`LONGEST_NAME` printable characters."""
    printable = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text)
    return " ".join(printable.split())[:LONGEST_NAME].strip()


Row = TypeVar("Row", bound=tuple[Any, ...])


def _check_times(row: Row) -> Row:
    """Return the note ``row``; raise ``ValueError`` if it ends before it begins."""
    start, end = row[-5:-3]
    if end < start:
        raise ValueError(f"it ends at {end:g} s, before it begins at {start:g} s")
    return row


Seconds = Annotated[float, Field(ge=0, le=DAY, allow_inf_nan=False)]
#: The number of a note, a take or a proposal, which is never reused; or a count of notes.
Number = Annotated[int, Field(ge=0, le=2**53)]
Byte = Annotated[int, Field(ge=0, le=127)]
Velocity = Annotated[int, Field(ge=1, le=127)]
TrackId = Annotated[int, Field(ge=0, le=65_534)]
Name = Annotated[str, AfterValidator(clean_name)]
#: (start, end, pitch, velocity, track id), in seconds from the start of the piece.
Note = Annotated[tuple[Seconds, Seconds, Byte, Velocity, TrackId], AfterValidator(_check_times)]
#: A :data:`Note` after its number.
NumberedNote = Annotated[
    tuple[Number, Seconds, Seconds, Byte, Velocity, TrackId], AfterValidator(_check_times)
]
#: Tempo (seconds, quarter notes a minute), meter (seconds, numerator, denominator) and key
#: (seconds, sharps or -flats, minor) allow the extreme values that files may have.
Tempo = tuple[Seconds, Annotated[float, Field(ge=1e-9, le=1e12, allow_inf_nan=False)]]
Meter = tuple[Seconds, Annotated[int, Field(ge=1, le=255)], Annotated[int, Field(ge=1, le=65_535)]]
Key = tuple[Seconds, Annotated[int, Field(ge=-128, le=127)], bool]
#: (seconds, value of the sustain pedal, track id)
Pedal = tuple[Seconds, Byte, TrackId]
Text = tuple[Seconds, Name]


class Track(NamedTuple):
    """A track of the piece; ``name`` may be empty. ``volume``, ``pan`` and ``reverb`` are MIDI
    values. An ``added`` track is not from the opened file, even if its id was used there."""

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
    def instrument(self) -> tuple[str, int, bool]:
        """Name, program and whether it is for drums."""
        return self.name, self.program, self.drum


class Accepted(NamedTuple):
    """A proposal whose notes are in the piece.

    first, note_count  the number of the first note that it added, and the count of these notes
    replaced           the notes that it replaced. They return if another proposal of the same take
                       is accepted instead, unless that proposal also replaces them
    removed_tracks     the tracks that it removed, which return with their notes
    """

    take: Number
    proposal: Number
    first: Number
    note_count: Number
    replaced: tuple[NumberedNote, ...] = ()
    removed_tracks: tuple[Track, ...] = ()


@dataclass(frozen=True)
class Change:
    """One operation.

    label                 a description for the user
    add, change           new notes, and existing notes with their new values
    remove, lock, unlock  numbers of notes
    accept, reject        the proposals that become part of the piece, or no longer are
    all other fields      the new values of :data:`REPLACED_FIELDS`, maybe empty; None: unchanged
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    label: Name = ""
    remove: tuple[Number, ...] = ()
    add: tuple[NumberedNote, ...] = ()
    change: tuple[NumberedNote, ...] = ()
    lock: tuple[Number, ...] = ()
    unlock: tuple[Number, ...] = ()
    accept: tuple[Accepted, ...] = ()
    reject: tuple[Accepted, ...] = ()
    name: Name | None = None
    tracks: tuple[Track, ...] | None = None
    pedals: tuple[Pedal, ...] | None = None
    tempos: tuple[Tempo, ...] | None = None
    clock: tuple[Tempo, ...] | None = None
    meters: tuple[Meter, ...] | None = None
    keys: tuple[Key, ...] | None = None
    fermatas: tuple[Seconds, ...] | None = None
    markers: tuple[Text, ...] | None = None
    lyrics: tuple[Text, ...] | None = None
    favourites: tuple[tuple[Number, Number], ...] | None = None

    @property
    def added_numbers(self) -> tuple[int, ...]:
        """The numbers of the new notes."""
        return tuple(number for number, *_ in self.add)

    def json(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        content: dict[str, Any] = adapter(Change).dump_python(self, exclude_defaults=True)
        return content


#: Fields of the document that a change replaces as a whole.
REPLACED_FIELDS = tuple(field.name for field in fields(Change) if field.default is None)


def parse_change(data: Any) -> Change:
    """Return the change that a page requests. Raise :class:`Refused` if it is invalid, or has
    a field that only the routes of takes and of the timing set."""
    change = validate(Change, data)
    if change.accept or change.reject or change.clock is not None:
        raise Refused("accept, reject, clock: use the routes takes/{take}/accept and timing")
    return change
