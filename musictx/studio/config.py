"""Options of ``musictx studio``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import option
from musictx.config.composing import ModelOptions
from musictx.config.limits import ServerLimits

#: Values of ``host`` for all addresses of the machine.
EVERYWHERE = ("0.0.0.0", "::", "")
#: The share of notes that a variation keeps. Only the page has this option, no command.
KEEP = option(
    0.5,
    "how many of the selected notes stay as they are: the seed draws which",
    page=("Keep", 0, 0.95, 0.05),
)


@dataclass
class StudioLimits(ServerLimits):
    """Limits for files. They are lower than in other commands, since a page shows whole pieces."""

    midi_mb: int = option(16, "size of an upload, MB", low=1)
    xml_mb: int = option(32, "size of a MusicXML document, unpacked if it is zipped, MB", low=1)
    tracks: int = option(256, "tracks of a piece", low=1, high=65_535)
    notes: int = option(100_000, "notes of a piece", low=1)
    seconds: int = option(7200, "length of a piece", low=1, high=86_400)


@dataclass
class StudioConfig(ModelOptions):
    """musictx studio: a page in the browser where music is made by selecting."""

    folder: str = option(
        "studio",
        "where pieces are kept, each in a folder of its own; created if missing",
        path="out",
    )
    port: int = option(7870, "port of the page; 0: any that is free", low=0, high=65_535)
    host: str = option(
        "127.0.0.1", "address to listen on; 0.0.0.0 lets other machines in, without a password"
    )
    browser: bool = option(True, "open the page in the browser")
    limits: StudioLimits = field(default_factory=StudioLimits)
