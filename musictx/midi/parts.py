"""The parts of a MIDI file in another order, without some of them, or on other channels.

A part is a channel of a MIDI track on which there are notes (:func:`musictx.midi.read.read`); its
place is MIDI track * 16 + channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from musictx.midi import messages, scan
from musictx.midi.messages import Message
from musictx.midi.read import DRUM_CHANNEL, FileParts, clock_of

#: Meta events that say what a single track is: its name and instrument, and where it is sent.
_OF_TRACK = {bytes([0xFF, kind]) for kind in (0x03, 0x04, 0x08, 0x09, 0x20, 0x21)}
#: Those that readers look for in the first track only: tempo, SMPTE offset, meter, key.
_OF_FIRST = {bytes([0xFF, kind]) for kind in (0x51, 0x54, 0x58, 0x59)}


def places_of(file: scan.File, clock: scan.TickClock | None = None) -> list[int]:
    """The place of each part, in the order of their numbers."""
    parts = FileParts.of(file, clock or clock_of(file, "")[1], Counter())
    places: list[int] = parts.channels[np.argsort(parts.rank)].tolist()
    return places


def free_channel(places: Collection[int]) -> int:
    """The first of the channels for pitched notes that have the fewest parts."""
    used = Counter(place % 16 for place in places)
    return min((c for c in range(16) if c != DRUM_CHANNEL), key=lambda channel: used[channel])


def with_parts(
    data: bytes,
    places: Sequence[int],
    *,
    channels: Mapping[int, int] | None = None,
    alone: Collection[int] = (),
) -> bytes:
    """``data``, a whole file, with those of its parts that stand at ``places``, in this order.

    All messages of other parts go, and their MIDI tracks, unless more is in these than what such a
    track is called and where it is sent. Whole tracks change places where that is enough. Parts
    that share one each get a track behind what is left of it where their order asks for that, where
    one of them is to be ``alone``, or where two come to the same channel. ``channels``: place ->
    another channel for all messages of the part. The tempos, meters and keys of the first track
    stay in the first track. Tracks in which nothing changes are copied byte for byte.
    """
    channels = channels or {}
    there = places_of(scan.scan(data, limits=messages.ANY))
    if list(places) == there and not channels and not alone:
        return data
    turn = {place: number for number, place in enumerate(places)}
    contents: list[bytes | None] = []  # None: where one of the units comes
    units: list[tuple[int, int, bytes]] = []  # turn, number of the MIDI track, contents
    for track, chunk in enumerate(messages.chunks(data)):
        its = [place for place in there if place // 16 == track]
        stay = [place for place in its if place in turn]
        to = {place % 16: channels.get(place, place % 16) for place in stay}
        turns = [turn[place] for place in stay]
        split = len(stay) > 1 and (
            turns != list(range(turns[0], turns[0] + len(turns)))
            or len(set(to.values())) < len(to)
            or not set(alone).isdisjoint(stay)
        )
        rows, last, rest = messages.parsed(chunk)
        if split:
            for place in stay:
                own = [row for row in rows if _channel(row) == place % 16]
                units.append((turn[place], -1, messages.written(_sent(own, to), last)))
        leave = {place % 16 for place in its if split or place not in turn}
        if leave or any(channel != new for channel, new in to.items()):
            rows = [row for row in rows if _channel(row) not in leave]
            if its and not stay and {row.body[:2] for row in rows} <= _OF_TRACK:
                continue
            chunk = messages.written(_sent(rows, to), last, rest)
        if stay and not split:
            units.append((turns[0], track, chunk))
        else:
            contents.append(chunk)
        contents += [None] * (len(stay) if split else bool(stay))
    units.sort()
    if contents[:1] == [None]:
        units = _led(units)
    waiting = (content for _, _, content in units)
    made = [next(waiting) if content is None else content for content in contents]
    return messages.rebuilt(data, made or [messages.written([])])


def _led(units: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """``units`` with what readers look for in the first track in the first one."""
    before = next((at for at, unit in enumerate(units) if unit[1] == 0), 0)
    marks = [row for row in messages.parsed(units[before][2])[0] if row.body[:2] in _OF_FIRST]
    if not before or not marks:
        return units
    units = list(units)
    for at, more in ((before, []), (0, marks)):
        turn, track, content = units[at]
        rows, last, rest = messages.parsed(content)
        others = [row for row in rows if at != before or row.body[:2] not in _OF_FIRST]
        units[at] = turn, track, messages.written([*more, *others], last, rest)
    return units


def _channel(row: Message) -> int | None:
    return row.body[0] & 15 if row.body[0] < 0xF0 else None


def _sent(rows: Iterable[Message], to: Mapping[int, int]) -> list[Message]:
    """Messages on other channels."""
    return [
        row
        if (channel := _channel(row)) is None
        else row._replace(
            body=bytes([row.body[0] & 0xF0 | to.get(channel, channel)]) + row.body[1:]
        )
        for row in rows
    ]
