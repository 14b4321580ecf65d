"""The music that a page shows, as an object that operations change; it does not depend on files.

Each note has a number that is never used again, so that a page, a proposal and the history always
refer to the same note.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from musictx.studio import change as types
from musictx.studio.change import WHOLE, Accepted, Change, NamedNote, Note, Number, Seconds, Track
from musictx.studio.config import StudioLimits
from musictx.studio.errors import Refused, checked

#: Seconds by which a note may begin before the bar line that it belongs to.
EARLY = 0.1
#: The slowest and fastest tempo that a MIDI file can hold, in quarter notes a minute.
SLOWEST, FASTEST = 3.6, 6e7


@dataclass
class Document:
    """A piece as the studio keeps it; times in seconds.

    notes     number -> (start, end, pitch, velocity, track)
    locked    numbers of the notes that composing does not change
    next_id   the number of the next new note
    accepted  the proposals in the piece, each with the notes that it added and those it replaced
    fermatas, markers, lyrics, composer   see :class:`musictx.notes.Score`
    favourites  (take, proposal) of the proposals that the user marked
    """

    name: types.Name = ""
    revision: Number = 0
    notes: dict[Number, Note] = field(default_factory=dict)
    locked: set[Number] = field(default_factory=set)
    next_id: Number = 0
    accepted: set[Accepted] = field(default_factory=set)
    tracks: tuple[Track, ...] = (Track(0, "", 0, False),)
    pedals: tuple[types.Pedal, ...] = ()
    tempos: tuple[types.Tempo, ...] = ((0.0, 120.0),)
    meters: tuple[types.Meter, ...] = ((0.0, 4, 4),)
    keys: tuple[types.Key, ...] = ()
    ticks_per_quarter: Annotated[int, Field(ge=0, lt=2**15)] = 480
    fermatas: tuple[Seconds, ...] = ()
    composer: types.Name = ""
    markers: tuple[types.Text, ...] = ()
    lyrics: tuple[types.Text, ...] = ()
    favourites: tuple[tuple[Number, Number], ...] = ()

    @property
    def duration(self) -> float:
        """Seconds to the end of the last note; 0 without notes."""
        return max((end for _, end, *_ in self.notes.values()), default=0.0)

    def rows(self, numbers: Iterable[int] | None = None) -> list[NamedNote]:
        """The notes, or those of some ``numbers``, by start; those that begin together by
        number."""
        chosen = self.notes if numbers is None else numbers
        rows = [(number, *self.notes[number]) for number in chosen]
        return sorted(rows, key=lambda row: (row[1], row[0]))

    def copy(self) -> Document:
        """A copy that can be changed independently."""
        return dataclasses.replace(
            self, notes=dict(self.notes), locked=set(self.locked), accepted=set(self.accepted)
        )

    def apply(self, change: Change) -> Change:
        """Apply ``change``, and return the change that undoes it. Call :meth:`check` before, or
        only :meth:`fits` for a change from the history, which was checked when it was saved."""
        back = self._inverse(change)
        for number in change.remove:
            del self.notes[number]
            self.locked.discard(number)
        for number, *values in (*change.add, *change.change):
            self.notes[number] = tuple(values)  # type: ignore[assignment]
        for number, *_ in change.add:
            self.next_id = max(self.next_id, number + 1)
        self.locked = (self.locked | set(change.lock)) - set(change.unlock)
        self.accepted = (self.accepted | set(change.accept)) - set(change.reject)
        for name in WHOLE:
            if getattr(change, name) is not None:
                setattr(self, name, getattr(change, name))
        self.revision += 1
        return back

    def _inverse(self, change: Change) -> Change:
        """The change that undoes ``change``, computed before it is applied."""
        taken = set(change.remove)
        lists = {n: getattr(self, n) for n in WHOLE if getattr(change, n) is not None}
        return Change(
            label=change.label,
            remove=tuple(number for number, *_ in change.add),
            add=tuple((number, *self.notes[number]) for number in change.remove),
            change=tuple((number, *self.notes[number]) for number, *_ in change.change),
            lock=tuple(sorted(self.locked & (taken | set(change.unlock)))),
            unlock=tuple(
                n for n in change.lock if n not in self.locked and n not in _added(change)
            ),
            accept=change.reject,
            reject=change.accept,
            **lists,
        )

    def check(self, change: Change, limits: StudioLimits) -> Change:
        """``change`` in the form that can be applied: without the pedals of tracks that it removes,
        and with ``added`` set in its tracks. Raises :class:`Refused` in one sentence if it cannot
        be applied."""
        self.fits(change)
        added_numbers = _added(change)
        replaced = {number for row in change.reject for number, *_ in row.notes}
        returning = replaced - self.notes.keys()
        new_numbers = sorted(number for number, *_ in change.add if number not in returning)
        if new_numbers != list(range(self.next_id, self.next_id + len(new_numbers))):
            raise Refused(f"add: new notes are numbered from {self.next_id} on without gaps")
        for number in (*change.lock, *change.unlock):
            if number not in (self.notes.keys() | added_numbers) - set(change.remove):
                raise Refused(f"lock: there is no note {number}")
        if change.name == "":
            raise Refused("name: expected at least a letter")
        count = len(self.notes) - len(change.remove) + len(change.add)
        if count > limits.notes and change.add:
            raise Refused(f"{count} notes are more than the studio takes, {limits.notes}")
        for row in (*change.add, *change.change):
            if row[2] > limits.seconds:
                raise Refused(
                    f"a note ends at {row[2]:.0f} s; a piece lasts at most {limits.seconds} s here"
                )
        tracks = self.tracks if change.tracks is None else change.tracks
        ids = {track.id for track in tracks}
        if change.tracks is not None and len(tracks) > limits.tracks:
            raise Refused(f"{len(tracks)} tracks are more than the studio takes")
        for time, bpm in set(change.tempos or ()) - {*self.tempos}:
            if not SLOWEST <= bpm <= FASTEST:
                raise Refused(f"tempos: at {time:g} s {bpm:g}, expected {SLOWEST} to {FASTEST:g}")
        if change.pedals is not None and len(change.pedals) > 10 * limits.notes:
            raise Refused(f"pedals: more than {10 * limits.notes} movements")
        pedals = self.pedals if change.pedals is None else change.pedals
        kept = tuple(row for row in pedals if row[2] in ids)
        if kept != pedals:
            change = dataclasses.replace(change, pedals=kept)
        if change.tracks is None:
            return change
        was_added = {t.id: t.added for row in change.reject for t in row.tracks}
        was_added |= {t.id: t.added for t in self.tracks}
        tracks = tuple(t._replace(added=was_added.get(t.id, True)) for t in change.tracks)
        return dataclasses.replace(change, tracks=tracks)

    def fits(self, change: Change) -> None:
        """Raises :class:`Refused` unless :meth:`apply` can do ``change``: the notes that it removes
        or changes exist, and afterwards every note has a track."""
        changed = [number for number, *_ in change.change]
        for what, numbers in (("remove", change.remove), ("change", changed)):
            _distinct(what, numbers)
            for number in numbers:
                if number not in self.notes:
                    raise Refused(f"{what}: there is no note {number}")
        if set(changed) & set(change.remove):
            raise Refused("change: a note is changed and removed at once")
        tracks = self.tracks if change.tracks is None else change.tracks
        ids = {track.id for track in tracks}
        used = {row[5] for row in (*change.add, *change.change)}
        if change.tracks is not None:
            _distinct("tracks", [track.id for track in tracks])
            leaving = {*change.remove, *changed}
            used |= {values[4] for number, values in self.notes.items() if number not in leaving}
        if not used <= ids:
            raise Refused(f"tracks: there are notes on track {min(used - ids)}, which is missing")

    def accepting(self, take: int, proposal: Mapping[str, Any], label: str) -> Change:
        """The change that adds the notes of a ``proposal`` of a take, and removes those that it
        replaces. If another proposal of the same take is in the piece, it is removed first: its
        notes are removed, and the notes that it had replaced return, unless this proposal or
        another take replaces them, too. A track without notes is removed if the proposal has new
        tracks."""
        earlier = [row for row in self.accepted if row.take == take]
        others = [row for row in self.accepted if row.take != take]
        earlier_notes = {n for row in earlier for n in range(row.first, row.first + row.amount)}
        replaces = set(proposal["removes"])
        leaving = {n for n in earlier_notes | replaces if n in self.notes and n not in self.locked}
        returning, tracks = self._returning(earlier, others, proposal)
        used = {values[4] for number, values in self.notes.items() if number not in leaving}
        used |= {row[5] for row in returning}
        spare = {self.notes[number][4] for number in leaving & earlier_notes} - used
        tracks, places = _places(tracks, proposal, spare)
        new: list[NamedNote] = []
        for *values, track_number in proposal["notes"]:
            if track_number not in places:
                raise Refused("this proposal plays on a track that is no longer there")
            new.append((self.next_id + len(new), *values, places[track_number]))
        if proposal.get("tracks"):  # such as the melody's, where four voices take its place
            used |= {row[5] for row in new}
            empty = {self.notes[number][4] for number in leaving} - used
            tracks = tuple(track for track in tracks if track.id not in empty)
        # The proposal keeps all notes that it replaces, so that they can return, also those that
        # are absent because the proposal of another take has replaced them.
        replaced = [(number, *self.notes[number]) for number in sorted(leaving - earlier_notes)]
        absent = {note[0]: note for row in self.accepted for note in row.notes}
        replaced += [note for number, note in absent.items() if number in replaces]
        tracks_before = [track for row in earlier for track in row.tracks] + [*self.tracks]
        removed_tracks = tuple(track for track in tracks_before if track not in tracks)
        numbers = int(proposal["number"]), self.next_id, len(new)
        after = {Accepted(take, *numbers, tuple(replaced), removed_tracks)}
        for row in others:  # they must not bring back notes of the removed proposal later
            notes = tuple(note for note in row.notes if note[0] not in earlier_notes)
            after.add(row._replace(notes=notes))
        return Change(
            label,
            remove=tuple(sorted(leaving)),
            add=(*returning, *new),
            accept=tuple(sorted(after - self.accepted)),
            reject=tuple(sorted(self.accepted - after)),
            tracks=tracks if tracks != self.tracks else None,
        )

    def _returning(
        self, earlier: list[Accepted], others: list[Accepted], proposal: Mapping[str, Any]
    ) -> tuple[list[NamedNote], tuple[Track, ...]]:
        """The notes that return, and all tracks, when ``proposal`` takes the place of the
        ``earlier`` ones of its take.

        Notes return that an earlier proposal had replaced, unless the new proposal or one of the
        ``others`` replaces them or their track was deleted in the meantime. Tracks return that
        these notes or the notes of the new proposal need."""
        unwanted = {*proposal["removes"], *(n for row in others for n, *_ in row.notes)}
        present = {track.id for track in self.tracks}
        replaced_tracks = {track.id: track for row in (*others, *earlier) for track in row.tracks}
        notes = [note for row in earlier for note in row.notes if note[0] not in unwanted]
        notes = [note for note in notes if note[5] in present | replaced_tracks.keys()]
        earlier_tracks = {track.id for row in earlier for track in row.tracks}
        needed = {n[5] for n in notes} | {row[4] for row in proposal["notes"]} & earlier_tracks
        again = tuple(replaced_tracks[number] for number in sorted(needed - present))
        return notes, self.tracks + again

    def state(self) -> dict[str, Any]:
        """Everything, for JSON; :meth:`restored` is the inverse."""
        return {"notes": self.rows()} | {name: self.field(name) for name in FIELDS}

    def field(self, name: str) -> Any:
        """One of the :data:`FIELDS`, for JSON."""
        value = getattr(self, name)
        return sorted(value) if isinstance(value, set) else value

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Document:
        """The document from a saved :meth:`state`. Raises :class:`Refused`, ``KeyError`` or
        ``TypeError`` if it is damaged."""
        fields = {name: state[name] for name in ("revision", "next_id", "locked", "accepted")}
        fields["notes"] = {number: values for number, *values in state["notes"]}
        document: Document = checked(_DOCUMENT, {**state, **fields})
        if document.next_id <= max(document.notes, default=-1):
            raise Refused("next_id: there is a note of this number")
        document.fits(Change(tracks=document.tracks))
        return document


_DOCUMENT = TypeAdapter(Document)
#: All of a document but its notes.
FIELDS = tuple(f.name for f in dataclasses.fields(Document) if f.name != "notes")


def _places(
    tracks: Iterable[Track], proposal: Mapping[str, Any], spare: set[int]
) -> tuple[tuple[Track, ...], dict[int, int]]:
    """All ``tracks`` with the new ones of a proposal, and a dict from the track numbers in the
    proposal to those in the document.

    A new track with the name, program and drums of one of the ``spare`` tracks, which have no notes
    any more, is that track."""
    free = [track for track in tracks if track.id in spare]
    all_tracks, places = list(tracks), {track.id: track.id for track in tracks}
    for new in (Track(**row) for row in proposal.get("tracks") or ()):
        same = next((track for track in free if track.kind == new.kind), None)
        if same is not None:
            free.remove(same)
        else:
            number = new.id
            while any(number == track.id for track in all_tracks):
                number += 1
            same = new._replace(id=number, added=True)
            all_tracks.append(same)
        places[new.id] = same.id
    return tuple(all_tracks), places


def _added(change: Change) -> set[int]:
    return {number for number, *_ in change.add}


def _distinct(what: str, numbers: Iterable[int]) -> None:
    numbers = list(numbers)
    if len(set(numbers)) < len(numbers):
        raise Refused(f"{what}: a number is given twice")


def within(note: Note, begin: float, end: float) -> bool:
    """Whether a note belongs to the stretch from ``begin`` to ``end`` seconds: it begins in it. A
    note that begins at most :data:`EARLY` seconds before a line, and mostly sounds after it, counts
    as one that begins at the line: players are not exact."""
    start, stop = note[:2]

    def after(line: float) -> bool:
        return start >= line - 1e-6 or (
            start >= line - EARLY and stop - line > max(line - start, (stop - start) / 2)
        )

    return after(begin) and not after(end)
