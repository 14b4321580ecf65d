"""Options of ``musictx harmonise``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import MOST_SAMPLES, at_least, device, option, require, whole_seed
from musictx.config.generate import ModelFolder
from musictx.config.sampling import TokenSampling


@dataclass
class HarmoniseConfig:
    """musictx harmonise: a melody -> four voices, by a model of chorales."""

    model: ModelFolder = field(default_factory=ModelFolder)
    sampling: TokenSampling = field(default_factory=TokenSampling)
    melody: str | None = option(
        None,
        "MIDI or MusicXML file with the melody, or an example that comes with musictx",
        path="in",
        names="examples",
    )
    particles: int = option(
        24, "harmonisations that are developed in parallel; more: better and slower"
    )
    samples: int = option(1, "how many harmonisations to write")
    render: bool = option(False, "also write a .wav and a .png for each .mid")
    out: str = option("generated", "folder for the results", path=True)
    name: str | None = option(None, "file name without ending; default: the melody's and the seed")
    device: str = option("auto", "auto, cpu, cuda or mps")
    seed: int | None = option(
        None,
        "seed of all random draws: the same seed gives the same music; default: a new one, printed",
    )

    def __post_init__(self) -> None:
        whole_seed(self.seed)
        device(self.device)
        at_least("samples", self.samples, 1, most=MOST_SAMPLES)
        at_least("particles", self.particles, 1)
        require(self.melody != "", "melody", self.melody, "a file such as tune.mid")
