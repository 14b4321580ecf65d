"""Controllers of the parts of a MIDI file: what it says, and others at its beginning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from musictx.midi import messages, scan
from musictx.midi.parts import places_of
from musictx.midi.read import clock_of


def controllers(data: bytes) -> dict[tuple[int, int], list[tuple[float, int]]]:
    """(part, number) -> (seconds, value) of each movement of the controllers of a whole file, bare,
    of format 0 or 1. As with pedals, those in a MIDI track without notes on their channel move all
    parts on it."""
    file = scan.scan(data, limits=messages.ANY)
    clock = clock_of(file, "")[1]
    places = places_of(file, clock)
    found: defaultdict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for track, chunk in enumerate(messages.chunks(data)):
        for tick, status, _, stop in messages.of_track(chunk):
            if status >> 4 != 0xB:
                continue
            own = [k for k, place in enumerate(places) if place == track * 16 + status % 16]
            for part in own or [k for k, place in enumerate(places) if place % 16 == status % 16]:
                moved = float(clock.seconds(tick)), chunk[stop - 1]
                found[part, chunk[stop - 2]].append(moved)
    return {key: sorted(rows, key=lambda row: row[0]) for key, rows in found.items()}


def beginning(data: bytes, wanted: Mapping[int, Mapping[int, int]]) -> bytes:
    """The file with controllers of parts as ``wanted``, part -> number -> value, from its beginning
    on: what it said of them up to the first note of the part gives way."""
    file = scan.scan(data, limits=messages.ANY)
    clock = clock_of(file, "")[1]
    places, changes = (
        places_of(file, clock),
        defaultdict[int, messages.TrackEdit](messages.TrackEdit),
    )
    keyed = file.events[(file.events["status"] >> 4 == 9) & (file.events["b"] > 0)]
    for part, values in wanted.items():
        track, channel = divmod(places[part], 16)
        mine = (keyed["track"] == track) & (keyed["status"] % 16 == channel)
        first = int(keyed["tick"][mine].min())
        for number, value in values.items():
            changes[track].reset[channel, number] = first
            body = bytes([0xB0 | channel, number, value])
            phase = messages.ON if first else messages.OFF
            changes[track].new.append(messages.Message(0, phase, body))
    return messages.assembled(data, changes, [])
