"""The parts of a MIDI file in another order, without some of them, or on other channels.

A part is a channel of a MIDI track on which there are notes (:func:`musictx.midi.read.read`); its
place is MIDI track * 16 + channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from musictx.midi.document import Document, Message, parsed, written

#: Meta events that say what a single track is: its name and instrument, and where it is sent.
_OF_TRACK = {bytes([0xFF, kind]) for kind in (0x03, 0x04, 0x08, 0x09, 0x20, 0x21)}
#: Those that readers look for in the first track only: tempo, SMPTE offset, meter, key.
_OF_FIRST = {bytes([0xFF, kind]) for kind in (0x51, 0x54, 0x58, 0x59)}


def free_channel(places: Collection[int], drums: Collection[int]) -> int:
    """The channel with the fewest parts, the first one of several; channels of ``drums`` do not
    count."""
    used = Counter(place % 16 for place in places)
    return min((c for c in range(16) if c not in drums), key=lambda channel: used[channel])


def with_parts(
    data: bytes,
    places: Sequence[int],
    *,
    channels: Mapping[int, int] | None = None,
    alone: Collection[int] = (),
) -> bytes:
    """``data``, a whole file, with those of its parts that stand at ``places``, in this order.

    channels  place -> another channel for all messages of the part
    alone     places whose parts get a MIDI track to themselves

    All messages of other parts are removed; so are their MIDI tracks, if nothing is left in them
    but their names and where they are sent. Whole tracks change places where that is enough. Parts
    that share a MIDI track are divided into one each, after what is left of it, if their order
    asks for that, if one of them is to be ``alone``, or if two would be on one channel. The tempos,
    meters and keys of the first track stay in the first track. Tracks in which nothing changes are
    copied byte for byte.
    """
    channels = channels or {}
    document = Document(data)
    existing = document.places
    if list(places) == existing and not channels and not alone:
        return data
    rank = {place: number for number, place in enumerate(places)}
    contents: list[bytes | None] = []  # None: where the next of the units stands
    units: list[tuple[int, int, bytes]] = []  # rank, number of the MIDI track, contents
    for track, chunk in enumerate(document.chunks):
        members = [place for place in existing if place // 16 == track]
        kept = [place for place in members if place in rank]
        channel_of = {place % 16: channels.get(place, place % 16) for place in kept}
        ranks = [rank[place] for place in kept]
        split = len(kept) > 1 and (
            ranks != list(range(ranks[0], ranks[0] + len(ranks)))
            or len(set(channel_of.values())) < len(channel_of)
            or not set(alone).isdisjoint(kept)
        )
        rows, last, rest = parsed(chunk)
        if split:
            for place in kept:
                of_channel = [row for row in rows if row.channel == place % 16]
                units.append((rank[place], -1, written(_sent(of_channel, channel_of), last)))
        removed = {place % 16 for place in members if split or place not in rank}
        if removed or any(channel != new for channel, new in channel_of.items()):
            rows = [row for row in rows if row.channel not in removed]
            if members and not kept and {row.body[:2] for row in rows} <= _OF_TRACK:
                continue
            chunk = written(_sent(rows, channel_of), last, rest)
        if kept and not split:
            units.append((ranks[0], track, chunk))
        else:
            contents.append(chunk)
        contents += [None] * (len(kept) if split else bool(kept))
    units.sort()
    if contents[:1] == [None]:
        units = _led(units)
    ordered = (content for _, _, content in units)
    made = [next(ordered) if content is None else content for content in contents]
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
