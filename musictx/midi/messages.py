"""A MIDI file of which some tracks have other messages, the rest of it copied byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from musictx.config.checks import DAY
from musictx.config.limits import Limits
from musictx.midi import scan
from musictx.midi.encode import number

#: What passed the limits of whoever read it passes here.
ANY = Limits(midi_mb=10**9, notes=10**9, events=10**9, tracks=65_535, seconds=DAY)
NAME, LYRIC, MARKER, _END, _TRACK = 0x03, 0x05, 0x06, b"\xff\x2f\0", b"MTrk"
#: Kinds of texts that a Score does not hold: words, copyright, instruments, cues, sequencers' own.
_TEXTS = {0x01, 0x02, 0x04, 0x07, 0x08, 0x09, 0x7F}
_KINDS = {0xA: "aftertouch", 0xD: "aftertouch", 0xE: "bends"}
#: Phases of one tick: ends of new notes, what is there, new pedals and beginnings of new notes.
OFF, THERE, ON = range(3)


class Message(NamedTuple):
    """A message of a track, or one to be added."""

    tick: int
    phase: int
    body: bytes
    """With its status byte."""
    program: int | None = None
    """With which a note-on is to sound; None: with that in force."""


@dataclass
class TrackEdit:
    """What changes in a track of the file."""

    gone: set[int] = field(default_factory=set)
    """Which of its events in ``scan.File.events`` go, counted from its first;"""
    new: list[Message] = field(default_factory=list)
    """and what comes."""
    without: set[int] = field(default_factory=set)
    """Meta events of these kinds, such as :data:`NAME`, go."""
    texts: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    """How many texts of a kind, tick and wording go."""
    reset: dict[tuple[int, int], int] = field(default_factory=dict)
    """Channel and number of a controller -> the tick up to which its movements go."""
    moved: Callable[[int], int] | None = None
    """The tick of each of its messages -> where it is to stand, never before an earlier one."""
    programs: dict[int, int] = field(default_factory=dict)
    """With which program note-ons, counted as those that are gone, are to sound."""


def worded(tick: int, kind: int, text: str) -> Message:
    """A name, a lyric or a marker."""
    coded = text.encode("utf-8", "replace")
    return Message(tick, OFF, bytes([0xFF, kind]) + number(len(coded)) + coded)


def assembled(data: bytes, tracks: Mapping[int, TrackEdit], more: Iterable[bytes]) -> bytes:
    """``data`` with some tracks made anew and ``more`` after the last."""
    contents: list[bytes | None] = [
        _remade(chunk, tracks[index]) if index in tracks else None
        for index, chunk in enumerate(chunks(data))
    ]
    return rebuilt(data, [*contents, *more])


def chunks(data: bytes) -> list[bytes]:
    """The contents of all tracks."""
    return [data[begin:end] for begin, end in scan.track_chunks(data, Counter())]


def rebuilt(data: bytes, contents: Sequence[bytes | None]) -> bytes:
    """``data`` with other tracks; None: the one at this place, as it is. Chunks of other kinds stay
    in their places. A file of format 0 becomes one of format 1 where there is more than one track.
    """
    out, copied, count = [], 0, 0
    for begin, end in scan.track_chunks(data, Counter()):
        out.append(data[copied : begin - 8])
        if count < len(contents):
            content = contents[count]
            out.append(data[begin - 8 : end] if content is None else _chunk(content))
        copied, count = end, count + 1
    out += [_chunk(content or b"") for content in contents[count:]]
    made = b"".join([*out, data[copied:]])
    if count == len(contents):
        return made
    kind = min(1, int.from_bytes(data[8:10], "big")) if len(contents) == 1 else 1
    return made[:8] + kind.to_bytes(2, "big") + len(contents).to_bytes(2, "big") + made[12:]


def _chunk(content: bytes) -> bytes:
    return _TRACK + len(content).to_bytes(4, "big") + content


def parsed(chunk: bytes) -> tuple[list[Message], int, bytes]:
    """The messages of a track that is whole, each with its status byte, the tick of its end, and
    what stands after that."""
    rows: list[Message] = []
    tick = 0
    for tick, status, at, stop in of_track(chunk):
        body = chunk[at:stop]
        if body[:2] == _END[:2]:
            return rows, tick, chunk[stop:]
        if status < 0xF0 and not body[0] & 0x80:
            body = bytes([status]) + body
        rows.append(Message(tick, THERE, body))
    return rows, tick, b""


def _remade(chunk: bytes, change: TrackEdit) -> bytes:
    """The contents of a track with a change."""
    rows, last, rest = parsed(chunk)
    there, counted, texts = [], -1, change.texts.copy()
    for then, _, body, _ in rows:
        tick, program = change.moved(then) if change.moved else then, None
        kind = body[0] >> 4
        if kind in (8, 9, 0xC) or (kind == 0xB and body[1] == 64):  # what a scan keeps
            counted += 1
            program = change.programs.get(counted)
            if counted in change.gone:
                continue
        if kind == 0xB and tick <= change.reset.get((body[0] & 15, body[1]), -1):
            continue
        if body[0] == 0xFF:
            if body[1] in change.without:
                continue
            text = body[1], then, text_of(body)
            if texts[text] > 0:
                texts[text] -= 1
                continue
        there.append(Message(tick, THERE, body, program))
    return written([*there, *change.new], change.moved(last) if change.moved else last, rest)


def text_of(body: bytes) -> str:
    """The text of a meta event, as a scan gives it."""
    return scan.printable(body[scan.number(body, 2)[1] :])


def beside_notes(data: bytes) -> Counter[str]:
    """How many messages there are of each kind that a :class:`Score` does not hold."""
    count: Counter[str] = Counter()
    for chunk in chunks(data):
        names = 0  # that of a track without notes is in no Score
        try:
            for _, status, at, stop in of_track(chunk):
                kind = status >> 4
                names = -1 if kind == 9 or names < 0 else names + (chunk[at : at + 2] == b"\xff\3")
                if status == 0xFF:
                    count["texts"] += chunk[at + 1] in _TEXTS
                elif kind == 0xF:
                    count["SysEx messages"] += 1
                elif kind == 0x8:
                    count["release velocities"] += chunk[stop - 1] not in (0, 64)
                elif kind == 0xB:
                    count["controllers"] += chunk[stop - 2] != 64
                elif kind in _KINDS:
                    count[_KINDS[kind]] += 1
        except (IndexError, ValueError):
            pass  # the rest of a damaged track is in no Score either
        count["texts"] += max(names, 0)
    return count


def of_track(chunk: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Of a track that is whole: tick and status of each message, where it begins, without a status
    that is left out, and where it ends."""
    at = tick = status = 0
    while at < len(chunk):
        delta, at = scan.number(chunk, at)
        tick += delta
        begin, first = at, chunk[at]
        if first >= 0xF0:
            if first in (0xFF, 0xF0, 0xF7):
                size, at = scan.number(chunk, at + 1 + (first == 0xFF))
                at += size
            else:
                at += 1 + scan.SYSTEM_DATA.get(first, 0)
            yield tick, first, begin, at
            continue
        if first >= 0x80:
            status = first
            at += 1
        at += 1 if 0xC0 <= status < 0xE0 else 2
        yield tick, status, begin, at


def written(rows: Iterable[Message], last: int = 0, rest: bytes = b"") -> bytes:
    """Messages in the order of their ticks, an end of track at ``last`` or after them, ``rest``."""
    out, now = [], 0
    for tick, _, body, _ in _with_programs(sorted(rows, key=lambda row: row[:2])):
        out += [number(tick - now), body]
        now = tick
    return b"".join([*out, number(max(last - now, 0)), _END, rest])


def _with_programs(rows: list[Message]) -> list[Message]:
    """``rows`` with a program change before each note-on that would sound with another program than
    it is to. A change that is there becomes that of all notes up to the next one, if they agree."""
    if all(row.program is None for row in rows):
        return rows
    made: list[Message] = []
    in_force = [0] * 16
    notes: dict[int, list[Message]] = {}
    after: list[list[Message]] = [[]] * len(rows)  # the note-ons that a program change is for
    for index in range(len(rows) - 1, -1, -1):
        channel = rows[index].body[0] & 15
        if rows[index].body[0] >> 4 == 9 and rows[index].body[2]:
            notes.setdefault(channel, []).append(rows[index])
        elif rows[index].body[0] >> 4 == 0xC:
            after[index] = notes.pop(channel, [])
    for row, its in zip(rows, after):
        channel = row.body[0] & 15
        if row.body[0] >> 4 == 0xC:
            wanted = {note.program for note in its}
            if len(wanted) == 1 and None not in wanted and any(n.phase == THERE for n in its):
                row = row._replace(body=bytes([row.body[0], *wanted]))  # type: ignore[list-item]
            in_force[channel] = row.body[1]
        elif row.program not in (None, in_force[channel]):
            in_force[channel] = row.program or 0
            made.append(row._replace(body=bytes([0xC0 | channel, in_force[channel]])))
        made.append(row)
    return made
