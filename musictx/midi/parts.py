"""The parts of a MIDI file in another order, without some of them, or on other channels.

A part is a channel of a MIDI track on which there are notes (:func:`musictx.midi.read.read`); its
place is MIDI track * 16 + channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from musictx.midi.document import OFF, Document, Track, written

#: Meta events that say what a single track is: its name and instrument, and where it is sent.
_OF_TRACK = {0x03, 0x04, 0x08, 0x09, 0x20, 0x21}
#: Those that readers look for in the first track only: tempo, SMPTE offset, meter, key.
_OF_FIRST = {0x51, 0x54, 0x58, 0x59}


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
    slots: list[Track | None] = []  # None: where the next one of a part stands
    of_parts: list[tuple[int, Track]] = []  # rank of the part, or of the first one in it
    for number, chunk in enumerate(document.chunks):
        track = document.track(number)
        members = [place for place in existing if place // 16 == number]
        kept = [place for place in members if place in rank]
        channel_of = {place % 16: channels.get(place, place % 16) for place in kept}
        ranks = [rank[place] for place in kept]
        split = len(kept) > 1 and (
            ranks != list(range(ranks[0], ranks[0] + len(ranks)))
            or len(set(channel_of.values())) < len(channel_of)
            or not set(alone).isdisjoint(kept)
        )
        for place in kept if split else ():
            part = Track(chunk)
            part.rows = {n: row for n, row in part.rows.items() if row.channel == place % 16}
            part.send(channel_of)
            of_parts.append((rank[place], part))
        removed = {place % 16 for place in members if split or place not in rank}
        track.rows = {n: row for n, row in track.rows.items() if row.channel not in removed}
        track.send(channel_of)
        if kept and not split:
            of_parts.append((ranks[0], track))
            slots.append(None)
        elif kept or not members or any(r.meta not in _OF_TRACK for r in track.rows.values()):
            slots += [track, *[None] * len(kept)]
    in_order = (track for _, track in sorted(of_parts, key=lambda row: row[0]))
    tracks = [slot or next(in_order) for slot in slots]
    first = document.track(0) if document.chunks else None
    if tracks and first and tracks[0] is not first:
        marks = [row for row in first.rows.values() if row.meta in _OF_FIRST]
        first.remove_meta(_OF_FIRST)
        tracks[0].new = [row._replace(phase=OFF) for row in marks]
    return document.with_contents([track.content() for track in tracks] or [written([])])
