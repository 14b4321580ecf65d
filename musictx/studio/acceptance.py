"""The change of a document that accepts a proposal, in place of an earlier one of the same take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from musictx.studio.change import Accepted, Change, NamedNote, Track
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.takes import Proposal


def acceptance(document: Document, take: int, proposal: Proposal, label: str = "") -> Change:
    """Return the change that adds the notes of ``proposal`` and removes the notes it replaces.

    A proposal of the same take that was accepted before is undone first: its notes are removed, and
    the notes that it had replaced return, unless this proposal or another take replaces them, too.
    Locked notes stay. Tracks that lose all notes are removed if the proposal has new tracks.
    """
    previous = [row for row in document.accepted if row.take == take]
    others = document.accepted - {*previous}
    previous_numbers = {n for row in previous for n in range(row.first, row.first + row.amount)}
    replaced_numbers = set(proposal.removes)
    removed = (previous_numbers | replaced_numbers) & (document.notes.keys() - document.locked)
    returning, tracks = _returning(document, previous, others, proposal)
    used = document.tracks_of(document.notes.keys() - removed) | {note[5] for note in returning}
    reusable = document.tracks_of(removed & previous_numbers) - used
    tracks, track_ids = _add_tracks(tracks, proposal.tracks, reusable)
    added: list[NamedNote] = []
    for start, end, pitch, velocity, track in proposal.notes:
        if track not in track_ids:
            raise Refused("this proposal plays on a track that is no longer there")
        number = document.next_id + len(added)
        added.append((number, start, end, pitch, velocity, track_ids[track]))
    if proposal.tracks:  # for example four voices, which replace the track of a melody
        emptied = document.tracks_of(removed) - used - {note[5] for note in added}
        tracks = tuple(track for track in tracks if track.id not in emptied)
    # All notes that the proposal replaces can return later, also notes that are absent because a
    # proposal of another take has replaced them.
    replaced = [(number, *document.notes[number]) for number in sorted(removed - previous_numbers)]
    absent = {note[0]: note for row in document.accepted for note in row.replaced}
    replaced += [note for number, note in absent.items() if number in replaced_numbers]
    old_tracks = [track for row in previous for track in row.removed_tracks] + [*document.tracks]
    removed_tracks = tuple(track for track in old_tracks if track not in tracks)
    place = take, proposal.number, document.next_id, len(added)
    after = {Accepted(*place, tuple(replaced), removed_tracks)}
    for row in others:  # other takes must not bring back notes of the previous proposal later
        notes = tuple(note for note in row.replaced if note[0] not in previous_numbers)
        after.add(row._replace(replaced=notes))
    return Change(
        label,
        remove=tuple(sorted(removed)),
        add=(*returning, *added),
        accept=tuple(sorted(after - document.accepted)),
        reject=tuple(sorted(document.accepted - after)),
        tracks=tracks if tracks != document.tracks else None,
    )


def _returning(
    document: Document, previous: Iterable[Accepted], others: Iterable[Accepted], proposal: Proposal
) -> tuple[list[NamedNote], tuple[Track, ...]]:
    """Return the notes that return when ``proposal`` takes the place of the ``previous`` one, and
    the tracks of the document with the tracks that return.

    A note that the previous proposal had replaced returns unless the new proposal or one of the
    ``others`` replaces it, or its track was deleted in the meantime. A removed track returns if a
    returning note, or a note of the new proposal, needs it."""
    unwanted = {*proposal.removes, *(note[0] for row in others for note in row.replaced)}
    present = {track.id for track in document.tracks}
    previous_tracks = {t.id: t for row in previous for t in row.removed_tracks}
    removed_tracks = {t.id: t for row in others for t in row.removed_tracks} | previous_tracks
    notes = [
        note
        for row in previous
        for note in row.replaced
        if note[0] not in unwanted and note[5] in present | removed_tracks.keys()
    ]
    needed = {note[5] for note in notes}
    needed |= {row[4] for row in proposal.notes} & previous_tracks.keys()
    again = tuple(removed_tracks[number] for number in sorted(needed - present))
    return notes, document.tracks + again


def _add_tracks(
    tracks: Iterable[Track], new_tracks: Iterable[Mapping[str, Any]], reusable: set[int]
) -> tuple[tuple[Track, ...], dict[int, int]]:
    """Return ``tracks`` with the ``new_tracks`` of a proposal, and the id in the document of each
    track id in the proposal.

    A new track with the name, program and drums of a ``reusable`` track, which has no notes any
    more, is that track."""
    free = [track for track in tracks if track.id in reusable]
    all_tracks, ids = list(tracks), {track.id: track.id for track in tracks}
    for new in (Track(**row) for row in new_tracks):
        track = next((track for track in free if track.kind == new.kind), None)
        if track is not None:
            free.remove(track)
        else:
            number = new.id
            while any(number == other.id for other in all_tracks):
                number += 1
            track = new._replace(id=number, added=True)
            all_tracks.append(track)
        ids[new.id] = track.id
    return tuple(all_tracks), ids
