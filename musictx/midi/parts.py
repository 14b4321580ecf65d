"""Reorders and removes the parts of a MIDI file, and moves them to other channels.

A part is a channel of a MIDI track that has notes (:func:`musictx.midi.read.read`). Its *place* is
MIDI track * 16 + channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from musictx.midi.document import OFF, MidiFile, MidiTrack, written

#: Meta events that describe one track: name, instrument, program, device, channel, port.
_TRACK_META = {0x03, 0x04, 0x08, 0x09, 0x20, 0x21}
#: Meta events that must be in the first track: tempo, SMPTE offset, meter, key.
_FIRST_TRACK_META = {0x51, 0x54, 0x58, 0x59}


def free_channel(places: Collection[int], drums: Collection[int]) -> int:
    """Return the first of the channels with the fewest parts, apart from channels of ``drums``."""
    used = Counter(place % 16 for place in places)
    return min((c for c in range(16) if c not in drums), key=lambda channel: used[channel])


def with_parts(
    data: bytes,
    places: Sequence[int],
    *,
    channels: Mapping[int, int] | None = None,
    alone: Collection[int] = (),
) -> bytes:
    """Return the MIDI file ``data`` with only the parts at ``places``, in this order.

    channels  place -> new channel for all messages of the part
    alone     places of parts that get a MIDI track of their own

    All messages of other parts are removed, and their MIDI track if it has only ``_TRACK_META``
    left. MIDI tracks are reordered as a whole if possible. The parts of a MIDI track are split into
    tracks of their own if their order requires it, if one of them is ``alone``, or if two get the
    same channel; the rest of the track stays before them. Tempos, meters and keys stay in the first
    track. Tracks without a change are copied byte for byte.
    """
    channels = channels or {}
    document = MidiFile(data)
    existing = document.places
    if list(places) == existing and not channels and not alone:
        return data
    rank = {place: number for number, place in enumerate(places)}
    slots: list[MidiTrack | None] = []  # tracks of the result; None is filled with a track of parts
    part_tracks: list[tuple[int, MidiTrack]] = []  # (rank of the first part in the track, track)
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
            part = MidiTrack(chunk)
            part.rows = {n: row for n, row in part.rows.items() if row.channel == place % 16}
            part.change_channels(channel_of)
            part_tracks.append((rank[place], part))
        removed = {place % 16 for place in members if split or place not in rank}
        track.rows = {n: row for n, row in track.rows.items() if row.channel not in removed}
        track.change_channels(channel_of)
        if kept and not split:
            part_tracks.append((ranks[0], track))
            slots.append(None)
        elif kept or not members or any(r.meta not in _TRACK_META for r in track.rows.values()):
            slots += [track, *[None] * len(kept)]
    in_order = (track for _, track in sorted(part_tracks, key=lambda row: row[0]))
    tracks = [slot or next(in_order) for slot in slots]
    first = document.track(0) if document.chunks else None
    if tracks and first and tracks[0] is not first:
        marks = [row for row in first.rows.values() if row.meta in _FIRST_TRACK_META]
        first.remove_meta(_FIRST_TRACK_META)
        tracks[0].add(row._replace(phase=OFF) for row in marks)
    return document.with_contents([track.content() for track in tracks] or [written([])])
