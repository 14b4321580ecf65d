"""Writes a document into the MIDI file that was opened. Unedited messages keep their bytes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from musictx import midi
from musictx.midi.document import NO_LIMITS, OFF, ON, MidiFile, controller, describe_losses
from musictx.midi.edit import edit_file
from musictx.midi.parts import Unwritable, free_channel, select_parts
from musictx.midi.scan import DRUM_CHANNEL
from musictx.notes import MARKS, PEDAL, Score
from musictx.studio.change import MIXER, TEXTS, Track, clean_name
from musictx.studio.document import Document
from musictx.studio.exchange import document_of, read_controllers, renumber_tracks, score_of

#: The MIDI controller of the sustain pedal.
SUSTAIN_PEDAL = 64


class WrittenFile(NamedTuple):
    """A MIDI file that was written from a document.

    tracks     for each part of the file, the tracks of the document that it contains
    omissions  sentences about what the opened file or the document has, but this file lacks
    """

    data: bytes
    tracks: Sequence[Sequence[Track]] = ()
    omissions: Sequence[str] = ()


class _Group(NamedTuple):
    """The tracks of the document, one for each program, that become one part of a MIDI file.
    ``part`` is the number of the part in the opened file; None: a new part."""

    part: int | None
    tracks: list[Track]


def write(document: Document, data: bytes) -> WrittenFile:
    """Return the MIDI file of ``document``. ``data`` is the opened file; b"": none."""
    opened = midi.read(data, limits=NO_LIMITS) if data else Score()
    initial = document_of(opened)
    if not opened.file:
        if data and _midi_fields(document) == _midi_fields(initial):
            return WrittenFile(data)
        score = score_of(renumber_tracks(document))
        return write_new(document, score, data, "the opened file is damaged")
    groups, omissions = _groups(document, initial, opened)
    try:
        score = _score(document, initial, opened, groups)
        result = edit_file(score)
    except Unwritable as error:
        return write_new(document, score_of(renumber_tracks(document)), data, str(error))
    # The result has the parts of the opened file, in the order of their groups, then new parts.
    base, places = MidiFile(score.file), MidiFile(result).places
    old_places = iter(base.places)
    new_places = iter(place for place in places if place // 16 >= len(base.chunks))
    with_notes = document.tracks_of(document.notes)
    tracks_at: dict[int, list[Track]] = {}  # by place: MIDI track * 16 + channel
    for group in groups:
        if group.part is not None:
            tracks_at[next(old_places)] = group.tracks
        elif group.tracks[0].id in with_notes:
            tracks_at[next(new_places)] = group.tracks
    is_new = [group.part is None for group in groups]
    if is_new != sorted(is_new):  # the document has new tracks before old ones
        places = [place for place in tracks_at if place in places]
        result = select_parts(result, places)
    tracks = [tracks_at[place] for place in places]
    return WrittenFile(_write_mixer(result, tracks, initial), tracks, omissions)


def write_new(document: Document, score: Score, data: bytes, reason: str) -> WrittenFile:
    """Return a new MIDI file of ``score``, which is ``document``, with renumbered tracks, or an
    excerpt of it. ``reason`` says why the opened file ``data`` cannot be edited instead."""
    by_id = {new.id: track for new, track in zip(renumber_tracks(document).tracks, document.tracks)}
    tracks = [[by_id[number]] for number in np.unique(score.notes["track"]).tolist()]
    omissions = [describe_losses(data, reason)] if data else []
    new_file = _write_mixer(midi.to_bytes(score), tracks, Document(tracks=()))
    return WrittenFile(new_file, tracks, [sentence for sentence in omissions if sentence])


def controllers_of(document: Document, data: bytes) -> list[tuple[int, int, list]]:
    """Return (track id, controller number, rows of (seconds, value)) for each controller of the
    file of :func:`write` except the pedal; empty without an opened file ``data``."""
    file = write(document, data) if data else WrittenFile(b"")
    if not file.tracks:
        return []
    return [
        (track.id, number, rows)
        for (part, number), rows in read_controllers(file.data).items()
        if number != SUSTAIN_PEDAL
        for track in file.tracks[part]
    ]


def _midi_fields(document: Document) -> tuple[Any, ...]:
    """Return the fields of a document that a MIDI file can hold."""
    tracks = [track._replace(mute=False, solo=False) for track in document.tracks]
    marks = [getattr(document, name) for name in ("pedals", *MARKS, *TEXTS)]
    return document.notes, tracks, marks


def _groups(document: Document, initial: Document, opened: Score) -> tuple[list[_Group], list[str]]:
    """Return a group of tracks for each part of the new file, and sentences about what cannot be
    written. ``initial`` is the document of the ``opened`` file before any edit."""
    track_parts = [row[0] for row in np.unique(opened.notes[["track", "drum", "program"]]).tolist()]
    groups: list[_Group] = []
    omissions: list[str] = []
    for track in document.tracks:
        part = track_parts[track.id] if track.id < len(track_parts) and not track.added else None
        if part is not None and track.drum != initial.tracks[track.id].drum:
            part = part if track_parts.count(part) == 1 else None
        group = next((g for g in groups if part is not None and g.part == part), None)
        if group is None:
            groups.append(_Group(part, [track]))
        else:
            group.tracks.append(track)
    for group in groups:
        for name in ("name", *MIXER):
            if len({getattr(track, name) for track in group.tracks}) > 1:
                names = ", ".join(f'"{track.name}"' for track in group.tracks)
                file_has = "are one track of the MIDI file, which has one"
                omissions.append(f"The tracks {names} {file_has} {name}")
    return groups, omissions


def _score(document: Document, initial: Document, opened: Score, groups: list[_Group]) -> Score:
    """Return the document as a Score for :func:`~musictx.midi.edit.edit_file`. Its ``file`` is the
    opened file with the old parts of ``groups``, in order. Names and texts that were not edited
    are those of the opened file, since the document has cleaned ones. Raise :class:`Unwritable` if
    a part becomes pitched and all channels are in use."""
    midi_document = MidiFile(opened.file)
    places, drums = midi_document.places, midi_document.file.drums
    ordered = sorted(groups, key=lambda group: group.part is None)  # the old parts first
    part_numbers = {track.id: n for n, group in enumerate(ordered) for track in group.tracks}
    names: dict[int, str] = {}
    renamed: list[int] = []
    channels: dict[int, int] = {}
    for group in groups:
        track = group.tracks[0]
        group_names = {member.name for member in group.tracks}
        old_name = opened.names.get(group.part, "") if group.part is not None else ""
        is_unedited = len(group_names) > 1 or group_names == {clean_name(old_name)}
        name = old_name if is_unedited else track.name
        if name:
            names[part_numbers[track.id]] = name
        if group.part is None:
            continue
        place = places[group.part]
        if name != old_name:
            renamed.append(place)
        if track.drum != (place % 16 in drums):
            used = [*places, *channels.values()]
            channels[place] = DRUM_CHANNEL if track.drum else free_channel(used, drums)
    pedals: Counter[tuple[float, int, int]] = Counter()
    for track in document.tracks:  # tracks of one part share its pedals
        pedals |= Counter(
            (time, value, part_numbers[track.id])
            for time, value, pedal_track in document.pedals
            if pedal_track == track.id
        )
    texts: dict[str, Any] = {
        name: _restore_texts(getattr(document, name), getattr(initial, name), getattr(opened, name))
        for name in TEXTS
    }
    score = score_of(document)
    notes = score.notes.copy()
    notes["track"] = [part_numbers[track] for track in notes["track"].tolist()]
    kept_places = [places[group.part] for group in groups if group.part is not None]
    data = select_parts(opened.file, kept_places, channels=channels, alone=renamed)
    rows = np.array(sorted(pedals.elements()), PEDAL)
    return replace(score, notes=notes, pedals=rows, names=names, file=data, **texts)


def _restore_texts(
    rows: Iterable[tuple[float, str]],
    initial_rows: Iterable[tuple[float, str]],
    file_rows: Iterable[tuple[float, str]],
) -> tuple[tuple[float, str], ...]:
    """Return the ``rows`` (seconds, text). An unedited row, which is also in ``initial_rows``, gets
    the text of the corresponding one of the ``file_rows``."""
    originals: defaultdict[tuple[float, str], list[str]] = defaultdict(list)
    for row, (_, text) in zip(initial_rows, file_rows):
        originals[row].append(text)
    return tuple((row[0], originals[row].pop(0) if originals[row] else row[1]) for row in rows)


def _write_mixer(data: bytes, tracks: Sequence[Sequence[Track]], initial: Document) -> bytes:
    """Return the MIDI file ``data`` with the mixer settings that differ from those in ``initial``,
    or for new tracks from the defaults. ``tracks`` has the tracks of each part."""
    initial_tracks = {track.id: track for track in initial.tracks}
    settings: dict[int, dict[int, int]] = {}
    for part, members in enumerate(tracks):
        track = members[0]
        for name, number in MIXER.items():
            values = {getattr(member, name) for member in members}
            default = Track._field_defaults[name]
            old = default if track.added else getattr(initial_tracks.get(track.id), name, default)
            if len(values) == 1 and values != {old}:
                settings.setdefault(part, {})[number] = values.pop()
    return set_controllers(data, settings) if settings else data


def set_controllers(data: bytes, values: Mapping[int, Mapping[int, int]]) -> bytes:
    """Return the MIDI file ``data`` with ``values`` ({part: {controller number: value}}) set at its
    beginning. Other values of these controllers up to the first note of the part are removed."""
    document = MidiFile(data)
    events = document.file.events
    note_ons = events[(events["status"] >> 4 == 9) & (events["b"] > 0)]
    for part, numbers in values.items():
        track_number, channel = divmod(document.places[part], 16)
        on_channel = (note_ons["track"] == track_number) & (note_ons["status"] % 16 == channel)
        first_tick = int(note_ons["tick"][on_channel].min())
        track = document.track(track_number)
        for n, row in list(track.messages.items()):
            if row.tick <= first_tick and row.body[0] == 0xB0 | channel and row.body[1] in numbers:
                del track.messages[n]
        phase = ON if first_tick else OFF
        track.add(controller(0, channel, *value, phase) for value in numbers.items())
    return document.edited()
