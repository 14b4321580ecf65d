"""Options of ``musictx generate``, and of every command that takes a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import (
    DAY,
    LARGEST_SEED,
    MOST_SAMPLES,
    check,
    device,
    option,
    require,
)
from musictx.config.sampling import SamplingConfig
from musictx.config.steering import Steered

#: Formats of weights (musictx/model/weights.py).
WEIGHTS = ("float32", "bfloat16", "int8")


@dataclass
class ModelFolder:
    """Which trained model to use."""

    path: str | None = option(
        None,
        "model folder, or a model that comes with musictx; default: the newest under runs/, or "
        "else the model that comes with musictx",
        path="in",
        names="models",
    )
    weights: str = option(
        "float32",
        "format of the weights in memory, float32, bfloat16 or int8: a large model writes up to "
        "twice as fast with small ones, and loses less than 0.001 nats a token",
        choices=WEIGHTS,
    )

    def __post_init__(self) -> None:
        check(self, "model")


@dataclass
class GenerateConfig(Steered):
    """musictx generate: a model folder -> new music."""

    model: ModelFolder = field(default_factory=ModelFolder)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    primer: str | None = option(
        None,
        "MIDI or MusicXML file to continue, or an example that comes with musictx",
        path="in",
        names="examples",
    )
    primer_seconds: float | None = option(
        None, "use only the first seconds of the primer", above=0, high=DAY
    )
    primer_tokens: int | None = option(None, "use only the first tokens of the primer", low=1)
    include_primer: bool = option(True, "write the primer before its continuation")
    seconds: float | None = option(
        None,
        "length of the new music, seconds; default: 30, if no other length is given",
        above=0,
        high=DAY,
    )
    bars: int | None = option(
        None,
        "length of the new music, bars of the primer's meter, from its next bar line",
        low=1,
        high=1_000_000,
    )
    tokens: int | None = option(
        None, "length of the new music, tokens; the limit that is reached first counts", low=1
    )
    end: str | None = option(
        None,
        "how the piece ends: cut (at that length), natural (it closes and falls silent by then) "
        "or model (also before, where the model ends it); default: cut, new chorales model",
        choices=("cut", "natural", "model"),
    )
    quantise: str = option(
        "none",
        "put the new notes on a grid of the primer's tempo: 16, 8, 8t (triplets) or none",
        choices=("none", "16", "8", "8t"),
    )
    samples: int = option(1, "how many pieces to write", low=1, high=MOST_SAMPLES)
    keep: int | None = option(
        None,
        "write only so many of the samples: those nearest to the primer, or else to the training "
        "corpus, in density, self-similarity and key",
        low=1,
    )
    context: int | None = option(
        None, "tokens that the model looks back on; default: as many as in training", low=2
    )
    render: bool = option(False, "also write a .wav and a .png for each .mid")
    out: str = option(
        "generated", "folder for the results, or a file, x.mid or x.musicxml", path=True
    )
    name: str | None = option(
        None, "file name without ending; default: the primer's or the model's and the seed"
    )
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
        if self.keep is not None:
            require(self.keep <= self.samples, "keep", self.keep, f"at most samples={self.samples}")
