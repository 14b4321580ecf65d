"""Options of ``musictx chords``."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import Options, option
from musictx.config.limits import HELP, REPEATS, Limits


@dataclass
class ChordsConfig(Options):
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
    )
    repeats: bool = option(True, REPEATS, rare=True)
    limits: Limits = option(Limits, HELP, rare=True)
