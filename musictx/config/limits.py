"""Bounds on the size of music files, and on the time and memory to read them."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import DAY, CheckedOptions, option


@dataclass
class Limits(CheckedOptions, prefix="limits"):
    """Bounds on what is read and written, so that no file can fill the memory or block a command
    for minutes. The defaults are far above real music. A file beyond a bound raises ``UserError``.
    The fields are the options ``limits.NAME`` of the commands. ::

        musictx.read("song.mid", limits=musictx.Limits(notes=10_000, seconds=600))
    """

    midi_mb: int = option(16, "size of a MIDI file, MB", low=1)
    xml_mb: int = option(100, "size of a MusicXML document after unzipping, MB", low=1)
    xml_tags: int = option(4_000_000, "tags and attributes in a MusicXML document", low=1)
    divisions: int = option(1000, "different <divisions> in a MusicXML document", low=1)
    font_mb: int = option(1000, "size of a sound font, MB", low=1)
    tracks: int = option(
        65_534, "tracks of a MIDI file, or parts of a MusicXML document", low=1, high=65_535
    )
    notes: int = option(1_000_000, "notes of a piece", low=1)
    events: int = option(
        4_000_000,
        "events of a piece: notes, program changes, and pedal changes for each part; each mark of "
        "tempo, meter, key or text counts as ten",
        low=1,
    )
    seconds: int = option(
        DAY, "length of a piece, seconds; longer than a day is taken for damage", low=1, high=DAY
    )
    read_seconds: float = option(
        60.0, "time to read a file, seconds (prepare, studio)", above=0, below=1e6
    )
    read_mb: int = option(2048, "memory to read a file, MB (prepare, studio)", low=16)
    # A WAV file has a size of 32 bits, which is 24,347 seconds. Notes may ring on for 200 seconds.
    wav_seconds: int = option(3600, "length of a WAV file to render, seconds", low=1, high=24_000)


@dataclass
class ServerLimits(Limits):
    """Limits for files that are sent to a server, with less time and memory to read a file. Most
    files within the other limits are read in a tenth of this time."""

    read_seconds: float = option(10.0, "time to read a file, seconds", above=0, below=1e6)
    read_mb: int = option(1024, "memory to read a file, MB", low=16)
