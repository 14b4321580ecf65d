"""Options of ``musictx render``."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import one_of, option, require


@dataclass
class RenderConfig:
    """musictx render: any MIDI file -> WAV and piano-roll PNG."""

    midi: str | None = option(None, "the MIDI file", path=True)
    wav: bool = option(True, "write sound")
    png: bool = option(True, "write a piano roll")
    out: str | None = option(
        None, "folder for the results; default: beside the MIDI file", path=True
    )
    sample_rate: int = option(44100, "of the WAV file, hertz")
    soundfont: str | None = option(
        None, "SF2 file; default: the one pretty_midi installs", path=True
    )
    engine: str = option("auto", "sampler (built in), fluidsynth, or auto: fluidsynth if installed")

    def __post_init__(self) -> None:
        require(
            8000 <= self.sample_rate <= 192000, "sample_rate", self.sample_rate, "8000 to 192000"
        )
        one_of("engine", self.engine, ("auto", "sampler", "fluidsynth"))
