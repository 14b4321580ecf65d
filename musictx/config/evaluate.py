"""Options of ``musictx evaluate``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import at_least, one_of, option
from musictx.config.corpus import CorpusConfig
from musictx.config.generate import ModelFolder


@dataclass
class EvaluateConfig:
    """musictx evaluate: a model folder and a corpus -> nats per token."""

    model: ModelFolder = field(default_factory=ModelFolder)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    split: str = option("validation", "train, validation or test")
    window: int | None = option(None, "tokens in a window; default: the model's context")
    stride: int | None = option(None, "tokens between windows; default: window (no overlap)")
    batch: int = option(8, "windows at a time")
    out: str | None = option(None, "also write the result to this JSON file", path=True)
    device: str = option("auto", "auto, cpu, cuda, mps")

    def __post_init__(self) -> None:
        one_of("split", self.split, ("train", "validation", "test"))
        at_least("window", self.window, 2)
        at_least("stride", self.stride, 1)
        at_least("batch", self.batch, 1)
