"""The options of ``musictx train``, and of ``musictx prepare``, its first step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from musictx.config.checks import LARGEST_SEED, Options, option
from musictx.config.corpus import CorpusConfig
from musictx.config.data import DataConfig
from musictx.config.model import ModelConfig
from musictx.config.optim import OptimConfig
from musictx.config.position import HuangConfig, PositionConfig, checked
from musictx.config.sampling import SamplingConfig
from musictx.config.tokenizer import TokenizerConfig
from musictx.config.trainer import TrainerConfig


@dataclass
class PrepareConfig(Options):
    """The options of ``musictx prepare``: a folder of music becomes token shards."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)


@dataclass
class TrainConfig(Options):
    """The options of ``musictx train``: a corpus becomes a model folder."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    #: A dict has the arguments of the user's own class (:func:`musictx.config.position.checked`).
    position: PositionConfig | dict[str, Any] = field(default_factory=HuangConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    callbacks: dict[str, Any] = option(
        {},
        "Lightning callbacks, each by its _target_: callbacks=none, or +callbacks.mine._target_=",
        rare=True,
    )
    logger: dict[str, Any] = option({}, "Lightning loggers, each by its _target_", rare=True)
    init: str | None = option(
        None,
        "fine-tuning: model folder, or model that comes with musictx, to start from",
        path="models",
    )
    freeze: int = option(
        0,
        "fine-tuning: number of layers, from the first, that keep the weights of init",
        low=0,
        high=1000,
    )
    out: str | None = option(
        None,
        "run folder; default runs/CORPUS-MODEL-seedSEED-KEY, resumed if it is there",
        path="out",
    )
    seed: int = option(0, "seed of all random draws", low=0, high=LARGEST_SEED)

    def check(self) -> None:
        self.position = checked(self.position)
        expected = "init=MODEL with it: a new model has no trained layers"
        self.require("freeze", self.init is not None or not self.freeze, expected)
        if self.init is None and self.model.dropout is None:
            self.model = replace(self.model, dropout=0.1)
