"""Score -> a new MIDI file on the grid that the music came from.

Messages are made one by one while the file is written: an object each for a million notes would
take gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import cycle
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from musictx.config.checks import DAY
from musictx.errors import UserError
from musictx.midi.clock import TickGrid
from musictx.midi.document import END, chunk_of, quantity
from musictx.midi.scan import DRUM_CHANNEL
from musictx.notes import Score, order

PITCHED_CHANNELS = tuple(c for c in range(16) if c != DRUM_CHANNEL)
#: Readers count tracks in 15 bits; the first holds the marks.
MOST_PARTS = 2**15 - 2
#: Kinds of meta events.
NAME, LYRIC, MARKER = 0x03, 0x05, 0x06
#: (tick, message) in the order of ticks.
Timed = Iterable[tuple[int, bytes]]


def new_file(score: Score) -> bytes:
    """A MIDI file of format 1 with the music of ``score`` (see :func:`musictx.midi.to_bytes`)."""
    columns = (score.pedals, score.tempos, score.meters, score.keys)
    last = max(score.duration, *(float(rows["time"].max(initial=0.0)) for rows in columns))
    last = max([last, *(time for time, _ in (*score.markers, *score.lyrics))])
    if last > DAY:
        raise UserError(f"score: {last:.0f} s long, expected at most {DAY} s (a day)")
    grid = TickGrid.of(score, last)
    parts = _parts(score, grid)
    if len(parts) > MOST_PARTS:
        raise UserError(f"score: {len(parts)} parts, expected at most {MOST_PARTS}")
    tracks: list[Timed] = [_in_order(*marks(score, grid).values(), *_texts(score, grid))]
    tracks += [_messages(part, grid) for part in parts]
    header = b"MThd" + struct.pack(">I3H", 6, 1, len(tracks), grid.quarter)
    return b"".join([header, *map(_written, tracks)])


def marks(score: Score, grid: TickGrid) -> dict[str, Timed]:
    """The meta events of the columns tempos, meters and keys. Left out are meters and keys that
    MIDI cannot hold."""
    meters, keys = score.meters, score.keys
    rates = np.clip(np.rint(6e7 / grid.bpm), 1, 2**24 - 1).astype(np.int64).tolist()
    meter_ticks, key_ticks = (grid.of_seconds(rows["time"]).tolist() for rows in (meters, keys))
    return {
        "tempos": (
            (tick, meta(0x51, rate.to_bytes(3, "big")))
            for tick, rate in zip(grid.ticks.tolist(), rates)
        ),
        "meters": (
            (tick, meta(0x58, bytes([upper, lower.bit_length() - 1, 24, 8])))
            for tick, (_, upper, lower) in zip(meter_ticks, meters.tolist())
            if upper and lower and not lower & (lower - 1)
        ),
        "keys": (
            (tick, meta(0x59, bytes([sharps % 256, minor])))
            for tick, (_, sharps, minor) in zip(key_ticks, keys.tolist())
            if abs(sharps) <= 7
        ),
    }


def meta(kind: int, content: bytes) -> bytes:
    """A meta event."""
    return bytes([0xFF, kind]) + quantity(len(content)) + content


def text(kind: int, words: str) -> bytes:
    """A meta event such as :data:`NAME`, in UTF-8."""
    return meta(kind, words.encode("utf-8", "replace"))


def _texts(score: Score, grid: TickGrid) -> Iterator[Timed]:
    for kind, rows in ((MARKER, score.markers), (LYRIC, score.lyrics)):
        ticks = grid.of_seconds(np.array([time for time, _ in rows])).tolist()
        yield sorted(zip(ticks, (text(kind, words) for _, words in rows)), key=itemgetter(0))


class _Part(NamedTuple):
    """One track of the file: the notes of one track of the score, drums apart from others."""

    name: str
    channel: int
    notes: np.ndarray
    """By start, pitch, end: so notes of one pitch that begin together keep their own ends."""
    changes: np.ndarray
    """(n,) bool: which notes need a program change."""
    pedals: np.ndarray


def _parts(score: Score, grid: TickGrid) -> list[_Part]:
    """The parts of a score by track."""
    keys = ("end", "pitch", "start", "drum", "track")
    notes = score.notes[np.lexsort([score.notes[key] for key in keys])]
    pedals = score.pedals[np.argsort(score.pedals["track"], kind="stable")]
    kind = notes["track"].astype(np.int64) * 2 + notes["drum"]
    kinds, first, part = np.unique(kind, return_index=True, return_inverse=True)
    tracks = (kinds // 2).tolist()
    channels = _channels(tracks, (kinds % 2).tolist(), notes["program"][first].tolist())
    changes = _program_changes(notes, grid.of_seconds(notes["start"]), part, first, channels)
    begins, ends = (np.searchsorted(pedals["track"], tracks, side) for side in ("left", "right"))
    by_part = (np.split(column, first[1:]) for column in (notes, changes))
    return [
        _Part(score.names.get(track, ""), channel, its, changed, pedals[begin:end])
        for track, channel, begin, end, its, changed in zip(
            tracks, channels, begins, ends, *by_part
        )
    ]


def _channels(tracks: Sequence[int], drums: Sequence[int], programs: Sequence[int]) -> list[int]:
    """A channel for each part: 9 for drums, the fifteen others for pitched parts.

    Up to fifteen pitched parts have a channel each. More of them share one if their first program
    is the same; beyond fifteen of these the channels are dealt out in turn.
    """
    crowded = drums.count(0) > len(PITCHED_CHANNELS)
    keys = programs if crowded else tracks
    pitched = dict.fromkeys(key for key, drum in zip(keys, drums) if not drum)
    dealt = dict(zip(pitched, cycle(PITCHED_CHANNELS)))
    return [DRUM_CHANNEL if drum else dealt[key] for key, drum in zip(keys, drums)]


def _program_changes(
    notes: np.ndarray, starts: np.ndarray, part: np.ndarray, first: np.ndarray, channels: list[int]
) -> np.ndarray:
    """(n,) bool: which notes need a program change, since another program is set on their channel:
    that of the note before on it, or, for its first note, that of the ``first`` note of the last
    part on it. ``starts`` are ticks, ``part`` is the number of each note's part."""
    programs = notes["program"]
    in_force = np.zeros(16, np.int64)
    in_force[channels] = programs[first]
    channel = np.array(channels, np.int64)[part]
    turn = order(channel, starts, part)
    before = np.roll(programs[turn], 1)
    begins = np.flatnonzero(np.diff(channel[turn], prepend=-1))
    before[begins] = in_force[channel[turn][begins]]
    changes = np.empty(len(turn), bool)
    changes[turn] = programs[turn] != before
    return changes


def _messages(part: _Part, grid: TickGrid) -> Timed:
    """A track: its name, its program, then at each tick pedals, ends of notes, notes. A note
    without a length ends at once."""
    channel, notes = part.channel, part.notes
    starts, ends = grid.of_seconds(notes["start"]), grid.of_seconds(notes["end"])

    def pedals() -> Timed:
        ticks = grid.of_seconds(part.pedals["time"])
        for tick, value in zip(ticks.tolist(), part.pedals["value"].tolist()):
            yield tick, bytes([0xB0 | channel, 64, value])

    def off(pitch: int) -> bytes:
        return bytes([0x80 | channel, pitch, 0])

    def offs() -> Timed:
        long = np.flatnonzero(ends > starts)
        long = long[np.argsort(ends[long], kind="stable")]
        yield from zip(ends[long].tolist(), map(off, notes["pitch"][long].tolist()))

    def ons() -> Timed:
        columns = (notes[name] for name in ("pitch", "velocity", "program"))
        rows = (column.tolist() for column in (starts, ends <= starts, part.changes, *columns))
        for tick, short, change, pitch, velocity, program in zip(*rows):
            if change:
                yield tick, bytes([0xC0 | channel, program])
            yield tick, bytes([0x90 | channel, pitch, velocity])
            if short:
                yield tick, off(pitch)

    if part.name:
        yield 0, text(NAME, part.name)
    yield 0, bytes([0xC0 | channel, notes["program"][0]])
    yield from _in_order(pedals(), offs(), ons())


def _in_order(*messages: Timed) -> Timed:
    """Messages merged by their ticks; at equal ticks the first argument's come first."""
    return merge(*messages, key=itemgetter(0))


def _written(messages: Timed) -> bytes:
    """A track. A status byte is left out where it is that of the message before."""
    out, now, status = bytearray(), 0, 0xFF
    for tick, message in messages:
        out += quantity(tick - now)
        out += message[1:] if message[0] == status < 0xF0 else message
        now, status = tick, message[0]
    return chunk_of(bytes(out + b"\0" + END))
