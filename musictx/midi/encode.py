"""Makes a new MIDI file from a Score."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import cycle

import numpy as np

from musictx.config.checks import DAY
from musictx.errors import UserError
from musictx.midi.clock import TickClock, clock_for
from musictx.midi.document import OFF, ON, Message, chunk_of, controller, quantity, written
from musictx.midi.scan import DRUM_CHANNEL, META_TYPES, NAME
from musictx.notes import Score

PITCHED_CHANNELS = tuple(c for c in range(16) if c != DRUM_CHANNEL)
#: Some readers have 15 bits for the number of tracks; the first track has no notes.
MOST_PARTS = 2**15 - 2


def new_file(score: Score) -> bytes:
    """Return a MIDI file of format 1 with ``score`` (see :func:`musictx.midi.to_bytes`)."""
    columns = (score.pedals, score.tempos, score.meters, score.keys)
    last = max(score.duration, *(float(rows["time"].max(initial=0.0)) for rows in columns))
    last = max([last, *(time for time, _ in (*score.markers, *score.lyrics))])
    if last > DAY:
        raise UserError(f"score: {last:.0f} s long, expected at most {DAY} s (a day)")
    clock = clock_for(score, last)
    first = [row for rows in marks(score, clock).values() for row in rows]
    tracks = [written(first), *_parts(score, clock)]
    header = b"MThd" + struct.pack(">I3H", 6, 1, len(tracks), clock.quarter)
    return b"".join([header, *map(chunk_of, tracks)])


def marks(score: Score, clock: TickClock) -> dict[str, list[Message]]:
    """Return the meta events of each field in :data:`META_TYPES`. ``clock`` has the tempos of the
    score. Meters and keys that MIDI cannot hold are left out."""
    rates = np.clip(np.rint(clock.rates), 1, 2**24 - 1).astype(np.int64).tolist()

    def timed(rows: Sequence[tuple]) -> Iterable[tuple[int, tuple]]:
        return zip(clock.ticks(np.array([time for time, *_ in rows])).tolist(), rows)

    return {
        "tempos": [
            meta(tick, META_TYPES["tempos"], rate.to_bytes(3, "big"))
            for tick, rate in zip(clock.starts.tolist(), rates)
        ],
        "meters": [
            meta(tick, META_TYPES["meters"], bytes([upper, lower.bit_length() - 1, 24, 8]))
            for tick, (_, upper, lower) in timed(score.meters.tolist())
            if has_meter(lower)
        ],
        "keys": [
            meta(tick, META_TYPES["keys"], bytes([sharps % 256, minor]))
            for tick, (_, sharps, minor) in timed(score.keys.tolist())
            if has_key(sharps)
        ],
        **{
            name: [text(tick, META_TYPES[name], words) for tick, (_, words) in timed(rows)]
            for name, rows in (("markers", score.markers), ("lyrics", score.lyrics))
        },
    }


def has_meter(denominator: int) -> bool:
    """Whether MIDI has meters with this denominator: it is a power of two."""
    return denominator.bit_count() == 1


def has_key(sharps: int) -> bool:
    """Whether MIDI has a key with so many sharps, below 0 flats."""
    return abs(sharps) <= 7


def meta(tick: int, kind: int, content: bytes) -> Message:
    """Return a meta event."""
    return Message(tick, OFF, bytes([0xFF, kind]) + quantity(len(content)) + content)


def text(tick: int, kind: int, words: str) -> Message:
    """Return a meta event with text in UTF-8; ``kind`` is its type."""
    return meta(tick, kind, words.encode("utf-8", "replace"))


def note(channel: int, begin: int, end: int, row: Sequence, program: int | None) -> list[Message]:
    """Return note-on and note-off of a ``row`` of ``Score.notes``, from tick ``begin`` to ``end``.
    ``program`` is that of ``Message``."""
    pitch, velocity = row[2:4]
    return [
        Message(begin, ON, bytes([0x90 | channel, pitch, velocity]), program),
        Message(end, OFF if end > begin else ON, bytes([0x80 | channel, pitch, 0])),
    ]


def part(
    score: Score,
    clock: TickClock,
    notes: np.ndarray,
    channel: int,
    texts: Iterable[Message] = (),
    *,
    shared: bool = False,
) -> bytes:
    """Return the MIDI track of the part of ``score`` that has these ``notes``.

    It has the name of the track, ``texts``, the first program, and at each tick pedals, note-offs
    and note-ons. If parts with other programs share the channel, a program change precedes each
    note.
    """
    number, program = int(notes["track"][0]), int(notes["program"][0])
    name = score.names.get(number)
    rows = [text(0, NAME, name)] if name else []
    rows += texts
    rows.append(Message(0, OFF, bytes([0xC0 | channel, program])))
    pedals = score.pedals[score.pedals["track"] == number]
    for tick, value in zip(clock.ticks(pedals["time"]).tolist(), pedals["value"].tolist()):
        rows.append(controller(tick, channel, 64, value, OFF))
    begins, ends = (clock.ticks(notes[key]).tolist() for key in ("start", "end"))
    for begin, end, row in zip(begins, ends, notes.tolist()):
        if shared:
            rows.append(Message(begin, ON, bytes([0xC0 | channel, row[4]])))
        rows += note(channel, begin, end, row, row[4])
    return written(rows)


def _parts(score: Score, clock: TickClock) -> Iterable[bytes]:
    """Yield a MIDI track for each track of the score, and another for its drums if it also has
    other notes."""
    keys = ("end", "pitch", "start", "drum", "track")
    notes = score.notes[np.lexsort([score.notes[key] for key in keys])]
    kind = notes["track"].astype(np.int64) * 2 + notes["drum"]
    parts = np.split(notes, np.flatnonzero(np.diff(kind)) + 1) if len(notes) else []
    if len(parts) > MOST_PARTS:
        raise UserError(f"score: {len(parts)} parts, expected at most {MOST_PARTS}")
    channels = _channels(parts)
    programs: dict[int, list[set[int]]] = defaultdict(list)
    for channel, part_notes in zip(channels, parts):
        programs[channel].append(set(part_notes["program"].tolist()))
    for channel, part_notes in zip(channels, parts):
        shared = len(programs[channel]) > 1 and len(set().union(*programs[channel])) > 1
        yield part(score, clock, part_notes, channel, shared=shared)


def _channels(parts: list[np.ndarray]) -> list[int]:
    """Return the channel of each part (see :func:`musictx.midi.to_bytes`)."""
    first_notes = [notes[0] for notes in parts]
    pitched = [note for note in first_notes if not note["drum"]]
    key = "program" if len(pitched) > len(PITCHED_CHANNELS) else "track"
    channels = dict(zip(dict.fromkeys(int(note[key]) for note in pitched), cycle(PITCHED_CHANNELS)))
    return [DRUM_CHANNEL if note["drum"] else channels[int(note[key])] for note in first_notes]
