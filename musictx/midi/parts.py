"""The parts of a MIDI file in another order, without some of them, on other channels or with other
controllers.

A part is a channel of a MIDI track on which there are notes (:func:`musictx.midi.read.read`); its
place is MIDI track * 16 + channel.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from musictx.midi.document import OFF, ON, Document, Message, controller, of_track, parsed, written
from musictx.midi.read import DRUM_CHANNEL

#: Meta events that say what a single track is: its name and instrument, and where it is sent.
_OF_TRACK = {bytes([0xFF, kind]) for kind in (0x03, 0x04, 0x08, 0x09, 0x20, 0x21)}
#: Those that readers look for in the first track only: tempo, SMPTE offset, meter, key.
_OF_FIRST = {bytes([0xFF, kind]) for kind in (0x51, 0x54, 0x58, 0x59)}


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
    document = Document(data)
    there = document.places
    if list(places) == there and not channels and not alone:
        return data
    turn = {place: number for number, place in enumerate(places)}
    contents: list[bytes | None] = []  # None: where one of the units comes
    units: list[tuple[int, int, bytes]] = []  # turn, number of the MIDI track, contents
    for track, chunk in enumerate(document.chunks):
        its = [place for place in there if place // 16 == track]
        stay = [place for place in its if place in turn]
        to = {place % 16: channels.get(place, place % 16) for place in stay}
        turns = [turn[place] for place in stay]
        split = len(stay) > 1 and (
            turns != list(range(turns[0], turns[0] + len(turns)))
            or len(set(to.values())) < len(to)
            or not set(alone).isdisjoint(stay)
        )
        rows, last, rest = parsed(chunk)
        if split:
            for place in stay:
                of_channel = [row for row in rows if row.channel == place % 16]
                units.append((turn[place], -1, written(_sent(of_channel, to), last)))
        leave = {place % 16 for place in its if split or place not in turn}
        if leave or any(channel != new for channel, new in to.items()):
            rows = [row for row in rows if row.channel not in leave]
            if its and not stay and {row.body[:2] for row in rows} <= _OF_TRACK:
                continue
            chunk = written(_sent(rows, to), last, rest)
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
    return document.with_contents(made or [written([])])


def _led(units: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """``units`` with what readers look for in the first track in the first one."""
    before = next((at for at, unit in enumerate(units) if unit[1] == 0), 0)
    marks = [row for row in parsed(units[before][2])[0] if row.body[:2] in _OF_FIRST]
    if not before or not marks:
        return units
    units = list(units)
    for at, more in ((before, []), (0, marks)):
        turn, track, content = units[at]
        rows, last, rest = parsed(content)
        others = [row for row in rows if at != before or row.body[:2] not in _OF_FIRST]
        units[at] = turn, track, written([*more, *others], last, rest)
    return units


def _sent(rows: Iterable[Message], to: Mapping[int, int]) -> list[Message]:
    """Messages on other channels."""

    def sent(body: bytes) -> bytes:
        return bytes([body[0] & 0xF0 | to.get(body[0] & 15, body[0] & 15)]) + body[1:]

    return [row if row.channel is None else row._replace(body=sent(row.body)) for row in rows]


def controllers(data: bytes) -> dict[tuple[int, int], list[tuple[float, int]]]:
    """(part, number) -> (seconds, value) of each movement of the controllers of a whole file, bare,
    of format 0 or 1. As with pedals, those in a MIDI track without notes on their channel move all
    parts on it."""
    document = Document(data)
    movements: defaultdict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for track, chunk in enumerate(document.chunks):
        for tick, status, _, stop in of_track(chunk):
            if status >> 4 == 0xB:
                number, value = chunk[stop - 2 : stop]
                for part in document.moved_by(track * 16 + status % 16):
                    time = float(document.clock.seconds(tick))
                    movements[part, number].append((time, value))
    return {key: sorted(rows, key=lambda row: row[0]) for key, rows in movements.items()}


def beginning(data: bytes, values: Mapping[int, Mapping[int, int]]) -> bytes:
    """The file with controllers of parts as ``values``, part -> number -> value, from its beginning
    on: what it has of them up to the first note of the part gives way."""
    document = Document(data)
    events = document.file.events
    struck = events[(events["status"] >> 4 == 9) & (events["b"] > 0)]
    for part, numbers in values.items():
        place, channel = divmod(document.places[part], 16)
        on_channel = (struck["track"] == place) & (struck["status"] % 16 == channel)
        first = int(struck["tick"][on_channel].min())
        track = document.track(place)
        for n, row in list(track.rows.items()):
            if row.tick <= first and row.body[0] == 0xB0 | channel and row.body[1] in numbers:
                del track.rows[n]
        phase = ON if first else OFF
        track.new += [controller(0, channel, *value, phase) for value in numbers.items()]
    return document.edited()
