"""Base classes for options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from musictx.config.checks import DAY, LARGEST_SEED, MOST_SAMPLES, CheckedOptions, option
from musictx.config.limits import Limits
from musictx.config.sampling import SamplingConfig
from musictx.files import check_ending

#: Endings of the names of music files that commands write.
WRITERS = (".mid", ".midi", ".musicxml")
#: The largest number of pieces that a server composes for one request.
MOST_AT_ONCE = 8


@dataclass
class ModelFolder(CheckedOptions, prefix="model"):
    """Which trained model to use."""

    path: str | None = option(
        None,
        "model folder, included model, or hf:USER/NAME of the Hugging Face hub; default: the "
        "newest model under runs/, or else an included one",
        path="models",
    )


@dataclass
class DeviceOptions(CheckedOptions):
    """The option of commands that compute with torch. A device that does not exist is reported when
    it is used."""

    device: str = option(
        "auto",
        "auto, cpu, cuda (a GPU) or mps (an Apple GPU)",
        pattern=(r"auto|cpu|mps|(cuda|xpu|hpu|tpu)(:\d+)?", "auto, cpu, cuda, cuda:1 or mps"),
    )


@dataclass
class ModelOptions(DeviceOptions):
    """The options of commands that use a trained model."""

    model: ModelFolder = field(default_factory=ModelFolder)


@dataclass
class PrimerOptions(CheckedOptions):
    """The option of commands that continue a primer."""

    primer_seconds: float | None = option(
        None, "seconds of the primer to use, from its start", above=0, high=DAY
    )


@dataclass
class MelodyOptions(CheckedOptions):
    """The option of commands that compose to a melody."""

    melody: str | None = option(
        None,
        "MIDI or MusicXML file with the melody, or an example that comes with musictx",
        path="examples",
    )


@dataclass
class BeatOptions(CheckedOptions):
    """The options of commands that compose music in bars without a file."""

    tempo: float | None = option(
        None,
        "tempo of a new piece, quarters a minute (BPM); model=song; default: 120",
        low=20,
        high=400,
    )
    meter: str | None = option(
        None,
        "meter (time signature) of a new piece, such as 3/4; for model=song",
        pattern=(r"\s*[1-9]\d?\s*/\s*(1|2|4|8|16)\s*", "a meter such as 4/4, 3/4 or 6/8"),
    )


@dataclass
class ParticleOptions(CheckedOptions):
    """The option of commands that harmonise."""

    particles: int = option(
        24, "harmonisations to develop in parallel; more are better and slower", low=1, high=10_000
    )


@dataclass
class ReadingOptions(CheckedOptions):
    """The option of commands that read music."""

    limits: Limits = field(default_factory=Limits)


@dataclass
class NotationOptions(ReadingOptions):
    """The options of commands that read a MIDI or MusicXML file."""

    repeats: bool = option(
        True, "play the repeats in MusicXML; false = play the written music once", rare=True
    )


@dataclass
class ComposingOptions(ModelOptions, ReadingOptions):
    """The options of all composing commands."""

    #: The name of the tokenizer that models must have to run the command; ``None``: any.
    tokenizer: ClassVar[str | None] = None

    seed: int | None = option(
        None, "seed of all random draws; default: a new seed", low=0, high=LARGEST_SEED
    )


@dataclass
class WritingOptions(ComposingOptions, NotationOptions):
    """The options of commands that write pieces to files."""

    samples: int = option(
        1,
        "number of pieces to write",
        low=1,
        high=MOST_SAMPLES,
        page=("Proposals", 1, MOST_AT_ONCE, 1),
    )
    render: bool = option(False, "also write a .wav and a .png for each .mid")
    out: str = option(
        "generated", "folder for the results, or a file such as x.mid or x.musicxml", path="out"
    )

    def check(self) -> None:
        check_ending(self.out, WRITERS)


@dataclass
class SteeringOptions(WritingOptions):
    """The options of commands that control the new notes. Loudness, register and polyphony need a
    model with control tokens. Density (``sampling.density``) does not, but chorales have none."""

    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    loudness: float | None = option(
        None,
        "how hard the keys are struck: a MIDI velocity, ppp to fff, or any",
        low=0,
        high=127,
        words={"ppp": 26, "pp": 38, "p": 49, "mp": 58, "mf": 66, "f": 75, "ff": 87, "fff": 104},
        unit="MIDI velocity",
        page=("Loudness", 26, 108, 1),
    )
    register: float | None = option(
        None,
        "how high the notes lie on average (60 is middle C); a pitch, or low, middle, high, any",
        low=0,
        high=127,
        words={"low": 52.0, "middle": 61.5, "high": 72.5},
        unit="MIDI pitch",
        page=("Register", 42, 80, 1),
    )
    polyphony: float | None = option(
        None,
        "how many notes sound at once; a number, or thin, medium, full, any",
        low=0,
        high=1000,
        words={"thin": 1.5, "medium": 4.0, "full": 9.0},
        unit="notes at once",
        page=("Fullness", 1, 12, 0.5),
    )
    loop: bool = option(
        False,
        "compose music to be repeated: its end leads back to its beginning; for model=song",
        rare=True,
    )
    quantise: str = option(
        "none",
        "round the new notes to the file's beats: 16 (sixteenths), 8, 8t (eighth triplets) or none",
        choices={"16": "Sixteenths", "8": "Eighths", "8t": "Triplets", "none": "Free"},
        page=("Grid of new notes",),
    )

    @property
    def controls(self) -> dict[str, float]:
        """The controls that are set, by name, with their values."""
        values = {name: getattr(self, name) for name in ("loudness", "register", "polyphony")}
        values["density"] = self.sampling.density
        return {name: value for name, value in values.items() if value is not None}
