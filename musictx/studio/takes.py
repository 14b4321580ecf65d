"""Takes: requests with their progress and results; and the change that accepts a proposal. Pages
get a take only once it is on the disk.

Files in the folder ``takes/`` of a session:
    0007.mid                 the input of take 7; a new piece has none
    0007-1.mid, 0007-2.mid   its proposals, as the command writes them
    0007.json                the state of the take
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field, FiniteFloat

from musictx.beats import Beats
from musictx.files import read_bytes, remove_partial, write_text
from musictx.notes import Score
from musictx.studio import change as types
from musictx.studio.change import Accepted, Change, Note, Number, NumberedNote, Track
from musictx.studio.document import Document
from musictx.studio.errors import Refused, validate

#: The largest JSON file of a take, MB; a larger one is damaged, and could fill the memory.
MOST_MB = 64
#: The states of unfinished takes and proposals.
RUNNING = ("waiting", "composing")
State = Literal["waiting", "composing", "done", "failed", "stopped"]
TrackRow = Annotated[dict[str, Any], AfterValidator(lambda row: validate(Track, row)._asdict())]


@dataclass
class Proposal:
    """One result of a take: the ``notes`` and ``tracks`` that it adds to the document, and the
    numbers of the notes that it ``removes``. While it is being composed it has only ``events``, the
    starts and ends of its notes so far (``TakeComposer.on_event``)."""

    number: Number
    state: State = "waiting"
    notes: Sequence[Note] = ()
    tracks: Sequence[TrackRow] = ()
    removes: Sequence[Number] = ()
    remark: str | None = None
    events: Sequence[Any] = ()


@dataclass
class Take:
    """One request and its results, as pages see them.

    place    the position in the queue, from 1; 0 if the take does not wait
    at_end   whether pages get the notes of a proposal only when it is finished
    aside    whether the user has hidden the take
    clock    the clock of the document when the take was requested
    """

    id: Annotated[int, Field(ge=1, le=10**9)]
    task: str
    label: str
    seed: Number
    model: str
    begin: types.Seconds
    end: types.Seconds
    tracks: list[types.TrackId] | None
    request: dict[str, Any]
    command: str
    input: str | None
    state: State = "waiting"
    place: int = 0
    progress: FiniteFloat = 0.0
    at_end: bool = False
    aside: bool = False
    error: str | None = None
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    proposals: list[Proposal] = field(default_factory=list)
    clock: tuple[types.Tempo, ...] = ((0.0, 60.0),)

    @property
    def is_running(self) -> bool:
        return self.state in RUNNING

    def at(self, clock: tuple[types.Tempo, ...]) -> Take:
        """Return the take with its times converted to those of a document with this ``clock``."""
        if clock == self.clock:
            return self
        old, new = (Beats(Score(tempos=rows)) for rows in (self.clock, clock))  # type: ignore[arg-type]

        def moved(rows: Sequence[Any]) -> list[Any]:
            times = new.seconds(old.quarters(np.array([row[:2] for row in rows]))).tolist()
            return [(*pair, *row[2:]) for pair, row in zip(times, rows)]

        ((begin, end),) = moved([(self.begin, self.end)])
        proposals = [replace(each, notes=moved(each.notes)) for each in self.proposals]
        request = self.request | {"begin": begin, "end": end}
        return replace(self, begin=begin, end=end, request=request, proposals=proposals)

    def json(self, notes: bool = True) -> dict[str, Any]:
        """Return the take as JSON for a page, with or without the notes of its proposals."""
        proposals = [vars(proposal).copy() for proposal in self.proposals]
        if not notes:
            for proposal in proposals:
                del proposal["notes"], proposal["events"]
        return vars(self) | {"proposals": proposals}

    def finish(self, state: State, error: str | None = None) -> None:
        """Set the final state of the take; unfinished proposals become failed."""
        self.state, self.place, self.error = state, 0, error
        for proposal in self.proposals:
            if proposal.state in RUNNING:
                proposal.state, proposal.events = "failed", ()


class Takes(dict[int, Take]):
    """{number: take} of the takes of one session, read from its folder. ``last_number`` is the
    highest number of a file there. It counts damaged takes, too, so that no number is reused."""

    def __init__(self, session_folder: Path) -> None:
        super().__init__()
        folder = session_folder / "takes"
        remove_partial(folder)
        for path in folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
                take = _parse_take(read_bytes(path, MOST_MB, "the size of a take"))
                if stem(take.id) == path.stem:
                    self[take.id] = take
        names = [re.match(r"[0-9]{4,9}\b", path.name) for path in folder.glob("*")]
        self.last_number = max((int(name[0]) for name in names if name), default=0)

    def proposal(self, take: int, number: Any, document: Document) -> tuple[Take, Proposal]:
        """Return a take and its finished proposal ``number``, with the times of ``document``, or
        raise :class:`Refused` (404)."""
        if take in self:
            for proposal in self[take].at(document.clock).proposals:
                if proposal.number == number and proposal.state == "done":
                    return self[take], proposal
        raise Refused(f"take {take} has no finished proposal {str(number)[:20]}", 404)


def _parse_take(data: bytes) -> Take:
    """Return the take from the content of its JSON file. A take that was not finished when the
    process ended is now stopped. Raise ``ValueError`` or another exception if it is damaged."""
    content = json.loads(data)
    for proposal in content["proposals"]:
        if proposal["state"] in RUNNING:  # earlier versions wrote notes without an end
            proposal["notes"] = ()
    json.dumps(content, allow_nan=False)  # raises ValueError for NaN, which no page can read
    take = validate(Take, content)
    if take.is_running:
        take.finish("stopped")
    return take


def stem(number: int) -> str:
    """Return the name of a take's files without their endings."""
    return f"{number:04d}"


def save_take(folder: Path, take: Take) -> None:
    """Write the state of a take into the folder of its session."""
    text = json.dumps(asdict(take), separators=(",", ":"), allow_nan=False)
    write_text(folder / "takes" / f"{stem(take.id)}.json", text)


def acceptance_change(document: Document, take: int, proposal: Proposal, label: str = "") -> Change:
    """Return the change that adds the notes of ``proposal`` of this ``take`` (its number), and
    removes the notes that it replaces.

    The previously accepted proposal of the take, if any, is taken out: its notes are removed, and
    the notes that it had replaced return, unless this proposal or another take also replaces them.
    Locked notes stay. Tracks that lose all their notes are removed if the proposal has new tracks.
    """
    nothing = Accepted(take, proposal=0, first=0, note_count=0)
    previous = next((row for row in document.accepted if row.take == take), nothing)
    previous_numbers = set(range(previous.first, previous.first + previous.note_count))
    replaced_numbers = set(proposal.removes)
    removed = (previous_numbers | replaced_numbers) & (document.notes.keys() - document.locked)
    returning, tracks = _find_returning(document, previous, proposal)
    used = document.tracks_of(document.notes.keys() - removed) | {note[5] for note in returning}
    reusable = document.tracks_of(removed & previous_numbers) - used
    tracks, track_ids = _add_tracks(tracks, proposal.tracks, reusable)
    added: list[NumberedNote] = []
    for start, end, pitch, velocity, track in proposal.notes:
        if track not in track_ids:
            raise Refused("this proposal has notes on a track that was deleted")
        number = document.next_id + len(added)
        added.append((number, start, end, pitch, velocity, track_ids[track]))
    if proposal.tracks:  # for example four voices, which replace the track of a melody
        emptied = document.tracks_of(removed) - used - {note[5] for note in added}
        tracks = tuple(track for track in tracks if track.id not in emptied)
    # All notes that the proposal replaces can return later, even those that are absent now because
    # a proposal of another take has replaced them.
    replaced = [(number, *document.notes[number]) for number in sorted(removed - previous_numbers)]
    absent = {note[0]: note for row in document.accepted for note in row.replaced}
    replaced += [note for number, note in absent.items() if number in replaced_numbers]
    old_tracks = (*previous.removed_tracks, *document.tracks)
    removed_tracks = tuple(track for track in old_tracks if track not in tracks)
    numbers = take, proposal.number, document.next_id, len(added)
    accepted = {Accepted(*numbers, tuple(replaced), removed_tracks)}
    for row in document.accepted - {previous}:  # must not return notes of the previous proposal
        notes = tuple(note for note in row.replaced if note[0] not in previous_numbers)
        accepted.add(row._replace(replaced=notes))
    last, new = (max((row[1] for row in rows), default=0.0) for rows in (document.rows(), added))
    final = document.markers[-1:]  # the end of a chart goes if only new notes start after it
    ends_later = any(text == "N" and last < time - 1e-3 < new for time, text in final)
    return Change(
        label,
        remove=tuple(sorted(removed)),
        add=(*returning, *added),
        accept=tuple(sorted(accepted - document.accepted)),
        reject=tuple(sorted(document.accepted - accepted)),
        tracks=tracks if tracks != document.tracks else None,
        markers=document.markers[:-1] if ends_later else None,
    )


def _find_returning(
    document: Document, previous: Accepted, proposal: Proposal
) -> tuple[list[NumberedNote], tuple[Track, ...]]:
    """Return the notes that return when ``proposal`` takes the place of the ``previous`` one of its
    take, and the tracks of the document followed by the tracks that return.

    A note that the previous proposal had replaced returns unless the new proposal or another take
    replaces it, or its track was deleted. A removed track returns if a note needs it."""
    other_takes = document.accepted - {previous}
    unwanted = {*proposal.removes, *(note[0] for row in other_takes for note in row.replaced)}
    present = {track.id for track in document.tracks}
    previous_tracks = {track.id: track for track in previous.removed_tracks}
    removed_tracks = {t.id: t for row in other_takes for t in row.removed_tracks} | previous_tracks
    tracks = present | removed_tracks.keys()
    notes = [note for note in previous.replaced if note[0] not in unwanted and note[5] in tracks]
    needed = {note[5] for note in notes}
    needed |= {row[4] for row in proposal.notes} & previous_tracks.keys()
    returning = tuple(removed_tracks[number] for number in sorted(needed - present))
    return notes, document.tracks + returning


def _add_tracks(
    tracks: Iterable[Track], new_tracks: Iterable[Mapping[str, Any]], reusable: set[int]
) -> tuple[tuple[Track, ...], dict[int, int]]:
    """Return ``tracks`` with the ``new_tracks`` of a proposal, and {id in the proposal: id in the
    document}. Tracks whose ids are ``reusable`` have lost their notes: such a track is used instead
    of a new one with the same name and instrument."""
    all_tracks = list(tracks)
    unused = [track for track in all_tracks if track.id in reusable]
    ids = {track.id: track.id for track in all_tracks}
    for new in (Track(**row) for row in new_tracks):
        track = next((track for track in unused if track.instrument == new.instrument), None)
        if track is not None:
            unused.remove(track)
        else:
            used = {other.id for other in all_tracks}
            free = next(number for number in itertools.count(new.id) if number not in used)
            track = new._replace(id=free, added=True)
            all_tracks.append(track)
        ids[new.id] = track.id
    return tuple(all_tracks), ids
