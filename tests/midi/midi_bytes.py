"""MIDI files spelled as hexadecimal digits, with what each byte means beside it."""

from __future__ import annotations

from musictx.notes import Score

NOTE_ON_OFF = "00 90 3C 40 60 80 3C 00"
END = "00 FF 2F 00  # end of track"


def raw(text: str) -> bytes:
    """Hexadecimal digits, with comments after #, as bytes."""
    return bytes.fromhex("".join(line.split("#")[0] for line in text.splitlines()))


def chunk(body: str | bytes) -> bytes:
    """A track chunk with its length worked out."""
    content = body if isinstance(body, bytes) else raw(body)
    return b"MTrk" + len(content).to_bytes(4, "big") + content


def file(
    *tracks: str | bytes, kind: int = 1, division: int = 480, count: int | None = None
) -> bytes:
    """A whole file of tracks; one tick is 1/960 s if nothing else is said."""
    count = len(tracks) if count is None else count
    numbers = (kind, count, division)
    head = b"MThd" + raw("00 00 00 06") + b"".join(n.to_bytes(2, "big") for n in numbers)
    return head + b"".join(chunk(track) for track in tracks)


def table(score: Score) -> list[tuple]:
    """(start, end, pitch, velocity) of all notes."""
    return [row[:4] for row in score.notes.tolist()]


def tick(n: int) -> float:
    return n / 960
