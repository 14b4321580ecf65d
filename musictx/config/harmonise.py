"""Options of ``musictx harmonise``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import LARGEST_SEED, MOST_SAMPLES, check, device, option, require
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
        24, "harmonisations that are developed in parallel; more: better and slower", low=1
    )
    samples: int = option(1, "how many harmonisations to write", low=1, high=MOST_SAMPLES)
    render: bool = option(False, "also write a .wav and a .png for each .mid")
    out: str = option("generated", "folder for the results", path=True)
    name: str | None = option(None, "file name without ending; default: the melody's and the seed")
    device: str = option("auto", "auto, cpu, cuda or mps")
    seed: int | None = option(
        None,
        "seed of all random draws: the same seed gives the same music; default: a new one, printed",
        low=0,
        high=LARGEST_SEED,
    )

    def __post_init__(self) -> None:
        check(self)
        device(self.device)
        require(self.melody != "", "melody", self.melody, "a file such as tune.mid")
