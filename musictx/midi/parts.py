"""Reorders and removes the parts of a MIDI file, and moves them to other channels.

A part is a channel of a MIDI track that has notes (:func:`musictx.midi.read.read`). Its *place* is
MIDI track * 16 + channel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from musictx.midi.document import OFF, MidiFile, MidiTrack, track_content

#: Meta events that describe one track: name, instrument, program, device, channel, port.
_TRACK_META = {0x03, 0x04, 0x08, 0x09, 0x20, 0x21}
#: Meta events that must be in the first track: tempo, SMPTE offset, meter, key.
_FIRST_TRACK_META = {0x51, 0x54, 0x58, 0x59}


class Unwritable(Exception):
    """The MIDI file cannot hold the changed Score. The message is a clause with the reason."""


def free_channel(
    places: Collection[int], drums: Collection[int], shared: Iterable[int] = ()
) -> int:
    """Return the first channel that has no part at ``places`` and is not one of ``drums``, or else
    the first of ``shared``. Raises :class:`Unwritable` if there is none."""
    used = {*drums, *(place % 16 for place in places)}
    if channels := [*(c for c in range(16) if c not in used), *shared]:
        return channels[0]
    raise Unwritable("all its channels are in use")


def select_parts(
    data: bytes,
    places: Sequence[int],
    *,
    channels: Mapping[int, int] | None = None,
    alone: Collection[int] = (),
) -> bytes:
    """Return the MIDI file ``data`` with only the parts at ``places``, in this order.

    channels  {place: new channel of all messages of the part}
    alone     places of parts that get a MIDI track of their own

    All messages of other parts are removed, and so is a MIDI track that loses all its parts and has
    only ``_TRACK_META`` left. If possible, MIDI tracks are reordered as a whole. Parts of one track
    become separate tracks if the order requires it, if one of them is in ``alone``, or if two get
    the same channel; other messages of the track stay before them. Tempos, meters and keys stay in
    the first track. Tracks without a change are copied byte for byte.
    """
    channels = channels or {}
    document = MidiFile(data)
    existing = document.places
    if list(places) == existing and not channels and not alone:
        return data
    order = {place: index for index, place in enumerate(places)}
    slots: list[MidiTrack | None] = []  # tracks of the result; None: the next track with parts
    part_tracks: list[tuple[int, MidiTrack]] = []  # (order of the first part in the track, track)
    for number, chunk in enumerate(document.chunks):
        track = document.track(number)
        old_places = [place for place in existing if place // 16 == number]
        new_places = [place for place in old_places if place in order]
        new_channels = {place % 16: channels.get(place, place % 16) for place in new_places}
        orders = [order[place] for place in new_places]
        is_split = len(new_places) > 1 and (
            orders != list(range(orders[0], orders[0] + len(orders)))
            or len(set(new_channels.values())) < len(new_channels)
            or not set(alone).isdisjoint(new_places)
        )
        for place in new_places if is_split else ():
            part = MidiTrack(chunk)
            part.messages = {n: m for n, m in part.messages.items() if m.channel == place % 16}
            part.change_channels(new_channels)
            part_tracks.append((order[place], part))
        removed = {place % 16 for place in old_places if is_split or place not in order}
        track.messages = {n: m for n, m in track.messages.items() if m.channel not in removed}
        track.change_channels(new_channels)
        if new_places and not is_split:
            part_tracks.append((orders[0], track))
            slots.append(None)
        elif new_places:
            slots += [track, *[None] * len(new_places)]
        elif not old_places or {m.meta for m in track.messages.values()} - _TRACK_META:
            slots.append(track)
    in_order = (track for _, track in sorted(part_tracks, key=lambda pair: pair[0]))
    tracks = [slot or next(in_order) for slot in slots]
    first = document.track(0)
    if tracks and tracks[0] is not first:
        marks = [m for m in first.messages.values() if m.meta in _FIRST_TRACK_META]
        first.remove_meta(_FIRST_TRACK_META)
        tracks[0].add(mark._replace(phase=OFF) for mark in marks)
    return document.with_contents([track.content() for track in tracks] or [track_content([])])
