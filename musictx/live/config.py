"""Options of ``musictx play`` and ``musictx jam``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import DAY, option
from musictx.config.composing import ComposingOptions, PrimerOptions
from musictx.config.sampling import SamplingConfig


@dataclass
class LiveConfig(ComposingOptions):
    """Options that play and jam share."""

    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    output: str | None = option(
        None, "MIDI port to play to, socket:HOST:PORT, or a .mid file; default: the first MIDI port"
    )


@dataclass
class PlayConfig(PrimerOptions, LiveConfig):
    """musictx play: compose music and play it while it is composed."""

    primer: str | None = option(
        None,
        "MIDI or MusicXML file to continue, or an example that comes with musictx",
        path="examples",
    )
    seconds: float | None = option(
        None, "length of the music; default: until you stop it (Ctrl-C)", above=0, high=DAY
    )


@dataclass
class JamConfig(LiveConfig):
    """musictx jam: listen, and answer in the pauses."""

    input: str | None = option(
        None, "MIDI port to listen to, or socket:HOST:PORT; default: the first MIDI port"
    )
    answer: float = option(8.0, "longest answer, in seconds", above=0, high=DAY)
    pause: float = option(1.5, "seconds of silence before an answer", above=0, high=60)
    control: int | None = option(
        None,
        "MIDI controller that triggers the answer at once, such as 64 (the sustain pedal)",
        low=0,
        high=127,
    )
