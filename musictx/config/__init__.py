"""Every option of every command: name, type, default, unit, check. No torch, no Hydra.

The YAML files under ``conf/`` give combinations of these; a value that is not declared here cannot
be set. A dataclass checks itself when it is made and raises :class:`ConfigError` with the option's
dotted name, what came and what would be right - before anything heavy starts. The text after each
field is its help: ``musictx train --help`` prints it.
"""

from musictx.config.chords import ChordsConfig
from musictx.config.compare import CompareConfig
from musictx.config.composing import ModelFolder
from musictx.config.corpus import AugmentConfig, CorpusConfig
from musictx.config.data import DataConfig
from musictx.config.doctor import DoctorConfig
from musictx.config.evaluate import EvaluateConfig
from musictx.config.generate import GenerateConfig
from musictx.config.infill import AccompanyConfig, InfillConfig
from musictx.config.limits import Limits
from musictx.config.model import IMPLEMENTATIONS, ModelConfig
from musictx.config.optim import OptimConfig
from musictx.config.position import SCHEMES, HuangConfig, PositionConfig
from musictx.config.prepare import PrepareConfig
from musictx.config.sampling import SamplingConfig, TokenSampling
from musictx.config.tokenizer import TokenizerConfig
from musictx.config.train import TrainConfig
from musictx.config.trainer import TrainerConfig

__all__ = [
    "IMPLEMENTATIONS",
    "SCHEMES",
    "AccompanyConfig",
    "AugmentConfig",
    "ChordsConfig",
    "CompareConfig",
    "CorpusConfig",
    "DataConfig",
    "DoctorConfig",
    "EvaluateConfig",
    "GenerateConfig",
    "HuangConfig",
    "InfillConfig",
    "Limits",
    "ModelConfig",
    "ModelFolder",
    "OptimConfig",
    "PositionConfig",
    "PrepareConfig",
    "SamplingConfig",
    "TokenSampling",
    "TokenizerConfig",
    "TrainConfig",
    "TrainerConfig",
]
