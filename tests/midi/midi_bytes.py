"""MIDI files for tests, from hexadecimal digits or from mido's messages."""

import io
from collections.abc import Container

import mido

NOTE_ON_OFF = "00 90 3C 40 60 80 3C 00"
END = "00 FF 2F 00  # end of track"


def raw(text: str) -> bytes:
    """Hexadecimal digits, with comments after #, as bytes."""
    return bytes.fromhex("".join(line.split("#")[0] for line in text.splitlines()))


def file(
    *tracks: str | bytes, kind: int = 1, division: int = 480, count: int | None = None
) -> bytes:
    """A whole file of tracks; by default one tick is 1/960 s."""
    numbers = (kind, len(tracks) if count is None else count, division)
    head = b"MThd" + raw("00 00 00 06") + b"".join(n.to_bytes(2, "big") for n in numbers)
    bodies = [track if isinstance(track, bytes) else raw(track) for track in tracks]
    return head + b"".join(b"MTrk" + len(body).to_bytes(4, "big") + body for body in bodies)


def tick(n: int) -> float:
    return n / 960


def opened(data: bytes) -> mido.MidiFile:
    return mido.MidiFile(file=io.BytesIO(data), charset="utf-8")


def messages(data: bytes, *, without: Container[str] = ()) -> list[list[tuple[int, mido.Message]]]:
    """Read with mido: for each track (tick, message), but its end and the types ``without``."""
    tracks = []
    for track in opened(data).tracks:
        now, rows = 0, []
        for message in track:
            now += message.time
            if message.type != "end_of_track" and message.type not in without:
                rows.append((now, message.copy(time=0)))
        tracks.append(rows)
    return tracks


def saved(*tracks: list[tuple[int, mido.Message]], kind: int = 1, quarter: int = 480) -> bytes:
    """Write with mido a file of tracks of (tick, message)."""
    file = mido.MidiFile(type=kind, ticks_per_beat=quarter, charset="utf-8")
    for rows in tracks:
        track, now = mido.MidiTrack(), 0
        for tick, message in sorted(rows, key=lambda row: row[0]):
            track.append(message.copy(time=tick - now))
            now = tick
        file.tracks.append(track)
    out = io.BytesIO()
    file.save(file=out)
    return out.getvalue()
