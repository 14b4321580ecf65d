"""Parse the bytes of a Standard MIDI File into a table of events and lists of marks.

The result has only what a Score needs: note-ons and note-offs, the sustain pedal (controller 64),
program changes, tempos, meters, keys, markers, lyrics, names of tracks, and which channels are
drums. Channels and tracks are those of the file. All tracks share one table of events, so a file of
many small tracks costs no more than one of few large ones.

No library is used, since every loss must be counted. symusic silently drops notes without a
note-off, gives the pedal of a channel to one of its programs only, and refuses SMPTE time and data
bytes above 127; mido is ten times slower, and refuses a whole file because of one bad byte. The
tests compare this scanner with both.

Source: "Standard MIDI Files 1.0", RP-001, MIDI Manufacturers Association.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from musictx import registry
from musictx.config.limits import Limits
from musictx.errors import MidiError

#: One channel message: ``status`` is the status byte (kind in the upper, channel in the lower four
#: bits), ``a`` and ``b`` are the data bytes, 0 to 127; ``track`` is the index of the MIDI track.
CHANNEL_EVENT = np.dtype(
    [("tick", "i8"), ("track", "i8"), ("status", "u1"), ("a", "u1"), ("b", "u1")]
)

#: A file with a later tick is damaged. Up to this one, ticks times tempos fit into 64 bits.
_LAST_TICK = 2**36
#: {field of a Score: type of its meta events}.
META_TYPES = {"tempos": 0x51, "meters": 0x58, "keys": 0x59, "markers": 0x06, "lyrics": 0x05}
_FIELDS = {kind: name for name, kind in META_TYPES.items()}
#: Types of the meta events that name and end a track.
NAME, END = 0x03, 0x2F
#: A mark takes the memory of this many events, and counts as that many in ``limits.events``.
MARK_EVENTS = 10
#: Texts are truncated to this number of characters.
_LONGEST_TEXT = 100
#: The channel of drums in General MIDI, counted from 0.
DRUM_CHANNEL = 9
#: The repairs that :func:`scan` counts.
REPAIRS = (
    "truncated track",  # a track ends within an event or before its stated length
    "damaged track",  # the rest of a track, or bytes between tracks, are not MIDI
    "bytes out of range",  # a data byte above 127, read as 127
    "tempo of zero",  # it would stop time, and is left out
    "missing track",  # the header counts a track that the file does not have
)
#: {status: number of data bytes} of system messages, which are skipped: files should have none.
SYSTEM_DATA = {0xF1: 1, 0xF2: 2, 0xF3: 1}


@dataclass
class ScannedFile:
    """The content of a whole file."""

    format: int
    division: int
    """The raw header field, for :class:`musictx.midi.clock.TickClock`."""
    events: np.ndarray = field(default_factory=lambda: np.empty(0, CHANNEL_EVENT))
    """(n,) of dtype :data:`CHANNEL_EVENT`: note-ons, note-offs, controller 64 and program changes,
    track after track, each in order of time."""
    ends: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    """(tracks,) int64: the tick at which each track ends (:func:`_track`)."""
    marks: dict[str, list[tuple]] = field(default_factory=lambda: {name: [] for name in META_TYPES})
    """{field of a Score: rows (track, tick, ...)} in the order of the file. Tempos: microseconds a
    quarter note, never 0. Meters: numerator, denominator. Keys: sharps (negative: flats), whether
    minor. Markers and lyrics: text."""
    names: dict[int, str] = field(default_factory=dict)
    """{track: name} of the tracks that have a name."""
    drums: set[int] = field(default_factory=lambda: {DRUM_CHANNEL})
    """Channels of drums: that of General MIDI, and those set by SysEx messages of GS or XG."""
    repairs: Counter[str] = field(default_factory=Counter)
    """The number of each of the :data:`REPAIRS`."""


def scan(data: bytes, limits: Limits) -> ScannedFile:
    """Scan a file of format 0, 1 or 2, bare or inside a RIFF container (.rmi).

    A damaged file is read as far as possible; ``ScannedFile.repairs`` counts its :data:`REPAIRS`.
    All MTrk chunks are read, even if the header states fewer; other chunks are skipped.
    Raises :class:`MidiError` with reason "empty file", "not a MIDI file", "no tracks", "too large"
    (``limits``) or, if no event could be read, "truncated" or "damaged".
    """
    if not data:
        raise MidiError("the file is empty", "empty file")
    data = bare(data)
    if data[:4] != b"MThd":
        raise MidiError(
            f"not a MIDI file, it begins with {data[:4]!r} instead of b'MThd'", "not a MIDI file"
        )
    if len(data) < 14:
        raise MidiError("the file ends inside its header", "truncated")
    file = ScannedFile(int.from_bytes(data[8:10], "big"), int.from_bytes(data[12:14], "big"))
    packed: list[np.ndarray] = []
    ends: list[int] = []
    total = 0
    for begin, end in track_chunks(data, file.repairs):
        packed_track, last = _track(data[begin:end], len(ends), file)
        packed.append(packed_track)
        ends.append(last)
        total += len(packed_track)
        marks = sum(map(len, file.marks.values()))
        for name, count in (("tracks", len(ends)), ("events", total + MARK_EVENTS * marks)):
            if count > (limit := getattr(limits, name)):
                raise MidiError(f"more than limits.{name}={limit} {name}", "too large")
    if not ends:
        raise MidiError("there is no track in the file", "no tracks")
    for fault in ("truncated", "damaged"):
        if file.repairs[f"{fault} track"] and not total:
            raise MidiError(f"the file is {fault}, no note can be read", fault)
    stated = int.from_bytes(data[10:12], "big")
    if len(ends) < stated:
        file.repairs["missing track"] += stated - len(ends)
    file.events, file.ends = _unpack(packed, file.repairs), np.array(ends, np.int64)
    return file


def bare(data: bytes) -> bytes:
    """Return a MIDI file without its RIFF container, if it has one; b"" if that is empty."""
    if data[:4] != b"RIFF" or data[8:12] != b"RMID":
        return data
    at = 12
    while at + 8 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] == b"data":
            return data[at + 8 : at + 8 + size]
        at += 8 + size + size % 2
    return b""


def track_chunks(data: bytes, repairs: Counter) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of the content of each MTrk chunk. If no chunk begins where the previous
    one ends by its length, this length is wrong, and the next ``MTrk`` is searched. A track ends at
    an end mark that is followed by ``MTrk``, even if its stated length is greater."""
    at = 8 + int.from_bytes(data[4:8], "big")
    while True:
        if data[at : at + 4] != b"MTrk":
            size = int.from_bytes(data[at + 4 : at + 8], "big")
            if data[at : at + 4].isalnum() and at + 8 + size <= len(data):
                at += 8 + size  # skip a chunk of another kind
                continue
            at = data.find(b"MTrk", min(at, len(data)))
            if at < 0:
                return
            repairs["damaged track"] += 1
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        end_mark = data.find(b"\xff\x2f\0MTrk", at + 8, at + 8 + size + 3)
        if end_mark >= 0:
            size = end_mark + 3 - (at + 8)
        if end_mark >= 0 or size > max(0, len(data) - at - 8):
            repairs["truncated track"] += 1
        yield at + 8, at + 8 + size
        at += 8 + size


@cache
def _fast_reader() -> Any:
    """The optional class that reads many events of a track at once, or ``None``."""
    path = registry.SCANNERS.get("midi")
    return None if path is None else registry.load(path)


def _track(chunk: bytes, number: int, file: ScannedFile) -> tuple[np.ndarray, int]:
    """Read one track, and add its marks, name and drum channels to ``file``.

    Returns the events, each packed as ``tick << 24 | status << 16 | a << 8 | b``, and the tick at
    which the track ends: that of its end mark or, without one, of its last message; of its last
    event if the track is truncated or damaged.
    """
    runs: list[np.ndarray] = []  # packed events before those in ``packed``
    packed: list[int] = []
    fast_reader = _fast_reader()
    stretches: Any = fast_reader(chunk) if fast_reader else None
    due = stretches.next_attempt if stretches else len(chunk)  # where the fast reader takes over
    at = tick = status = 0
    fault = ""
    try:
        while at < len(chunk):
            if at >= due:
                start = at
                run, at, tick, status = stretches.read(at, tick, status, _LAST_TICK)
                runs += [np.array(packed, np.int64), run]
                packed.clear()
                due = stretches.next_attempt
                if at > start:
                    continue
            byte = chunk[at]
            at += 1
            if byte < 0x80:
                tick += byte
            else:
                delta, at = read_quantity(chunk, at - 1)
                tick += delta
                if tick > _LAST_TICK:
                    raise ValueError("tick")
            byte = chunk[at]
            if byte >= 0xF0:
                if byte not in (0xFF, 0xF0, 0xF7):
                    at += 1 + SYSTEM_DATA.get(byte, 0)
                    continue
                # Running status continues after these: files do so, though the standard forbids it.
                kind = chunk[at + 1] if byte == 0xFF else -1
                size, at = read_quantity(chunk, at + 1 + (byte == 0xFF))
                at += size
                if at > len(chunk):
                    raise IndexError
                if kind == END:
                    break
                if kind >= 0:
                    _mark(file, number, tick, kind, chunk[at - size : at])
                elif size:
                    file.drums |= rhythm_part(chunk[at - size : at])
                continue
            if byte >= 0x80:
                status = byte
                at += 1
            elif not status:
                raise ValueError("data byte without a status")
            if 0xC0 <= status < 0xE0:  # program change, channel pressure: one data byte
                a = chunk[at]
                at += 1
                if status < 0xD0:
                    packed.append(tick << 24 | status << 16 | a << 8)
            else:
                a, b = chunk[at], chunk[at + 1]
                at += 2
                if status < 0xA0 or (a == 64 and 0xB0 <= status < 0xC0):
                    packed.append(tick << 24 | status << 16 | a << 8 | b)
    except IndexError:
        fault = "truncated track"
    except ValueError:
        fault = "damaged track"
    events = np.concatenate([*runs, np.array(packed, np.int64)])
    if fault:
        file.repairs[fault] += 1
        tick = int(events[-1]) >> 24 if len(events) else 0  # later ticks may be wrong
    return events, tick


def _mark(file: ScannedFile, track: int, tick: int, kind: int, payload: bytes) -> None:
    """Add a meta event to ``file``; ignore events of other types and invalid ones."""
    name = _FIELDS.get(kind, "")
    if name == "tempos" and len(payload) >= 3:
        if microseconds := int.from_bytes(payload[:3], "big"):
            file.marks[name].append((track, tick, microseconds))
        else:
            file.repairs["tempo of zero"] += 1
    elif name == "meters" and len(payload) >= 2 and payload[0] and payload[1] < 16:
        file.marks[name].append((track, tick, payload[0], 1 << payload[1]))
    elif name == "keys" and len(payload) >= 2 and (payload[0] + 7) % 256 <= 14:
        file.marks[name].append((track, tick, (payload[0] + 7) % 256 - 7, payload[1] == 1))
    elif name in ("markers", "lyrics") and (text := printable(payload)):
        file.marks[name].append((track, tick, text))
    elif kind == NAME and (text := printable(payload)):
        file.names.setdefault(track, text)


def _unpack(tracks: list[np.ndarray], repairs: Counter) -> np.ndarray:
    """Convert the packed events of all tracks to :data:`CHANNEL_EVENT`, and count in ``repairs``
    the data bytes that are out of range."""
    packed = np.concatenate(tracks)
    events = np.empty(len(packed), CHANNEL_EVENT)
    events["tick"] = packed >> 24
    events["track"] = np.repeat(np.arange(len(tracks)), [len(track) for track in tracks])
    events["status"] = packed >> 16 & 0xFF
    for column, shift in (("a", 8), ("b", 0)):
        values = packed >> shift & 0xFF
        if too_large := int(np.count_nonzero(values > 127)):
            repairs["bytes out of range"] += too_large
        events[column] = np.minimum(values, 127)
    return events


def rhythm_part(payload: bytes) -> set[int]:
    """Return the channel that a SysEx message (without its status byte) assigns to drums, if any:
    by "use for rhythm part" of Roland's GS (40 1x 15) or "part mode" of Yamaha's XG (08 nn 07). In
    GS the part of channel 10 is block 0, those before it are blocks 1 to 9."""
    if payload[:1] == b"\x41" and payload[2:5] == b"\x42\x12\x40" and len(payload) > 7:
        block, address, mode = payload[5], payload[6], payload[7]
        if block >> 4 == 1 and address == 0x15 and mode:
            block &= 15
            return {DRUM_CHANNEL if block == 0 else block - (block < 10)}
    if payload[:1] == b"\x43" and payload[2:4] == b"\x4c\x08" and len(payload) > 6:
        part, address, mode = payload[4], payload[5], payload[6]
        return {part} if address == 0x07 and mode and part < 16 else set()
    return set()


def printable(payload: bytes) -> str:
    """Decode a text, shortened and stripped; characters that cannot be printed become spaces."""
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        text = payload.decode("latin-1")
    return "".join(c if c.isprintable() else " " for c in text[:_LONGEST_TEXT]).strip()


def read_quantity(chunk: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length quantity at ``at``, of at most four bytes, and its end."""
    value = 0
    for i in range(at, at + 4):
        byte = chunk[i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, i + 1
    raise ValueError("variable-length quantity of more than four bytes")
