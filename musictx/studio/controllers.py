"""Movements of controllers in the parts of a MIDI file, and how to set other initial values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from musictx.midi.document import OFF, ON, Document, controller, messages


def controllers(data: bytes) -> dict[tuple[int, int], list[tuple[float, int]]]:
    """(part, controller) -> (seconds, value) of each of its movements. ``data`` is a MIDI file of
    format 0 or 1 without a container. As with pedals, movements in a MIDI track without notes on
    their channel apply to all parts on that channel."""
    document = Document(data)
    movements: defaultdict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for track, chunk in enumerate(document.chunks):
        for tick, _, body, _ in messages(chunk):
            if body[0] >> 4 == 0xB:
                status, number, value = body
                for part in document.parts.moved_by(track * 16 + status % 16):
                    time = float(document.clock.seconds(tick))
                    movements[part, number].append((time, value))
    return {key: sorted(rows, key=lambda row: row[0]) for key, rows in movements.items()}


def beginning(data: bytes, values: Mapping[int, Mapping[int, int]]) -> bytes:
    """The file with the initial values of controllers: part -> controller -> value. Movements of
    the same controllers up to the first note of the part are removed."""
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
