"""Options of ``musictx generate``, and of every command that takes a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import (
    DAY,
    MOST_SAMPLES,
    at_least,
    device,
    one_of,
    option,
    require,
    whole_seed,
)
from musictx.config.sampling import SamplingConfig


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


@dataclass
class GenerateConfig:
    """musictx generate: a model folder -> new music."""

    model: ModelFolder = field(default_factory=ModelFolder)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    primer: str | None = option(
        None,
        "MIDI or MusicXML file to continue, or an example that comes with musictx",
        path="in",
        names="examples",
    )
    primer_seconds: float | None = option(None, "use only the first seconds of the primer")
    primer_tokens: int | None = option(None, "use only the first tokens of the primer")
    include_primer: bool = option(True, "write the primer before its continuation")
    seconds: float | None = option(
        None, "length of the new music, seconds; default: 30, if no other length is given"
    )
    bars: int | None = option(
        None, "length of the new music, bars of the primer's meter, from its next bar line"
    )
    tokens: int | None = option(
        None, "length of the new music, tokens; the limit that is reached first counts"
    )
    may_end: bool | None = option(
        None, "let the model end the piece before that length; default: only new chorales"
    )
    quantise: str = option(
        "none", "put the new notes on a grid of the primer's tempo: 16, 8, 8t (triplets) or none"
    )
    samples: int = option(1, "how many pieces to write")
    keep: int | None = option(
        None,
        "write only so many of the samples: those nearest to the primer, or else to the training "
        "corpus, in density, self-similarity and key",
    )
    context: int | None = option(
        None, "tokens that the model looks back on; default: as many as in training"
    )
    render: bool = option(False, "also write a .wav and a .png for each .mid")
    out: str = option("generated", "folder for the results", path=True)
    name: str | None = option(
        None, "file name without ending; default: the primer's or the model's and the seed"
    )
    device: str = option("auto", "auto, cpu, cuda or mps")
    seed: int | None = option(
        None,
        "seed of all random draws: the same seed gives the same music; default: a new one, printed",
    )

    def __post_init__(self) -> None:
        whole_seed(self.seed)
        device(self.device)
        one_of("quantise", self.quantise, ("none", "16", "8", "8t"))
        for name in ("primer_seconds", "seconds"):
            value = getattr(self, name)
            if value is not None:
                require(
                    0 < value <= DAY, name, value, "a positive number of seconds, at most a day"
                )
        at_least("primer_tokens", self.primer_tokens, 1)
        at_least("tokens", self.tokens, 1)
        at_least("bars", self.bars, 1, most=1_000_000)
        at_least("samples", self.samples, 1, most=MOST_SAMPLES)
        at_least("keep", self.keep, 1)
        if self.keep is not None:
            require(self.keep <= self.samples, "keep", self.keep, f"at most samples={self.samples}")
        at_least("context", self.context, 2)
