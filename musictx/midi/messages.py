"""A MIDI file of which some tracks have other messages, the rest of it copied byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from musictx.config.checks import DAY
from musictx.config.limits import Limits
from musictx.midi import scan
from musictx.midi.encode import number

#: What passed the limits of whoever read it passes here.
ANY = Limits(midi_mb=10**9, notes=10**9, events=10**9, tracks=65_535, seconds=DAY)
NAME, MARKER, _END, _TRACK = 0x03, 0x06, b"\xff\x2f\0", b"MTrk"
#: Phases of one tick: ends of new notes, what is there, new pedals and beginnings of new notes.
OFF, THERE, ON = range(3)


class NewMessage(NamedTuple):
    """A message to be added."""

    tick: int
    phase: int
    body: bytes


@dataclass
class TrackEdit:
    """What changes in a track of the file."""

    gone: set[int] = field(default_factory=set)
    """Which of its events in ``scan.File.events`` go, counted from its first;"""
    new: list[NewMessage] = field(default_factory=list)
    """and what comes."""
    without: set[int] = field(default_factory=set)
    """Meta events of these kinds, such as :data:`NAME`, go."""
    reset: dict[tuple[int, int], int] = field(default_factory=dict)
    """Channel and number of a controller -> the tick up to which its movements go."""
    moved: Callable[[int], int] | None = None
    """The tick of each of its messages -> where it is to stand, never before an earlier one."""


def worded(tick: int, kind: int, text: str) -> NewMessage:
    """A name or a marker."""
    coded = text.encode("utf-8", "replace")
    return NewMessage(tick, OFF, bytes([0xFF, kind]) + number(len(coded)) + coded)


def assembled(data: bytes, tracks: dict[int, TrackEdit], more: list[bytes]) -> bytes:
    """``data`` with some tracks made anew and ``more`` after the last."""
    out, copied, count = [], 0, 0
    for begin, end in scan.track_chunks(data, Counter()):
        if count in tracks:
            content = _remade(data[begin:end], tracks[count])
            out += [data[copied : begin - 8], _TRACK, len(content).to_bytes(4, "big"), content]
            copied = end
        count, last = count + 1, end
    out.append(data[copied:last])
    for content in more:
        out += [_TRACK, len(content).to_bytes(4, "big"), content]
    made = b"".join([*out, data[last:]])
    if not more:
        return made
    kind = max(1, int.from_bytes(data[8:10], "big"))
    return made[:8] + kind.to_bytes(2, "big") + (count + len(more)).to_bytes(2, "big") + made[12:]


def _remade(chunk: bytes, change: TrackEdit) -> bytes:
    """The contents of a track with a change."""
    there, counted, end = [], 0, len(chunk)
    last = tick = 0
    for then, status, at, stop in of_track(chunk):
        body, tick = chunk[at:stop], change.moved(then) if change.moved else then
        if status < 0xF0:
            body = body if body[0] & 0x80 else bytes([status]) + body
            kind = status >> 4
            if kind in (8, 9, 0xC) or (kind == 0xB and body[1] == 64):  # what a scan keeps
                counted += 1
                if counted - 1 in change.gone:
                    continue
            if kind == 0xB and tick <= change.reset.get((body[0] & 15, body[1]), -1):
                continue
        elif body[:2] == _END[:2]:
            last, end = tick, stop
            break
        elif body[0] == 0xFF and body[1] in change.without:
            continue
        there.append((tick, body))
    return written(there, change.new, last, chunk[end:])


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


def written(there: list[tuple[int, bytes]], new: list[NewMessage], last: int, rest: bytes) -> bytes:
    """Messages in the order of their ticks, an end of track at ``last`` or after them, ``rest``."""
    rows = [NewMessage(tick, THERE, body) for tick, body in there] + new
    rows.sort(key=lambda row: row[:2])
    out, now = [], 0
    for tick, _, body in rows:
        out += [number(tick - now), body]
        now = tick
    return b"".join([*out, number(max(last - now, 0)), _END, rest])
