"""The document written into the MIDI file that was opened: what is not edited stays as it is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from musictx import midi
from musictx.midi import losses_of
from musictx.midi.document import ANY
from musictx.midi.document import Document as MidiDocument
from musictx.midi.edit import Unwritable, edited
from musictx.midi.parts import free_channel, with_parts
from musictx.midi.scan import DRUM_CHANNEL
from musictx.notes import PEDAL, Score
from musictx.studio.change import MIXER, TEXTS, Track, clean_name
from musictx.studio.controllers import beginning, controllers
from musictx.studio.document import Document
from musictx.studio.exchange import document_of, in_order, score_of


class Written(NamedTuple):
    """A MIDI file of a document."""

    data: bytes
    tracks: Sequence[Sequence[Track]]
    """For each part of the file the tracks of the document in it."""
    losses: Sequence[str]
    """A sentence for each thing of the opened file, or of the document, that is not in it."""


class _Group(NamedTuple):
    """The tracks of the document that are one part of a MIDI file: one for each of its programs."""

    part: int | None
    """The number of the part in the opened file; None for a new one."""
    tracks: list[Track]


def written(document: Document, data: bytes) -> Written:
    """The MIDI file of ``document``; ``data`` is the file that was opened for it, b"" for none."""
    opened = midi.read(data, limits=ANY) if data else Score()
    first = document_of(opened)
    if not opened.file:
        if data and _music(document) == _music(first):
            return Written(data, [], [])
        return _written_anew(document, data, "the one that the piece began with is damaged")
    groups, losses = _groups(document, first, opened)
    score = _score(document, first, opened, groups)
    try:
        result = edited(score)
    except Unwritable as why:
        return _written_anew(document, data, str(why))
    # In the result the parts of the opened file come first, in their order, then the new ones.
    before, places = MidiDocument(score.file), MidiDocument(result).places
    old_places = iter(before.places)
    new_places = iter(place for place in places if place // 16 >= len(before.chunks))
    with_notes = {values[4] for values in document.notes.values()}
    tracks_at: dict[int, list[Track]] = {}
    for group in groups:
        if group.part is not None:
            tracks_at[next(old_places)] = group.tracks
        elif group.tracks[0].id in with_notes:
            tracks_at[next(new_places)] = group.tracks
    is_new = [group.part is None for group in groups]
    if is_new != sorted(is_new):
        places = [place for place in tracks_at if place in places]
        result = with_parts(result, places)
    tracks = [tracks_at[place] for place in places]
    return Written(_mixed(result, tracks, first), tracks, losses)


def anew(document: Document, score: Score) -> bytes:
    """The MIDI file of ``score``, all or a part of ``document``, whose mixer it has."""
    by_id = {track.id: track for track in document.tracks}
    tracks = [[by_id[of]] for of in np.unique(score.notes["track"]).tolist()]
    return _mixed(midi.to_bytes(score), tracks, Document(tracks=()))


def controllers_of(document: Document, data: bytes) -> list[tuple[int, int, list]]:
    """The controllers, but the sustain pedal, of the MIDI file of ``document``, for which the file
    ``data`` was opened: track, number of the controller, (seconds, value) of each movement."""
    if not data:
        return []
    file = written(document, data)
    return [
        (track.id, number, rows)
        for (part, number), rows in (controllers(file.data) if file.tracks else {}).items()
        if number != 64
        for track in file.tracks[part]
    ]


def _written_anew(document: Document, data: bytes, why: str) -> Written:
    ordered = in_order(document)
    used = {values[4] for values in document.notes.values()}
    tracks = [[track] for track in document.tracks if track.id in used]
    lost = losses_of(data, why) if data else ""
    return Written(anew(ordered, score_of(ordered)), tracks, [lost] * bool(lost))


def _music(document: Document) -> tuple[Any, ...]:
    """What of a document is in a MIDI file."""
    tracks = [track._replace(mute=False, solo=False) for track in document.tracks]
    marks = [getattr(document, name) for name in ("pedals", "tempos", "meters", "keys", *TEXTS)]
    return document.notes, tracks, marks


def _groups(document: Document, first: Document, opened: Score) -> tuple[list[_Group], list[str]]:
    """The parts of the file that is written, in their order, and sentences about what is lost where
    several tracks are one part."""
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
        together = groups[-1] is group and track.id > group.tracks[-1].id
        group.tracks.append(track)
        if not together:
            losses.append(_one(group, "place in the order of tracks"))
    for group in groups:
        for name in ("name", *MIXER):
            if len({getattr(track, name) for track in group.tracks}) > 1:
                losses.append(_one(group, name))
    return groups, losses


def _one(group: _Group, what: str) -> str:
    """The sentence for tracks that share one ``what``."""
    names = ", ".join(f'"{track.name}"' if track.name else "one" for track in group.tracks)
    return f"The tracks {names} are one track of the MIDI file, which has one {what}"


def _score(document: Document, first: Document, opened: Score, groups: list[_Group]) -> Score:
    """The document as a Score whose file has the parts of the ``groups`` in their order. What was
    not edited has the names and texts that the opened file has."""
    midi = MidiDocument(opened.file)
    places, drums = midi.places, midi.file.drums
    old = [group for group in groups if group.part is not None]
    number = {
        track.id: n
        for n, group in enumerate([*old, *(group for group in groups if group.part is None)])
        for track in group.tracks
    }
    names: dict[int, str] = {}
    renamed: list[int] = []
    channels: dict[int, int] = {}
    for group in groups:
        track = group.tracks[0]
        names_now = {one.name for one in group.tracks}
        before = opened.names.get(group.part, "") if group.part is not None else ""
        name = before if len(names_now) > 1 or names_now == {clean_name(before)} else track.name
        if name:
            names[number[track.id]] = name
        if group.part is None:
            continue
        place = places[group.part]
        if name != before:
            renamed.append(place)
        if track.drum != (place % 16 in drums):
            channels[place] = DRUM_CHANNEL if track.drum else free_channel(places, drums)
    pedals: Counter[tuple[float, int, int]] = Counter()
    for track in document.tracks:
        rows_of_track = (
            (time, value, number[of]) for time, value, of in document.pedals if of == track.id
        )
        pedals |= Counter(rows_of_track)
    texts: dict[str, Any] = {
        name: _as_in_file(getattr(document, name), getattr(first, name), getattr(opened, name))
        for name in TEXTS
    }
    score = score_of(document)
    notes = score.notes.copy()
    notes["track"] = [number[of] for of in notes["track"].tolist()]
    data = with_parts(
        opened.file, [places[g.part or 0] for g in old], channels=channels, alone=renamed
    )
    rows = np.array(sorted(pedals.elements()), PEDAL)
    return replace(score, notes=notes, pedals=rows, names=names, file=data, **texts)


def _as_in_file(
    rows: Iterable[tuple[float, str]],
    shown: Iterable[tuple[float, str]],
    in_file: Iterable[tuple[float, str]],
) -> tuple[tuple[float, str], ...]:
    """The ``rows`` of texts; those that are as they were ``shown`` at first have the text of the
    file, from which names were made plain."""
    words: defaultdict[tuple[float, str], list[str]] = defaultdict(list)
    for row, (_, text) in zip(shown, in_file):
        words[row].append(text)
    return tuple((row[0], words[row].pop(0) if words[row] else row[1]) for row in rows)


def _mixed(data: bytes, tracks: Sequence[Sequence[Track]], first: Document) -> bytes:
    """The MIDI file ``data`` of ``tracks``, by part, with the settings of the mixer that differ
    from those of the ``first`` document, or from the usual ones in new tracks."""
    before = {track.id: track for track in first.tracks}
    settings: dict[int, dict[int, int]] = {}
    for part, (track, *others) in enumerate(tracks):
        for name, number in MIXER.items():
            values = {getattr(one, name) for one in (track, *others)}
            usual = Track._field_defaults[name]
            old = usual if track.added else getattr(before.get(track.id), name, usual)
            if len(values) == 1 and values != {old}:
                settings.setdefault(part, {})[number] = values.pop()
    return beginning(data, settings) if settings else data
