"""Edits the tracks of a MIDI file. All bytes outside of edited tracks are copied unchanged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from musictx.config.checks import DAY
from musictx.config.limits import Limits
from musictx.midi import scan
from musictx.midi.clock import TickClock
from musictx.midi.read import FileParts

#: Limits for files that were checked when they were first read.
NO_LIMITS = Limits(midi_mb=10**9, notes=10**9, events=10**9, tracks=65_535, seconds=DAY)
#: Meta events that a Score does not have: text, copyright, instrument, cue point, program name,
#: device name, sequencer-specific data. They are reported as texts.
_LOST_TEXTS = {0x01, 0x02, 0x04, 0x07, 0x08, 0x09, 0x7F}
#: {upper half of the status byte: name} of other messages that a Score does not have.
_LOST_MESSAGES = {0xA: "aftertouch", 0xD: "aftertouch", 0xE: "bends"}
#: Phases, in the order of the messages at one tick: new messages that come first, such as
#: note-offs; messages of the file; new pedals and note-ons.
OFF, EXISTING, ON = range(3)


class Message(NamedTuple):
    """A message of a track, or a new message."""

    tick: int
    phase: int
    body: bytes
    """All bytes, beginning with the status byte."""
    program: int | None = None
    """The program that a note-on must sound with; None: the current one of its channel."""

    @property
    def channel(self) -> int | None:
        return self.body[0] & 15 if self.body[0] < 0xF0 else None

    @property
    def meta(self) -> int | None:
        """The type of a meta event; None for other messages."""
        return self.body[1] if self.body[0] == 0xFF else None


def controller(tick: int, channel: int, number: int, value: int, phase: int = ON) -> Message:
    """Return a message that sets a controller, such as 64, the sustain pedal."""
    return Message(tick, phase, bytes([0xB0 | channel, number, value]))


class MidiTrack:
    """A track that can be edited.

    last      tick of the end of the track; a message may come later
    messages  {number: message}; replace or delete messages here, and :meth:`add` new ones
    events    numbers of the messages in ``scan.ScannedFile.events``, in the same order
    """

    def __init__(self, chunk: bytes) -> None:
        messages, self.last = parse_track(chunk)
        self.messages = dict(enumerate(messages))
        self.events = [n for n, message in self.messages.items() if _is_scanned(message.body)]
        self._new_numbers = count(len(self.messages))
        self._chunk, self._original = chunk, (self.last, self.messages.copy())

    def add(self, messages: Iterable[Message]) -> None:
        """Add messages; those at one tick are sorted by phase, then in the order of adding."""
        self.messages.update(zip(self._new_numbers, messages))

    def remove_meta(self, kinds: Collection[int]) -> None:
        """Remove the meta events of these types."""
        for n, message in list(self.messages.items()):
            if message.meta in kinds:
                del self.messages[n]

    def change_channels(self, new_channels: Mapping[int, int]) -> None:
        """Move messages to other channels; ``new_channels`` is {old channel: new channel}."""
        for n, message in self.messages.items():
            if message.channel is not None:
                status = message.body[0] & 0xF0 | new_channels.get(message.channel, message.channel)
                self.messages[n] = message._replace(body=bytes([status]) + message.body[1:])

    def move(self, new_ticks: Callable[[np.ndarray], np.ndarray]) -> None:
        """Move all messages, and the end of the track, from their ticks to ``new_ticks(ticks)``."""
        old_ticks = [*(message.tick for message in self.messages.values()), self.last]
        *ticks, self.last = new_ticks(np.array(old_ticks)).tolist()
        for (n, message), tick in zip(self.messages.items(), ticks):
            self.messages[n] = message._replace(tick=tick)

    def content(self) -> bytes:
        """Return the bytes of the track: the original ones if nothing has changed."""
        if (self.last, self.messages) == self._original:
            return self._chunk
        return track_content(self.messages.values(), self.last)


def _is_scanned(body: bytes) -> bool:
    """Whether ``scan.ScannedFile.events`` has this message."""
    kind = body[0] >> 4
    return kind in (8, 9, 0xC) or (kind == 0xB and body[1] == 64)


class MidiFile:
    """An undamaged MIDI file without a RIFF container, whose tracks can be edited.

    data                the bytes of the file
    file, clock, parts  its events, tick clock and parts, as :mod:`musictx.midi.read` uses them
    places              MIDI track * 16 + channel of each part
    chunks              the bytes of each track, without the chunk header
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.file = data, scan.scan(data, NO_LIMITS)
        self.clock = TickClock.from_file(self.file)
        self.parts = FileParts(self.file, self.clock)
        self.places = self.parts.places
        self.chunks = chunks(data)
        self._tracks: dict[int, MidiTrack] = {}
        numbers = np.arange(len(self.chunks))
        self._first_events = np.searchsorted(self.file.events["track"], numbers).tolist()

    def track(self, number: int) -> MidiTrack:
        """Return a track to edit; calls with the same number return the same object."""
        if number not in self._tracks:
            self._tracks[number] = MidiTrack(self.chunks[number])
        return self._tracks[number]

    def event(self, index: int) -> tuple[MidiTrack, int]:
        """Return the track of ``file.events[index]``, and the number of its message there."""
        number = int(self.file.events["track"][index])
        track = self.track(number)
        return track, track.events[index - self._first_events[number]]

    def edited(self, new_tracks: Iterable[bytes] = ()) -> bytes:
        """Return the bytes of the edited file, with the contents of ``new_tracks`` at the end."""
        tracks = self._tracks
        contents = [tracks[n].content() if n in tracks else c for n, c in enumerate(self.chunks)]
        return self.with_contents([*contents, *new_tracks])

    def with_contents(self, contents: Sequence[bytes]) -> bytes:
        """Return the bytes of the file with these contents of tracks instead of its own.

        Chunks that are not tracks stay where they are. If the number of tracks changes, so does the
        header; a file that gets several tracks has format 1.
        """
        data = self.data
        pieces, copied, old_count, count = [], 0, 0, len(contents)
        for begin, end in scan.track_chunks(data, Counter()):
            pieces.append(data[copied : begin - 8])
            pieces += map(track_chunk, contents[old_count : old_count + 1])
            copied, old_count = end, old_count + 1
        result = b"".join([*pieces, *map(track_chunk, contents[old_count:]), data[copied:]])
        if old_count == count:
            return result
        file_format = min(1, int.from_bytes(data[8:10], "big")) if count == 1 else 1
        return result[:8] + file_format.to_bytes(2, "big") + count.to_bytes(2, "big") + result[12:]


def chunks(data: bytes) -> list[bytes]:
    """Return the bytes of each track of a MIDI file, without the chunk header."""
    return [data[begin:end] for begin, end in scan.track_chunks(data, Counter())]


def track_chunk(content: bytes) -> bytes:
    """Return a track chunk: header and content."""
    return b"MTrk" + len(content).to_bytes(4, "big") + content


def parse_track(chunk: bytes) -> tuple[list[Message], int]:
    """Return the messages of an undamaged track, and the tick of its end."""
    messages: list[Message] = []
    for message in read_messages(chunk):
        if message.meta == scan.END:
            return messages, message.tick
        messages.append(message)
    return messages, messages[-1].tick if messages else 0


def read_messages(chunk: bytes) -> Iterator[Message]:
    """Yield the messages of an undamaged track, including the end of the track."""
    end = tick = status = 0
    while end < len(chunk):
        delta, begin = scan.read_quantity(chunk, end)
        tick += delta
        first = chunk[begin]
        if first in (0xFF, 0xF0, 0xF7):
            size, end = scan.read_quantity(chunk, begin + 1 + (first == 0xFF))
            end += size
        elif first >= 0xF0:
            end = begin + 1 + scan.SYSTEM_DATA.get(first, 0)
        else:
            status = first if first >= 0x80 else status
            end = begin + (first >= 0x80) + (1 if 0xC0 <= status < 0xE0 else 2)
        body = chunk[begin:end]
        yield Message(tick, EXISTING, body if first >= 0x80 else bytes([status]) + body)


def shorten(data: bytes, seconds: float) -> bytes:
    """Return the MIDI file ``data`` with each track cut off at ``seconds``, or at its last message
    if that is later."""
    document = MidiFile(data)
    for number in range(len(document.chunks)):
        track = document.track(number)
        track.last = min(track.last, int(document.clock.ticks(seconds)))
    return document.edited()


def text_of(body: bytes) -> str:
    """Return the text of a meta event, as in ``scan.ScannedFile``: shortened and printable."""
    return scan.printable(body[scan.read_quantity(body, 2)[1] :])


def track_content(messages: Iterable[Message], last: int = 0) -> bytes:
    """Return the bytes of a track: messages sorted by tick and phase, then the end of the track, at
    the tick ``last`` or with the last message if that is later."""
    result, previous = [], 0
    for tick, _, body, _ in _with_programs(sorted(messages, key=lambda message: message[:2])):
        result += [quantity(tick - previous), body]
        previous = tick
    end = quantity(max(last - previous, 0)) + bytes([0xFF, scan.END, 0])
    return b"".join([*result, end])


def quantity(value: int) -> bytes:
    """Encode a variable-length quantity, the inverse of ``scan.read_quantity``."""
    result = [value & 0x7F]
    while value := value >> 7:
        result.append(value & 0x7F | 0x80)
    return bytes(reversed(result))


def _with_programs(messages: list[Message]) -> list[Message]:
    """Add or replace program changes so that each note-on sounds with its ``program``.

    An existing program change is replaced if all notes up to the next one need the same program.
    Otherwise program changes are added before notes.
    """
    if all(message.program is None for message in messages):
        return messages
    current_notes: defaultdict[int, list[Message]] = defaultdict(list)  # by channel
    notes_after: list[list[Message]] = []  # for each message, the notes of its program change
    for message in messages:
        kind, channel = divmod(message.body[0], 16)
        if kind == 0xC:
            current_notes[channel] = []
        elif kind == 9 and message.body[2]:
            current_notes[channel].append(message)
        notes_after.append(current_notes[channel])
    result: list[Message] = []
    current = [0] * 16  # program of each channel
    for message, notes in zip(messages, notes_after):
        channel = message.body[0] & 15
        if message.body[0] >> 4 == 0xC:
            program = notes[0].program if notes else None
            is_common = all(note.program == program for note in notes)
            if program is not None and is_common and any(n.phase == EXISTING for n in notes):
                message = message._replace(body=bytes([message.body[0], program]))
            current[channel] = message.body[1]
        elif message.program is not None and message.program != current[channel]:
            current[channel] = message.program
            result.append(message._replace(body=bytes([0xC0 | channel, current[channel]])))
        result.append(message)
    return result


def describe_losses(data: bytes, why: str) -> str:
    """Return a sentence with the kinds of messages of the MIDI file ``data`` that are lost in a new
    file made from its Score, and the reason ``why`` it is made; "" if nothing is lost."""
    lost: Counter[str] = Counter()
    for chunk in chunks(data):
        track_names, has_notes = 0, False
        try:
            for _, _, body, _ in read_messages(chunk):
                kind = body[0] >> 4
                track_names += body[:2] == b"\xff\3"
                has_notes |= kind == 9
                if body[0] == 0xFF:
                    lost["texts"] += body[1] in _LOST_TEXTS
                elif kind == 0xF:
                    lost["SysEx messages"] += 1
                elif kind == 0x8:
                    lost["release velocities"] += body[2] not in (0, 64)
                elif kind == 0xB:
                    lost["controllers"] += body[1] != 64
                elif kind in _LOST_MESSAGES:
                    lost[_LOST_MESSAGES[kind]] += 1
        except (IndexError, ValueError):
            pass  # a Score does not have the rest of a damaged track either
        lost["texts"] += 0 if has_notes else track_names  # a Score names only tracks with notes
    kinds = ", ".join(kind for kind, number in lost.items() if number)
    return f"The MIDI file is written anew ({why}), without its {kinds}" if kinds else ""
