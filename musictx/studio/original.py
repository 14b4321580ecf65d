"""The document written into the MIDI file that it began with, where what is not edited stays."""

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
from musictx.midi.parts import beginning, controllers, free_channel, with_parts
from musictx.midi.read import DRUM_CHANNEL
from musictx.notes import PEDAL, Score
from musictx.studio.change import MIXER, TEXTS, Track, clean_name
from musictx.studio.document import Document
from musictx.studio.exchange import document_of, in_order, score_of


class Written(NamedTuple):
    """A MIDI file of a document."""

    data: bytes
    tracks: Sequence[Sequence[Track]]
    """Those of the document that each part of the file is."""
    losses: Sequence[str]
    """Sentences: what of the file that it began with, or of the document, is not in it."""


class _Group(NamedTuple):
    """The tracks of the document that are one part of a MIDI file: one for each of its programs."""

    part: int | None
    """Its number in the file that the document began with; None where it is new."""
    tracks: list[Track]


def written(document: Document, data: bytes) -> Written:
    """The MIDI file of ``document``, which began with the file ``data``; none: b""."""
    start = midi.read(data, limits=ANY) if data else Score()
    first = document_of(start)
    if not start.file:
        if data and _music(document) == _music(first):
            return Written(data, [], [])
        return _written_anew(document, data, "the one that the piece began with is damaged")
    groups, losses = _groups(document, first, start)
    score = _score(document, first, start, groups)
    try:
        made = edited(score)
    except Unwritable as why:
        return _written_anew(document, data, str(why))
    # Where the parts stand: those of the file first, in their order, then the new ones.
    before, now = MidiDocument(score.file), MidiDocument(made).places
    new = iter(place for place in now if place // 16 >= len(before.chunks))
    old_places = iter(before.places)
    used = {values[4] for values in document.notes.values()}
    at: dict[int, list[Track]] = {}
    for group in groups:
        if group.part is not None:
            at[next(old_places)] = group.tracks
        elif group.tracks[0].id in used:
            at[next(new)] = group.tracks
    order = [place for place in at if place in now]
    if [group.part is None for group in groups] != sorted(group.part is None for group in groups):
        made, now = with_parts(made, order), order
    tracks = [at[place] for place in now]
    return Written(_mixed(made, tracks, first), tracks, losses)


def anew(document: Document, score: Score) -> bytes:
    """The MIDI file of ``score``, all or a part of ``document``, whose mixer it has."""
    by_id = {track.id: track for track in document.tracks}
    tracks = [[by_id[of]] for of in np.unique(score.notes["track"]).tolist()]
    return _mixed(midi.to_bytes(score), tracks, Document(tracks=()))


def controllers_of(document: Document, data: bytes) -> list[tuple[int, int, list]]:
    """What a MIDI file of it has apart from notes and the sustain pedal, as ``data``, the one that
    it began with: track, number of the controller, (seconds, value) of each movement."""
    if not data:
        return []
    made = written(document, data)
    return [
        (track.id, number, rows)
        for (part, number), rows in (controllers(made.data) if made.tracks else {}).items()
        if number != 64
        for track in made.tracks[part]
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


def _groups(document: Document, first: Document, start: Score) -> tuple[list[_Group], list[str]]:
    """The parts of the file that is written, in their order, and what is lost of tracks that
    are one part."""
    of = [row[0] for row in np.unique(start.notes[["track", "drum", "program"]]).tolist()]
    groups: list[_Group] = []
    losses: list[str] = []
    for track in document.tracks:
        part = of[track.id] if track.id < len(of) and not track.added else None
        if part is not None and track.drum != first.tracks[track.id].drum and of.count(part) > 1:
            part = None
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


def _score(document: Document, first: Document, start: Score, groups: list[_Group]) -> Score:
    """The document as a Score whose file has the parts of the ``groups`` in their order, and which
    says in the words of the file what is as it was."""
    places = MidiDocument(start.file).places
    old = [group for group in groups if group.part is not None]
    number = {
        track.id: n
        for n, group in enumerate([*old, *(group for group in groups if group.part is None)])
        for track in group.tracks
    }
    names: dict[int, str] = {}
    alone: list[int] = []
    channels: dict[int, int] = {}
    for group in groups:
        track = group.tracks[0]
        wanted = {one.name for one in group.tracks}
        there = start.names.get(group.part, "") if group.part is not None else ""
        name = there if len(wanted) > 1 or wanted == {clean_name(there)} else track.name
        if name:
            names[number[track.id]] = name
        if group.part is None:
            continue
        place = places[group.part]
        if name != there:
            alone.append(place)
        if track.drum != (place % 16 == DRUM_CHANNEL):
            channels[place] = DRUM_CHANNEL if track.drum else free_channel(places)
    pedals: Counter[tuple[float, int, int]] = Counter()
    for track in document.tracks:
        rows_of_track = (
            (time, value, number[of]) for time, value, of in document.pedals if of == track.id
        )
        pedals |= Counter(rows_of_track)
    texts: dict[str, Any] = {
        name: _worded(getattr(document, name), getattr(first, name), getattr(start, name))
        for name in TEXTS
    }
    score = score_of(document)
    notes = score.notes.copy()
    notes["track"] = [number[of] for of in notes["track"].tolist()]
    data = with_parts(
        start.file, [places[g.part or 0] for g in old], channels=channels, alone=alone
    )
    rows = np.array(sorted(pedals.elements()), PEDAL)
    return replace(score, notes=notes, pedals=rows, names=names, file=data, **texts)


def _worded(
    rows: Iterable[tuple[float, str]],
    shown: Iterable[tuple[float, str]],
    there: Iterable[tuple[float, str]],
) -> tuple[tuple[float, str], ...]:
    """Texts with those that are as ``shown`` at first as they are ``there``, in the file."""
    words: defaultdict[tuple[float, str], list[str]] = defaultdict(list)
    for row, (_, text) in zip(shown, there):
        words[row].append(text)
    return tuple(
        (time, words[time, text].pop(0) if words[time, text] else text) for time, text in rows
    )


def _mixed(data: bytes, tracks: Sequence[Sequence[Track]], first: Document) -> bytes:
    """A MIDI file of ``tracks``, by part, with what their mixer sets otherwise than at ``first``,
    or, of new ones, than usual."""
    before = {track.id: track for track in first.tracks}
    wanted: dict[int, dict[int, int]] = {}
    for part, its in enumerate(tracks):
        for name, number in MIXER.items():
            values = {getattr(track, name) for track in its}
            usual = Track._field_defaults[name]
            old = usual if its[0].added else getattr(before.get(its[0].id), name, usual)
            if len(values) == 1 and values != {old}:
                wanted.setdefault(part, {})[number] = values.pop()
    return beginning(data, wanted) if wanted else data
