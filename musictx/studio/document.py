"""The piece that a page shows. Each note has a number that is never reused, so that a page, a
proposal and the history always mean the same note."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from musictx.beats import Beats
from musictx.notes import Score
from musictx.studio import change as types
from musictx.studio.change import REPLACED_FIELDS, Accepted, Change, NumberedNote, Track
from musictx.studio.config import StudioLimits
from musictx.studio.errors import Refused, validate

#: Seconds by which a note may start before its bar and still count as in it.
EARLY_SECONDS = 0.1
#: The slowest and fastest tempo that a MIDI file can hold, in quarter notes a minute.
SLOWEST, FASTEST = 3.6, 6e7


@dataclass
class Document:
    """A piece with the settings of its page. All times are in seconds.

    revision    the number of operations so far; undo and redo count, too
    notes       {number: (start, end, pitch, velocity, track id)}
    locked      numbers of the notes that composing does not change
    next_id     the number of the next new note
    accepted    the proposals in the piece, each with the notes that it added and replaced
    tempos, meters, keys, pedals  rows as in :mod:`musictx.studio.change`
    clock       tempos that change only together with the times of all notes; converts takes
    favourites  (take, proposal) of the proposals that the user marked
    fermatas, markers, lyrics, composer  as in :class:`musictx.notes.Score`
    """

    name: types.Name = ""
    revision: types.Number = 0
    notes: dict[types.Number, types.Note] = field(default_factory=dict)
    locked: set[types.Number] = field(default_factory=set)
    next_id: types.Number = 0
    accepted: set[Accepted] = field(default_factory=set)
    tracks: tuple[Track, ...] = (Track(0, "", 0, False),)
    pedals: tuple[types.Pedal, ...] = ()
    tempos: tuple[types.Tempo, ...] = ((0.0, 120.0),)
    clock: tuple[types.Tempo, ...] = ((0.0, 60.0),)
    meters: tuple[types.Meter, ...] = ((0.0, 4, 4),)
    keys: tuple[types.Key, ...] = ()
    ticks_per_quarter: Annotated[int, Field(ge=0, lt=2**15)] = 480
    fermatas: tuple[types.Seconds, ...] = ()
    composer: types.Name = ""
    markers: tuple[types.Text, ...] = ()
    lyrics: tuple[types.Text, ...] = ()
    favourites: tuple[tuple[types.Number, types.Number], ...] = ()

    @property
    def duration(self) -> float:
        """The end of the last note, in seconds; 0 without notes."""
        return max((end for _, end, *_ in self.notes.values()), default=0.0)

    @property
    def beats(self) -> Beats:
        return Beats(Score(tempos=self.tempos, meters=self.meters))  # type: ignore[arg-type]

    def rows(self, numbers: Iterable[int] | None = None) -> list[NumberedNote]:
        """Return the notes of these ``numbers`` (``None``: all), sorted by start and number."""
        numbers = self.notes if numbers is None else numbers
        rows = [(number, *self.notes[number]) for number in numbers]
        return sorted(rows, key=lambda row: (row[1], row[0]))

    def copy(self) -> Document:
        """Return a copy that can be changed independently."""
        return dataclasses.replace(
            self, notes=dict(self.notes), locked=set(self.locked), accepted=set(self.accepted)
        )

    def apply(self, change: Change) -> Change:
        """Apply ``change``, and return the change that undoes it. First call :meth:`check`. For a
        change from the history, :meth:`check_references` is enough."""
        inverse = self._inverse(change)
        for number in change.remove:
            del self.notes[number]
            self.locked.discard(number)
        for number, *values in (*change.add, *change.change):
            self.notes[number] = tuple(values)  # type: ignore[assignment]
        self.next_id = max([self.next_id, *(number + 1 for number, *_ in change.add)])
        self.locked = (self.locked | set(change.lock)) - set(change.unlock)
        self.accepted = (self.accepted | set(change.accept)) - set(change.reject)
        for name in REPLACED_FIELDS:
            if getattr(change, name) is not None:
                setattr(self, name, getattr(change, name))
        self.revision += 1
        return inverse

    def _inverse(self, change: Change) -> Change:
        """Return the change that undoes ``change``, which is not applied yet."""

        def present_rows(numbers: Iterable[int]) -> tuple[NumberedNote, ...]:
            return tuple((number, *self.notes[number]) for number in numbers)

        added = set(change.added_numbers)
        unlocked = set(change.remove) | set(change.unlock)
        return Change(
            label=change.label,
            remove=change.added_numbers,
            add=present_rows(change.remove),
            change=present_rows(number for number, *_ in change.change),
            lock=tuple(sorted(self.locked & unlocked)),
            unlock=tuple(n for n in change.lock if n not in self.locked and n not in added),
            accept=change.reject,
            reject=change.accept,
            **{
                name: getattr(self, name)
                for name in REPLACED_FIELDS
                if getattr(change, name) is not None
            },
        )

    def check(self, change: Change, limits: StudioLimits) -> Change:
        """Return ``change`` without the pedals of tracks that it removes, and with ``added`` set in
        its tracks. Raise :class:`Refused` if it cannot be applied."""
        self.check_references(change)
        self._check_new(change)
        self._check_limits(change, limits)
        tracks = self.tracks if change.tracks is None else change.tracks
        track_ids = {track.id for track in tracks}
        old_pedals = self.pedals if change.pedals is None else change.pedals
        pedals = tuple(row for row in old_pedals if row[2] in track_ids)
        if pedals != old_pedals:
            change = dataclasses.replace(change, pedals=pedals)
        if change.tracks is None or change.accept:  # an acceptance sets ``added`` itself
            return change
        added = {track.id: track.added for track in self.tracks}
        tracks = tuple(track._replace(added=added.get(track.id, True)) for track in change.tracks)
        return dataclasses.replace(change, tracks=tracks)

    def check_references(self, change: Change) -> None:
        """Raise :class:`Refused` if a removed or changed note, or a track of notes, is missing."""
        changed = [number for number, *_ in change.change]
        for field_name, numbers in {"remove": change.remove, "change": changed}.items():
            _check_distinct(field_name, numbers)
            for number in numbers:
                if number not in self.notes:
                    raise Refused(f"{field_name}: there is no note {number}")
        if set(changed) & set(change.remove):
            raise Refused("change: a note is changed and removed at once")
        tracks = self.tracks if change.tracks is None else change.tracks
        track_ids = [track.id for track in tracks]
        used = {row[5] for row in (*change.add, *change.change)}
        if change.tracks is not None:
            _check_distinct("tracks", track_ids)
            used |= self.tracks_of(self.notes.keys() - {*change.remove, *changed})
        if missing := used - {*track_ids}:
            raise Refused(f"tracks: there are notes on track {min(missing)}, which is missing")

    def _check_new(self, change: Change) -> None:
        """Raise :class:`Refused` unless new notes have the next numbers, and notes that are locked
        or unlocked exist. Returning notes, which a rejected proposal had replaced, keep theirs."""
        returning = {number for row in change.reject for number, *_ in row.replaced}
        returning -= self.notes.keys()
        new = sorted(number for number in change.added_numbers if number not in returning)
        if new != [*range(self.next_id, self.next_id + len(new))]:
            raise Refused(f"add: new notes are numbered from {self.next_id} on without gaps")
        numbers_after = self.notes.keys() - set(change.remove) | set(change.added_numbers)
        for number in (*change.lock, *change.unlock):
            if number not in numbers_after:
                raise Refused(f"lock: there is no note {number}")
        if change.name == "":
            raise Refused("name: expected at least one character")

    def _check_limits(self, change: Change, limits: StudioLimits) -> None:
        """Raise :class:`Refused` if the document would exceed ``limits`` after ``change``."""
        count = len(self.notes) - len(change.remove) + len(change.add)
        if count > limits.notes and change.add:
            raise Refused(f"{count} notes are more than the studio accepts, {limits.notes}")
        for _, _, end, *_ in (*change.add, *change.change):
            if end > limits.seconds:
                raise Refused(
                    f"a note ends at {end:.0f} s; a piece lasts at most {limits.seconds} s here"
                )
        if len(change.tracks or ()) > limits.tracks:
            raise Refused(f"{len(change.tracks or ())} tracks are more than the studio accepts")
        for time, bpm in set(change.tempos or ()) - {*self.tempos}:
            if not SLOWEST <= bpm <= FASTEST:
                raise Refused(f"tempos: {bpm:g} at {time:g} s: expected {SLOWEST} to {FASTEST:g}")
        if len(change.pedals or ()) > 10 * limits.notes:
            raise Refused(f"pedals: more than {10 * limits.notes} pedal movements")

    def tracks_of(self, numbers: Iterable[int]) -> set[int]:
        """Return the ids of the tracks of the notes with these ``numbers``."""
        return {self.notes[number][4] for number in numbers}

    def state(self) -> dict[str, Any]:
        """Return the whole document as JSON; :meth:`from_state` is the inverse."""
        return {"notes": self.rows()} | {name: self.field(name) for name in FIELDS}

    def field(self, name: str) -> Any:
        """Return one of the :data:`FIELDS` as JSON."""
        value = getattr(self, name)
        return sorted(value) if isinstance(value, set) else value

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Document:
        """Return the document of a :meth:`state`; raise an exception if the state is damaged."""
        fields = {name: state[name] for name in ("revision", "next_id", "locked", "accepted")}
        fields["notes"] = {number: values for number, *values in state["notes"]}
        document = validate(cls, {**state, **fields})
        if document.next_id <= max(document.notes, default=-1):
            raise Refused("next_id: there is a note of this or a higher number")
        document.check_references(Change(tracks=document.tracks))
        return document


#: The names of all fields except ``notes``.
FIELDS = tuple(f.name for f in dataclasses.fields(Document) if f.name != "notes")


def _check_distinct(field_name: str, numbers: Sequence[int]) -> None:
    if len(set(numbers)) < len(numbers):
        raise Refused(f"{field_name}: a number is given twice")


def starts_inside(note: types.Note, begin: float, end: float) -> bool:
    """Return whether a note starts between the bar lines at ``begin`` and ``end`` seconds.

    Players are not exact. So a note that starts at most :data:`EARLY_SECONDS` before a bar line,
    and sounds longer after it than before it, counts as starting at the bar line."""
    start, stop = note[:2]

    def starts_after(line: float) -> bool:
        return start >= line - 1e-6 or (
            start >= line - EARLY_SECONDS and stop - line > max(line - start, (stop - start) / 2)
        )

    return starts_after(begin) and not starts_after(end)
