"""Writes a document into the MIDI file that was opened: what was not edited stays byte for byte."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from musictx import midi
from musictx.midi.document import ANY, OFF, ON, MidiFile, controller, losses_of
from musictx.midi.edit import Unwritable, edited
from musictx.midi.encode import has_key, has_meter
from musictx.midi.parts import free_channel, with_parts
from musictx.midi.scan import DRUM_CHANNEL
from musictx.notes import MARKS, PEDAL, Score
from musictx.studio.change import MIXER, TEXTS, Key, Meter, Track, clean_name
from musictx.studio.document import Document
from musictx.studio.exchange import controllers, document_of, in_order, score_of


class WrittenFile(NamedTuple):
    """A MIDI file of a document.

    tracks  for each part of the file, the tracks of the document in it
    losses  one sentence per loss, from the opened file or the document
    """

    data: bytes
    tracks: Sequence[Sequence[Track]] = ()
    losses: Sequence[str] = ()


class _Group(NamedTuple):
    """The tracks of the document that are one part of a MIDI file, one track for each program.
    ``part`` is the number of the part in the opened file, None for a new part."""

    part: int | None
    tracks: list[Track]


def write(document: Document, data: bytes) -> WrittenFile:
    """Return the MIDI file of ``document``. ``data`` is the file that was opened for it, or b""."""
    opened = midi.read(data, limits=ANY) if data else Score()
    first = document_of(opened)
    if not opened.file:
        if data and _music(document) == _music(first):
            return WrittenFile(data)
        score = score_of(in_order(document))
        return write_new(document, score, data, "the opened file is damaged")
    groups, losses = _groups(document, first, opened)
    try:
        score = _score(document, first, opened, groups)
        result = edited(score)
    except Unwritable as error:
        return write_new(document, score_of(in_order(document)), data, str(error))
    # In the result, the parts of the opened file come first, in their order, then new parts.
    before, places = MidiFile(score.file), MidiFile(result).places
    old_places = iter(before.places)
    new_places = iter(place for place in places if place // 16 >= len(before.chunks))
    with_notes = document.tracks_of(document.notes)
    tracks_at: dict[int, list[Track]] = {}  # by place: MIDI track * 16 + channel
    for group in groups:
        if group.part is not None:
            tracks_at[next(old_places)] = group.tracks
        elif group.tracks[0].id in with_notes:
            tracks_at[next(new_places)] = group.tracks
    is_new = [group.part is None for group in groups]
    if is_new != sorted(is_new):  # the document has another order
        places = [place for place in tracks_at if place in places]
        result = with_parts(result, places)
    tracks = [tracks_at[place] for place in places]
    marks = ((getattr(document, name), getattr(first, name)) for name in ("meters", "keys"))
    losses += _lost_marks(*[rows if rows != old_rows else () for rows, old_rows in marks])
    return WrittenFile(_with_mixer(result, tracks, first), tracks, losses)


def write_new(document: Document, score: Score, data: bytes, reason: str) -> WrittenFile:
    """Return a new MIDI file of ``score``, all or a part of ``document`` with its tracks in order,
    since ``reason`` prevents writing into the opened file ``data``."""
    by_id = {new.id: track for new, track in zip(in_order(document).tracks, document.tracks)}
    tracks = [[by_id[number]] for number in np.unique(score.notes["track"]).tolist()]
    losses = [losses_of(data, reason)] if data else []
    losses += _lost_marks(score.meters.tolist(), score.keys.tolist())
    new_file = _with_mixer(midi.to_bytes(score), tracks, Document(tracks=()))
    return WrittenFile(new_file, tracks, [sentence for sentence in losses if sentence])


def _lost_marks(meters: Iterable[Meter], keys: Iterable[Key]) -> list[str]:
    """Return a sentence for each of these meters and keys that MIDI does not have."""
    lost = [f"meter {upper}/{lower}" for _, upper, lower in meters if not has_meter(lower)]
    for _, sharps, _ in keys:
        if not has_key(sharps):
            lost.append(f"key of {abs(sharps)} {'sharps' if sharps > 0 else 'flats'}")
    return [f"A MIDI file cannot hold the {mark}" for mark in dict.fromkeys(lost)]


def controllers_of(document: Document, data: bytes) -> list[tuple[int, int, list]]:
    """Return the controllers in the MIDI file of ``document``, for which the file ``data`` was
    opened: track, number of the controller, and its (seconds, value) rows. The sustain pedal is
    left out, since the document has it."""
    file = write(document, data) if data else WrittenFile(b"")
    return [
        (track.id, number, rows)
        for (part, number), rows in (controllers(file.data) if file.tracks else {}).items()
        if number != 64
        for track in file.tracks[part]
    ]


def _music(document: Document) -> tuple[Any, ...]:
    """Return the parts of a document that a MIDI file can hold."""
    tracks = [track._replace(mute=False, solo=False) for track in document.tracks]
    marks = [getattr(document, name) for name in ("pedals", *MARKS, *TEXTS)]
    return document.notes, tracks, marks


def _groups(document: Document, first: Document, opened: Score) -> tuple[list[_Group], list[str]]:
    """Return a group of tracks for each part of the new file, and sentences about losses."""
    part_of = [row[0] for row in np.unique(opened.notes[["track", "drum", "program"]]).tolist()]
    groups: list[_Group] = []
    losses: list[str] = []
    for track in document.tracks:
        part = part_of[track.id] if track.id < len(part_of) and not track.added else None
        if part is not None and track.drum != first.tracks[track.id].drum:
            part = part if part_of.count(part) == 1 else None
        group = next((g for g in groups if part is not None and g.part == part), None)
        if group is None:
            groups.append(_Group(part, [track]))
            continue
        follows = groups[-1] is group and track.id > group.tracks[-1].id
        group.tracks.append(track)
        if not follows:
            losses.append(_loss(group, "place in the order of tracks"))
    for group in groups:
        for name in ("name", *MIXER):
            if len({getattr(track, name) for track in group.tracks}) > 1:
                losses.append(_loss(group, name))
    return groups, losses


def _loss(group: _Group, setting: str) -> str:
    """Return the sentence that the tracks of a group can have only one value of a ``setting``."""
    names = ", ".join(f'"{track.name}"' if track.name else "one" for track in group.tracks)
    return f"The tracks {names} are one track of the MIDI file, which has one {setting}"


def _score(document: Document, first: Document, opened: Score, groups: list[_Group]) -> Score:
    """Return the document as a Score whose file has the parts of the ``groups`` in their order.
    Names and texts that were not edited are those of the opened file, not the document's cleaned
    names."""
    midi_document = MidiFile(opened.file)
    places, drums = midi_document.places, midi_document.file.drums
    old = [group for group in groups if group.part is not None]
    new = [group for group in groups if group.part is None]
    number = {track.id: n for n, group in enumerate([*old, *new]) for track in group.tracks}
    names: dict[int, str] = {}
    renamed: list[int] = []
    channels: dict[int, int] = {}
    for group in groups:
        track = group.tracks[0]
        group_names = {member.name for member in group.tracks}
        old_name = opened.names.get(group.part, "") if group.part is not None else ""
        is_kept = len(group_names) > 1 or group_names == {clean_name(old_name)}
        name = old_name if is_kept else track.name
        if name:
            names[number[track.id]] = name
        if group.part is None:
            continue
        place = places[group.part]
        if name != old_name:
            renamed.append(place)
        if track.drum != (place % 16 in drums):
            if len(drums) == 16 and not track.drum:
                raise Unwritable("all its channels are for drums")
            channels[place] = DRUM_CHANNEL if track.drum else free_channel(places, drums)
    pedals: Counter[tuple[float, int, int]] = Counter()
    for track in document.tracks:  # tracks of one part share its pedals
        pedals |= Counter(
            (time, value, number[track.id])
            for time, value, pedal_track in document.pedals
            if pedal_track == track.id
        )
    texts: dict[str, Any] = {
        name: _original_texts(getattr(document, name), getattr(first, name), getattr(opened, name))
        for name in TEXTS
    }
    score = score_of(document)
    notes = score.notes.copy()
    notes["track"] = [number[track] for track in notes["track"].tolist()]
    data = with_parts(
        opened.file, [places[g.part or 0] for g in old], channels=channels, alone=renamed
    )
    rows = np.array(sorted(pedals.elements()), PEDAL)
    return replace(score, notes=notes, pedals=rows, names=names, file=data, **texts)


def _original_texts(
    rows: Iterable[tuple[float, str]],
    cleaned: Iterable[tuple[float, str]],
    in_file: Iterable[tuple[float, str]],
) -> tuple[tuple[float, str], ...]:
    """Return the ``rows`` of texts; a row that equals one of the ``cleaned`` rows, as the file was
    first read, has its text ``in_file``."""
    originals: defaultdict[tuple[float, str], list[str]] = defaultdict(list)
    for row, (_, text) in zip(cleaned, in_file):
        originals[row].append(text)
    return tuple((row[0], originals[row].pop(0) if originals[row] else row[1]) for row in rows)


def _with_mixer(data: bytes, tracks: Sequence[Sequence[Track]], first: Document) -> bytes:
    """Return the MIDI file ``data``, whose parts are the ``tracks``, with the mixer settings that
    differ from the ``first`` document, and in new tracks from the defaults."""
    before = {track.id: track for track in first.tracks}
    settings: dict[int, dict[int, int]] = {}
    for part, (track, *others) in enumerate(tracks):
        for name, number in MIXER.items():
            values = {getattr(member, name) for member in (track, *others)}
            default = Track._field_defaults[name]
            old = default if track.added else getattr(before.get(track.id), name, default)
            if len(values) == 1 and values != {old}:
                settings.setdefault(part, {})[number] = values.pop()
    return with_initial_values(data, settings) if settings else data


def with_initial_values(data: bytes, values: Mapping[int, Mapping[int, int]]) -> bytes:
    """Return the file with initial ``values`` of controllers: part -> number -> value. Messages of
    these controllers up to the first note of the part are removed."""
    document = MidiFile(data)
    events = document.file.events
    note_ons = events[(events["status"] >> 4 == 9) & (events["b"] > 0)]
    for part, numbers in values.items():
        track_number, channel = divmod(document.places[part], 16)
        on_channel = (note_ons["track"] == track_number) & (note_ons["status"] % 16 == channel)
        first = int(note_ons["tick"][on_channel].min())
        track = document.track(track_number)
        for n, row in list(track.rows.items()):
            is_set_anew = row.body[0] == 0xB0 | channel and row.body[1] in numbers
            if row.tick <= first and is_set_anew:
                del track.rows[n]
        phase = ON if first else OFF
        track.add(controller(0, channel, *value, phase) for value in numbers.items())
    return document.edited()
