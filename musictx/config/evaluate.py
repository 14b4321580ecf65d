"""Options of ``musictx evaluate``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import check, device, option, require
from musictx.config.composing import ModelFolder
from musictx.config.corpus import CorpusConfig


@dataclass
class EvaluateConfig:
    """musictx evaluate: the likelihood of a corpus."""

    model: ModelFolder = field(default_factory=ModelFolder)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    split: str = option(
        "validation",
        "part of the corpus to measure on: train, validation or test",
        choices=("train", "validation", "test"),
    )
    window: int | None = option(
        None, "tokens in a window; default: the model's context", low=2, high=2**20
    )
    windows: int | None = option(
        None, "measure only this many windows, spread evenly over the split", low=1
    )
    out: str | None = option(
        None,
        "also write the result to this file: .json",
        path=True,
    )
    device: str = option("auto", "auto, cpu, cuda, mps")

    def __post_init__(self) -> None:
        check(self)
        device(self.device)
        require(
            self.out is None or self.out.endswith(".json"),
            "out",
            self.out,
            "a file name that ends with .json",
        )
