"""The options of ``musictx evaluate`` and ``musictx compare``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx import registry
from musictx.config.checks import DAY, LARGEST_SEED, MOST_SAMPLES, option
from musictx.config.composing import ModelOptions, ParticleOptions
from musictx.config.corpus import CorpusConfig
from musictx.config.sampling import SamplingConfig

#: What a model can compose as samples; optional components add further tasks.
TASKS = ("free", "continue", "infill", "vary", "accompany", *registry.TASKS)


@dataclass
class SplitOptions(ModelOptions):
    """The options of both commands: a model and a corpus."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    split: str = option(
        "validation",
        "part of the corpus to measure on: train, validation or test",
        choices=("train", "validation", "test"),
    )


@dataclass
class EvaluateConfig(SplitOptions):
    """The options of ``musictx evaluate``: the likelihood of a corpus."""

    window: int | None = option(
        None, "number of tokens in a window; default: the model's context", low=2, high=2**20
    )
    windows: int | None = option(
        None, "measure only this many windows, spread evenly over the split; default: all", low=1
    )
    out: str | None = option(
        None,
        "also write the result to this file: .json",
        path="out",
        pattern=(r"(?s).*\.json", "a file name that ends with .json"),
    )


@dataclass
class CompareConfig(ParticleOptions, SplitOptions):
    """The options of ``musictx compare``: samples compared with real music."""

    samples: str | None = option(
        None,
        "music file, or folder of music files, to measure; with pieces=N, a new folder for the "
        "samples that the model generates",
        path="out",
    )
    against: str | None = option(
        None, "file or folder of real music to compare with; default: the corpus", path="out"
    )
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    pieces: int = option(
        0, "generate this many pieces with the model and measure them", low=0, high=MOST_SAMPLES
    )
    task: str = option(
        "free",
        f"what to compose with pieces=N: {', '.join(TASKS)}. free: new pieces; the others continue "
        "the openings of real pieces, recompose or vary their middle, accompany or harmonise their "
        "melody",
        choices=TASKS,
    )
    seconds: float = option(
        45.0, "length of the music to generate and measure, seconds", above=0, high=DAY
    )
    primer_seconds: float = option(
        10.0,
        "length of the given music before a continuation, or before and after a middle, seconds; "
        "given music is not measured",
        above=0,
        high=DAY,
    )
    out: str | None = option(
        None,
        "also write the result to this file: .json, or .csv (one row per piece)",
        path="out",
        pattern=(r"(?s).*\.(json|csv)", "a file name that ends with .json or .csv"),
    )
    seed: int = option(
        0, "seed of all random draws, also of the choice of real pieces", low=0, high=LARGEST_SEED
    )

    def check(self) -> None:
        if self.pieces:
            return
        condition = "unless the model generates samples, with an option such as pieces=64"
        self.require("task", self.task == "free", f"free, {condition}")
        for name, default in vars(SamplingConfig()).items():
            is_default = getattr(self.sampling, name) == default
            self.sampling.require(name, is_default, f"the default, {condition}")
