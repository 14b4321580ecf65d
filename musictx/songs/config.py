"""Options of ``musictx chords``."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import option
from musictx.config.composing import NotationOptions


@dataclass
class ChordsConfig(NotationOptions):
    """musictx chords: the chords of a file, as a sheet."""

    file: str | None = option(
        None,
        "MIDI or MusicXML file, text with chords, or an example that comes with musictx",
        path="examples",
    )
    out: str | None = option(
        None,
        "also write the music with these chords as markers: x.mid",
        path="out",
        pattern=(r"(?is).*\.(midi?|musicxml)", "a file that ends in .mid or .musicxml"),
    )
