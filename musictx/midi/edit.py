"""What has changed in a Score, put into the MIDI file that it was read from.

Only the tracks in which notes come or go are made anew, and in these all other events stay where
and what they are: controllers, bends, lyrics, channels. Everything else is copied byte for byte.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from musictx.midi import scan
from musictx.midi.messages import (
    ANY,
    MARKER,
    NAME,
    OFF,
    ON,
    NewMessage,
    TrackEdit,
    assembled,
    worded,
    written,
)
from musictx.midi.read import DRUM_CHANNEL, FileParts, clock_of
from musictx.midi.read import read as read_file
from musictx.midi.retime import retimed
from musictx.notes import Score

#: A note that would come to lie further than this from its time, in seconds, on the ticks of the
#: file, asks for a file with finer ones.
COARSEST_SECONDS = 0.005
#: Of a score what is played, and what its beats are.
_PLAYED, _MARKS = ("notes", "pedals"), ("tempos", "meters", "keys")


def edited(score: Score) -> bytes | None:
    """``score.file`` with the notes of ``score``, or None where the file cannot say them.

    Notes that are not in the file come, those of the file that are not in the score go; pedals may
    come; markers are those of the score, new ones on the first new track, or else on the first of
    all. New notes are put on the nearest ticks. One that sounds together with another of its pitch
    in its part ends when MIDI's first in, first out leaves the other its end. Tracks of the score
    that the file does not have are added at its end, each with its name and on a channel that no
    note of the file is on, if there is one; a file of format 0 becomes one of format 1 then.

    A new note of a part whose program changes sounds with that in force in the file. Other tempos,
    meters and keys come in place of the file's (:mod:`musictx.midi.retime`).

    None where the score has other names, words, grid or programs than its file, pedals went, or a
    new note lies further than :data:`COARSEST_SECONDS` from a tick.
    """
    before = read_file(score.file, limits=ANY)
    if not all(np.array_equal(getattr(before, c), getattr(score, c)) for c in _MARKS):
        told = retimed(score)
        if told is None:
            return None
        score, before = told, read_file(told.file, limits=ANY)
    if not _same_names(before, score):
        return None
    marked = before.markers == score.markers
    if marked and all(np.array_equal(getattr(before, c), getattr(score, c)) for c in _PLAYED):
        return score.file
    file = scan.scan(score.file, limits=ANY)
    clock = clock_of(file, "")[1]
    parts = FileParts.of(file, clock, Counter())
    gone, came = _difference(before.notes, score.notes)
    unpressed, pressed = _difference(before.pedals, score.pedals)
    ticks = clock.ticks(np.array([row[:2] for row in came]).reshape(-1, 2))
    times = np.array([row[0] for row in came])
    if unpressed or np.any(np.abs(clock.seconds(ticks[:, 0]) - times) > COARSEST_SECONDS):
        return None
    first_event = np.searchsorted(file.events["track"], np.arange(len(file.ends)))
    places = parts.channels[np.argsort(parts.rank)].tolist()  # MIDI track * 16 + channel of each
    tracks: defaultdict[int, TrackEdit] = defaultdict(TrackEdit)
    stay = np.ones(len(parts.notes), bool)
    for index in _found(parts.notes, gone):
        stay[index] = False
        for event in (parts.onsets[index], parts.offsets[index]):
            track = int(file.events["track"][event])
            tracks[track].gone.add(int(event - first_event[track]))
    added: defaultdict[int, list[tuple[int, int, Any]]] = defaultdict(list)
    for row, (begin, end) in zip(came, ticks.tolist()):
        added[row[6]].append((begin, max(end, begin + 1), row))
    known = {place: added.pop(place) for place in sorted(added) if place < len(places)}
    for part, rows in known.items():
        track, channel = divmod(places[part], 16)
        mine = parts.notes["track"] == part
        if not _sounds_so(parts.notes[mine], rows):
            return None
        there = parts.notes[stay & mine]
        tracks[track].new += _notes(channel, _fitted(rows, there, clock))
    for time, value, part in pressed:
        if part >= len(places):
            continue
        track, channel = divmod(places[part], 16)
        at = int(clock.ticks(np.array(time)))
        tracks[track].new.append(NewMessage(at, ON, bytes([0xB0 | channel, 64, value])))
    free = _free_channels(parts)
    came_marks = Counter(score.markers) - Counter(before.markers)
    if Counter(before.markers) - Counter(score.markers):
        came_marks = Counter(score.markers)
        for track, *_ in file.markers:
            tracks[track].without.add(MARKER)
    marks = [
        worded(int(clock.ticks(np.array(time))), MARKER, text)
        for time, text in sorted(came_marks.elements())
    ]
    if marks and not added:
        tracks[0].new += marks
    more = [
        _new_track(rows, score.names.get(part, ""), _channel(rows, free), marks * (not number))
        for number, (part, rows) in enumerate(sorted(added.items()))
    ]
    return assembled(score.file, tracks, more)


def _same_names(before: Score, score: Score) -> bool:
    """Whether a score has the grid, the names and the words that were read from its file."""
    grid = before.ticks_per_quarter == score.ticks_per_quarter
    parts = np.unique(before.notes["track"]).tolist()
    named = all(before.names.get(part) == score.names.get(part) for part in parts)
    return grid and named and before.lyrics == score.lyrics


def _difference(before: np.ndarray, after: np.ndarray) -> tuple[list[Any], list[Any]]:
    """The rows that went and those that came, in their order."""
    old, new = Counter(before.tolist()), Counter(after.tolist())
    return list((old - new).elements()), sorted((new - old).elements())


def _found(notes: np.ndarray, rows: list[Any]) -> Iterator[int]:
    """Where ``rows`` stand in ``notes``, each in a place of its own."""
    wanted = Counter(rows)
    for index, row in enumerate(notes.tolist() if rows else ()):
        if wanted[row] > 0:
            wanted[row] -= 1
            yield index


def _sounds_so(known: np.ndarray, rows: list[Any]) -> bool:
    """Whether new notes are drums as those of their part are, or have a program that it has."""
    programs, drum = set(known["program"].tolist()), bool(known["drum"][0])
    return all(row[5] == drum and (drum or row[4] in programs) for *_, row in rows)


def _fitted(rows: list[Any], there: np.ndarray, clock: scan.TickClock) -> list[Any]:
    """New notes of a part with ends that leave those of the notes ``there`` as they are, which MIDI
    pairs first in, first out."""
    begins, ends = clock.ticks(there["start"]), clock.ticks(there["end"])
    fitted = []
    for begin, end, row in rows:
        same = there["pitch"] == row[2]
        earliest = ends[same & (begins <= begin)].max(initial=0)
        latest = ends[same & (begins > begin)].min(initial=np.iinfo(np.int64).max)
        fitted.append((begin, int(min(max(end, earliest), latest)), row))
    return fitted


def _notes(channel: int, rows: Iterable[Any]) -> list[NewMessage]:
    """The messages of notes."""
    found = []
    for begin, end, row in rows:
        found.append(NewMessage(begin, ON, bytes([0x90 | channel, row[2], row[3]])))
        found.append(NewMessage(end, OFF, bytes([0x80 | channel, row[2], 0])))
    return found


def _free_channels(parts: FileParts) -> dict[int, int]:
    """Channel -> how many parts of the file are on it, of those for pitched notes."""
    used = Counter((parts.channels % 16).tolist())
    return {channel: used[channel] for channel in range(16) if channel != DRUM_CHANNEL}


def _channel(rows: list[Any], free: dict[int, int]) -> int:
    """The channel for a new track: the first of those that have the fewest parts."""
    if rows[0][2][5]:
        return DRUM_CHANNEL
    channel = min(free, key=lambda channel: free[channel])
    free[channel] += 1
    return channel


def _new_track(rows: list[Any], name: str, channel: int, marks: list[NewMessage]) -> bytes:
    """The contents of a track for a part that the file does not have."""
    new = [worded(0, NAME, name)] if name else []
    program = -1
    for row in sorted(rows, key=lambda row: row[0]):
        if row[2][4] != program:
            program = row[2][4]
            at = 0 if len(new) < 2 else row[0]
            new.append(NewMessage(at, ON, bytes([0xC0 | channel, program])))
        new += _notes(channel, [row])
    return written([], [*new, *marks], 0, b"")
