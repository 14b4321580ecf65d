"""Options of ``musictx generate``, and of every command that takes a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import at_least, option, require, whole_seed
from musictx.config.sampling import SamplingConfig


@dataclass
class ModelFolder:
    """Which trained model to use."""

    path: str | None = option(
        None,
        "model folder, or one that comes along: piano, chorale; default: the newest under runs/, "
        "else one of those, as suits what is asked for",
        path=True,
    )


@dataclass
class GenerateConfig:
    """musictx generate: a model folder -> new music."""

    model: ModelFolder = field(default_factory=ModelFolder)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    primer: str | None = option(
        None, "MIDI file to continue, or mozart_k545, which comes along", path=True
    )
    primer_seconds: float | None = option(None, "use only its first seconds")
    primer_tokens: int | None = option(None, "use only its first tokens")
    include_primer: bool = option(True, "write the primer before the continuation")
    seconds: float | None = option(30.0, "length of the new music, seconds")
    tokens: int | None = option(
        None, "length of the new music, tokens; the first limit reached ends"
    )
    may_end: bool = option(False, "let the model end the piece before that length")
    samples: int = option(1, "how many pieces")
    context: int | None = option(None, "tokens the model looks back on; default: its own context")
    render: bool = option(False, "write .wav and .png beside each .mid")
    out: str = option("generated", "folder for the results", path=True)
    name: str | None = option(None, "file name without ending; default: from primer or model, seed")
    device: str = option("auto", "auto, cpu, cuda, mps")
    seed: int = option(0, "of every random draw; sample i of seed s is always the same")

    def __post_init__(self) -> None:
        whole_seed(self.seed)
        for name in ("primer_seconds", "seconds"):
            value = getattr(self, name)
            if value is not None:
                require(0 < value < 1e6, name, value, "a positive number of seconds")
        at_least("primer_tokens", self.primer_tokens, 1)
        at_least("tokens", self.tokens, 1)
        at_least("samples", self.samples, 1)
        at_least("context", self.context, 2)
        require(
            self.seconds is not None or self.tokens is not None,
            "seconds",
            self.seconds,
            "a length: give seconds, tokens or both",
        )
