"""Reads the controllers of a MIDI file, and sets their initial values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from musictx.midi.document import OFF, ON, Document, controller, messages


def controllers(data: bytes) -> dict[tuple[int, int], list[tuple[float, int]]]:
    """Return the (seconds, value) rows of each (part, controller number). ``data`` is a MIDI file
    of format 0 or 1 without a container. A message in a MIDI track without notes on its channel
    applies to all parts on that channel, as for pedals."""
    document = Document(data)
    values: defaultdict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for track, chunk in enumerate(document.chunks):
        for tick, _, body, _ in messages(chunk):
            if body[0] >> 4 == 0xB:
                status, number, value = body
                for part in document.parts.moved_by(track * 16 + status % 16):
                    time = float(document.clock.seconds(tick))
                    values[part, number].append((time, value))
    return {key: sorted(rows, key=lambda row: row[0]) for key, rows in values.items()}


def with_initial_values(data: bytes, values: Mapping[int, Mapping[int, int]]) -> bytes:
    """Return the file with initial ``values`` of controllers: part -> number -> value. Messages of
    these controllers up to the first note of the part are removed."""
    document = Document(data)
    events = document.file.events
    note_ons = events[(events["status"] >> 4 == 9) & (events["b"] > 0)]
    for part, numbers in values.items():
        track_number, channel = divmod(document.places[part], 16)
        on_channel = (note_ons["track"] == track_number) & (note_ons["status"] % 16 == channel)
        first = int(note_ons["tick"][on_channel].min())
        track = document.track(track_number)
        for n, row in list(track.rows.items()):
            is_set_anew = row.body[0] == 0xB0 | channel and row.body[1] in numbers
            if row.tick <= first and is_set_anew:
                del track.rows[n]
        phase = ON if first else OFF
        track.add(controller(0, channel, *value, phase) for value in numbers.items())
    return document.edited()
