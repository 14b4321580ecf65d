"""What controllers set in the parts of a MIDI file, and the file with others at its beginning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from musictx.midi.document import OFF, ON, Document, controller, of_track


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
