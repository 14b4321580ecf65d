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
from musictx.midi.document import OFF, ON, Message, controller, quantity, track_chunk, track_content
from musictx.midi.scan import DRUM_CHANNEL, META_TYPES, NAME
from musictx.notes import Score

PITCHED_CHANNELS = tuple(c for c in range(16) if c != DRUM_CHANNEL)
#: Some programs read only 15 bits of the number of tracks, and one track has no notes.
MAX_PARTS = 2**15 - 2


def new_file(score: Score) -> bytes:
    """Return a MIDI file of format 1 with ``score`` (see :func:`musictx.midi.to_bytes`)."""
    tables = (score.pedals, score.tempos, score.meters, score.keys)
    last = max(score.duration, *(float(table["time"].max(initial=0.0)) for table in tables))
    last = max([last, *(time for time, _ in (*score.markers, *score.lyrics))])
    if last > DAY:
        raise UserError(f"score: {last:.0f} s long, expected at most {DAY} s (a day)")
    clock = clock_for(score, last)
    first = [message for messages in marks(score, clock).values() for message in messages]
    tracks = [track_content(first), *_part_tracks(score, clock)]
    header = b"MThd" + struct.pack(">I3H", 6, 1, len(tracks), clock.quarter)
    return b"".join([header, *map(track_chunk, tracks)])


def marks(score: Score, clock: TickClock) -> dict[str, list[Message]]:
    """Return {field of ``score``: its meta events} for the fields in :data:`META_TYPES`; the tempos
    are those of ``clock``. Meters and keys that MIDI does not have are left out."""
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
    """Whether MIDI has meters with this denominator: whether it is a power of two."""
    return denominator.bit_count() == 1


def has_key(sharps: int) -> bool:
    """Whether MIDI has keys with this number of sharps (negative: flats)."""
    return abs(sharps) <= 7


def meta(tick: int, kind: int, content: bytes) -> Message:
    """Return a meta event; ``kind`` is its type."""
    return Message(tick, OFF, bytes([0xFF, kind]) + quantity(len(content)) + content)


def text(tick: int, kind: int, words: str) -> Message:
    """Return a meta event with text in UTF-8; ``kind`` is its type."""
    return meta(tick, kind, words.encode("utf-8", "replace"))


def note(channel: int, begin: int, end: int, row: Sequence, program: int | None) -> list[Message]:
    """Return the note-on and note-off of a ``row`` of ``Score.notes``, at the ticks ``begin`` and
    ``end``. ``program`` is that of the note-on (:class:`Message`)."""
    pitch, velocity = row[2:4]
    return [
        Message(begin, ON, bytes([0x90 | channel, pitch, velocity]), program),
        Message(end, OFF if end > begin else ON, bytes([0x80 | channel, pitch, 0])),
    ]


def part_track(
    score: Score,
    clock: TickClock,
    notes: np.ndarray,
    channel: int,
    texts: Iterable[Message] = (),
    *,
    shared: bool = False,
) -> bytes:
    """Return the content of a MIDI track for ``notes``, which are those of one part of ``score``.

    It has the name of the part, ``texts``, the first program, and at each tick pedals, note-offs
    and note-ons. With ``shared``, other parts with other programs are on the channel, so a program
    change precedes each note.
    """
    number, program = int(notes["track"][0]), int(notes["program"][0])
    name = score.names.get(number)
    messages = [text(0, NAME, name)] if name else []
    messages += texts
    messages.append(Message(0, OFF, bytes([0xC0 | channel, program])))
    pedals = score.pedals[score.pedals["track"] == number]
    for tick, value in zip(clock.ticks(pedals["time"]).tolist(), pedals["value"].tolist()):
        messages.append(controller(tick, channel, 64, value, OFF))
    begins, ends = (clock.ticks(notes[key]).tolist() for key in ("start", "end"))
    for begin, end, row in zip(begins, ends, notes.tolist()):
        if shared:
            messages.append(Message(begin, ON, bytes([0xC0 | channel, row[4]])))
        messages += note(channel, begin, end, row, row[4])
    return track_content(messages)


def _part_tracks(score: Score, clock: TickClock) -> Iterable[bytes]:
    """Yield a MIDI track for each track of the score. A track with drums and other notes becomes
    two."""
    keys = ("end", "pitch", "start", "drum", "track")
    notes = score.notes[np.lexsort([score.notes[key] for key in keys])]
    part = notes["track"].astype(np.int64) * 2 + notes["drum"]
    parts = np.split(notes, np.flatnonzero(np.diff(part)) + 1) if len(notes) else []
    if len(parts) > MAX_PARTS:
        raise UserError(f"score: {len(parts)} parts, expected at most {MAX_PARTS}")
    channels = _channels(parts)
    programs: dict[int, list[set[int]]] = defaultdict(list)  # channel -> programs of each part
    for channel, part_notes in zip(channels, parts):
        programs[channel].append(set(part_notes["program"].tolist()))
    for channel, part_notes in zip(channels, parts):
        shared = len(programs[channel]) > 1 and len(set().union(*programs[channel])) > 1
        yield part_track(score, clock, part_notes, channel, shared=shared)


def _channels(parts: list[np.ndarray]) -> list[int]:
    """Return the channel of each part, given its notes (see :func:`musictx.midi.to_bytes`)."""
    first_notes = [notes[0] for notes in parts]
    pitched = [note for note in first_notes if not note["drum"]]
    key = "program" if len(pitched) > len(PITCHED_CHANNELS) else "track"
    channels = dict(zip(dict.fromkeys(int(note[key]) for note in pitched), cycle(PITCHED_CHANNELS)))
    return [DRUM_CHANNEL if note["drum"] else channels[int(note[key])] for note in first_notes]
