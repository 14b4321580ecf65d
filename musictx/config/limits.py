"""How much a file of music may ask of the machine."""

from __future__ import annotations

from dataclasses import dataclass, fields

from musictx.config.checks import DAY, MOST, option, require


@dataclass
class Limits:
    """Bounds of what is read and written, so that no file can fill the memory or hold a command
    for minutes. The defaults lie far above real music; what passes one is refused in a sentence."""

    midi_mb: int = option(16, "size of a MIDI file, MB")
    xml_mb: int = option(100, "size of a MusicXML document, unpacked if it is zipped, MB")
    xml_tags: int = option(4_000_000, "tags and attributes of a MusicXML document")
    divisions: int = option(1000, "different <divisions> of a MusicXML document")
    font_mb: int = option(1000, "size of a sound font, MB")
    tracks: int = option(65_534, "tracks of a MIDI file, parts of a MusicXML document")
    notes: int = option(1_000_000, "notes of a piece")
    events: int = option(
        4_000_000, "events of a piece: notes, programs, and pedals in each part that they move"
    )
    seconds: int = option(DAY, "length of a piece; beyond a day its times are damaged")
    wav_seconds: int = option(3600, "length of a WAV file that is rendered, seconds")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            name, expected = f"limits.{field.name}", "a whole number from 1 to 1,000,000,000"
            require(whole and 1 <= value <= MOST, name, value, expected)
        require(self.tracks < 2**16, "limits.tracks", self.tracks, "at most 65535")
        require(self.seconds <= DAY, "limits.seconds", self.seconds, "at most 86400, a day")
