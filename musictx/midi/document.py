"""Edits tracks of a MIDI file; all other bytes of the file are copied as they are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from musictx.config.checks import DAY
from musictx.config.limits import Limits
from musictx.midi import scan
from musictx.midi.clock import TickClock
from musictx.midi.read import FileParts

#: Limits that no file exceeds: whoever read it first has checked it.
ANY = Limits(midi_mb=10**9, notes=10**9, events=10**9, tracks=65_535, seconds=DAY)
END = b"\xff\x2f\0"
#: Kinds of texts that a Score does not hold: words, copyright, instruments, cues, sequencers' data.
_TEXTS = {0x01, 0x02, 0x04, 0x07, 0x08, 0x09, 0x7F}
_KINDS = {0xA: "aftertouch", 0xD: "aftertouch", 0xE: "bends"}
#: The order of messages at one tick: ends of new notes, what the file has, new pedals and
#: beginnings of new notes.
OFF, THERE, ON = range(3)


class Message(NamedTuple):
    """A message of a track, or one to be added."""

    tick: int
    phase: int
    body: bytes
    """With its status byte."""
    program: int | None = None
    """The program with which a note-on is to sound; None: the present one of its channel."""

    @property
    def channel(self) -> int | None:
        return self.body[0] & 15 if self.body[0] < 0xF0 else None

    @property
    def meta(self) -> int | None:
        """The kind of a meta event."""
        return self.body[1] if self.body[0] == 0xFF else None


def controller(tick: int, channel: int, number: int, value: int, phase: int = ON) -> Message:
    """A movement of a controller, such as 64, the sustain pedal."""
    return Message(tick, phase, bytes([0xB0 | channel, number, value]))


class Track:
    """The messages of a track, to be removed, replaced, moved and joined by others."""

    def __init__(self, chunk: bytes) -> None:
        messages, self.last = parsed(chunk)
        #: By number: messages are removed and replaced here.
        self.rows = dict(enumerate(messages))
        #: The numbers of those that are in ``scan.File.events``.
        self.events = [n for n, row in self.rows.items() if _scanned(row.body)]
        #: Messages to be added.
        self.new: list[Message] = []
        self._chunk, self._before = chunk, (self.last, self.rows.copy())

    def remove_meta(self, kinds: Collection[int]) -> None:
        """Remove all meta events of some kinds."""
        for n, row in list(self.rows.items()):
            if row.meta in kinds:
                del self.rows[n]

    def send(self, channels: Mapping[int, int]) -> None:
        """Send the messages of some channels on others: channel -> the other one."""
        for n, row in self.rows.items():
            if row.body[0] < 0xF0:
                kind, channel = row.body[0] & 0xF0, row.body[0] & 15
                status = bytes([kind | channels.get(channel, channel)])
                self.rows[n] = row._replace(body=status + row.body[1:])

    def move(self, moved: Callable[[np.ndarray], np.ndarray]) -> None:
        """Move all messages, and the end, from their ticks to ``moved(ticks)``."""
        ticks = np.array([*(row.tick for row in self.rows.values()), self.last])
        *others, self.last = moved(ticks).tolist()
        moves = zip(self.rows.items(), others)
        self.rows = {n: row._replace(tick=tick) for (n, row), tick in moves}

    def content(self) -> bytes:
        """The bytes of the track: the same where nothing has changed."""
        if not self.new and (self.last, self.rows) == self._before:
            return self._chunk
        return written([*self.rows.values(), *self.new], self.last)


def _scanned(body: bytes) -> bool:
    kind = body[0] >> 4
    return kind in (8, 9, 0xC) or (kind == 0xB and body[1] == 64)


class Document:
    """A whole MIDI file without a RIFF container, whose tracks can be edited."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._tracks: dict[int, Track] = {}

    @cached_property
    def file(self) -> scan.File:
        return scan.scan(self.data, limits=ANY)

    @cached_property
    def clock(self) -> TickClock:
        return TickClock.of(self.file, "")

    @cached_property
    def parts(self) -> FileParts:
        return FileParts.of(self.file, self.clock, Counter())

    @property
    def places(self) -> list[int]:
        """Where each part stands, by its number: MIDI track * 16 + channel."""
        return self.parts.places

    @cached_property
    def chunks(self) -> list[bytes]:
        """The contents of all tracks."""
        return [self.data[begin:end] for begin, end in scan.track_chunks(self.data, Counter())]

    def track(self, number: int) -> Track:
        """A track for editing."""
        if number not in self._tracks:
            self._tracks[number] = Track(self.chunks[number])
        return self._tracks[number]

    def event(self, index: int) -> tuple[Track, int]:
        """The track of ``file.events[index]``, and the number of its row in there."""
        number = int(self.file.events["track"][index])
        track = self.track(number)
        return track, track.events[index - self._first_events[number]]

    @cached_property
    def _first_events(self) -> list[int]:
        first = np.searchsorted(self.file.events["track"], np.arange(len(self.chunks)))
        numbers: list[int] = first.tolist()
        return numbers

    def edited(self, more: Iterable[bytes] = ()) -> bytes:
        """The file as edited, with ``more`` tracks after the last."""
        opened = self._tracks
        contents = [opened[n].content() if n in opened else c for n, c in enumerate(self.chunks)]
        return self.with_contents([*contents, *more])

    def with_contents(self, contents: Sequence[bytes]) -> bytes:
        """The file with other tracks. Chunks of other kinds stay in their places. A file of format
        0 becomes one of format 1 where there is more than one track."""
        data = self.data
        out, copied, count = [], 0, 0
        for begin, end in scan.track_chunks(data, Counter()):
            out.append(data[copied : begin - 8])
            out += map(chunk_of, contents[count : count + 1])
            copied, count = end, count + 1
        made = b"".join([*out, *map(chunk_of, contents[count:]), data[copied:]])
        if count == len(contents):
            return made
        kind = min(1, int.from_bytes(data[8:10], "big")) if len(contents) == 1 else 1
        return made[:8] + kind.to_bytes(2, "big") + len(contents).to_bytes(2, "big") + made[12:]


def chunk_of(content: bytes) -> bytes:
    """The chunk with the messages of a track."""
    return b"MTrk" + len(content).to_bytes(4, "big") + content


def parsed(chunk: bytes) -> tuple[list[Message], int]:
    """The messages of a track that is whole, and the tick of its end."""
    rows: list[Message] = []
    for row in messages(chunk):
        if row.meta == END[1]:
            return rows, row.tick
        rows.append(row)
    return rows, rows[-1].tick if rows else 0


def messages(chunk: bytes) -> Iterator[Message]:
    """The messages of an undamaged track."""
    at = tick = status = 0
    while at < len(chunk):
        delta, begin = scan.read_quantity(chunk, at)
        tick += delta
        first = chunk[begin]
        if first in (0xFF, 0xF0, 0xF7):
            size, at = scan.read_quantity(chunk, begin + 1 + (first == 0xFF))
            at += size
        elif first >= 0xF0:
            at = begin + 1 + scan.SYSTEM_DATA.get(first, 0)
        else:
            status = first if first >= 0x80 else status
            at = begin + (first >= 0x80) + (1 if 0xC0 <= status < 0xE0 else 2)
        body = chunk[begin:at]
        yield Message(tick, THERE, body if first >= 0x80 else bytes([status]) + body)


def shortened(data: bytes, seconds: float) -> bytes:
    """The MIDI file ``data`` with tracks that end at ``seconds``, earlier, or else with their last
    message. All messages stay."""
    document = Document(data)
    for number in range(len(document.chunks)):
        track = document.track(number)
        track.last = min(track.last, int(document.clock.ticks(seconds)))
    return document.edited()


def text_of(body: bytes) -> str:
    """The text of a meta event, as a scan gives it."""
    return scan.printable(body[scan.read_quantity(body, 2)[1] :])


def written(rows: Iterable[Message], last: int = 0) -> bytes:
    """The bytes of a track: messages in the order of their ticks, then an end of track, at ``last``
    or at the last message."""
    out, now = [], 0
    for tick, _, body, _ in _with_programs(sorted(rows, key=lambda row: row[:2])):
        out += [quantity(tick - now), body]
        now = tick
    return b"".join([*out, quantity(max(last - now, 0)), END])


def quantity(value: int) -> bytes:
    """A variable-length quantity."""
    out = [value & 0x7F]
    while value := value >> 7:
        out.append(value & 0x7F | 0x80)
    return bytes(reversed(out))


def _with_programs(rows: list[Message]) -> list[Message]:
    """``rows`` with a program change before each note-on that would otherwise sound with another
    program than its own. If all notes between a program change of the file and the next one have
    the same program, that change is changed to it instead."""
    if all(row.program is None for row in rows):
        return rows
    notes: defaultdict[int, list[Message]] = defaultdict(list)
    after: list[list[Message]] = []  # of each program change, the note-ons that it is for
    for row in rows:
        kind, channel = divmod(row.body[0], 16)
        if kind == 0xC:
            notes[channel] = []
        elif kind == 9 and row.body[2]:
            notes[channel].append(row)
        after.append(notes[channel])
    made: list[Message] = []
    in_force = [0] * 16
    for row, its in zip(rows, after):
        channel = row.body[0] & 15
        if row.body[0] >> 4 == 0xC:
            programs = {note.program for note in its}
            if len(programs) == 1 and None not in programs and any(n.phase == THERE for n in its):
                row = row._replace(body=bytes([row.body[0], *programs]))  # type: ignore[list-item]
            in_force[channel] = row.body[1]
        elif row.program not in (None, in_force[channel]):
            in_force[channel] = row.program or 0
            made.append(row._replace(body=bytes([0xC0 | channel, in_force[channel]])))
        made.append(row)
    return made


def unread(data: bytes) -> Counter[str]:
    """How many messages there are of each kind that a :class:`musictx.notes.Score` leaves out."""
    count: Counter[str] = Counter()
    for chunk in Document(data).chunks:
        names = 0  # a Score does not have the names of tracks without notes
        try:
            for _, _, body, _ in messages(chunk):
                kind = body[0] >> 4
                names = -1 if kind == 9 or names < 0 else names + (body[:2] == b"\xff\3")
                if body[0] == 0xFF:
                    count["texts"] += body[1] in _TEXTS
                elif kind == 0xF:
                    count["SysEx messages"] += 1
                elif kind == 0x8:
                    count["release velocities"] += body[2] not in (0, 64)
                elif kind == 0xB:
                    count["controllers"] += body[1] != 64
                elif kind in _KINDS:
                    count[_KINDS[kind]] += 1
        except (IndexError, ValueError):
            pass  # the rest of a damaged track is in no Score either
        count["texts"] += max(names, 0)
    return count
