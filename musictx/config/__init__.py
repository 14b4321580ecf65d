"""The options of all commands, as dataclasses: name, type, default, help and bounds of each.

Only options that are declared in a dataclass can be set; the YAML files in ``conf/`` are presets of
their values. The dataclasses check their values and raise :class:`ConfigError` for a wrong one.
Neither torch nor Hydra is imported, so a mistake is reported before anything slow starts.
"""

from musictx.config.composing import ModelFolder as ModelFolder
from musictx.config.corpus import AugmentConfig as AugmentConfig
from musictx.config.corpus import CorpusConfig as CorpusConfig
from musictx.config.corpus import PrepareConfig as PrepareConfig
from musictx.config.corpus import TokenizerConfig as TokenizerConfig
from musictx.config.generate import AccompanyConfig as AccompanyConfig
from musictx.config.generate import GenerateConfig as GenerateConfig
from musictx.config.generate import InfillConfig as InfillConfig
from musictx.config.limits import Limits as Limits
from musictx.config.position import SCHEMES as SCHEMES
from musictx.config.sampling import SamplingConfig as SamplingConfig
from musictx.config.sampling import TokenSampling as TokenSampling
from musictx.config.train import IMPLEMENTATIONS as IMPLEMENTATIONS
from musictx.config.train import DataConfig as DataConfig
from musictx.config.train import ModelConfig as ModelConfig
from musictx.config.train import OptimConfig as OptimConfig
from musictx.config.train import TrainConfig as TrainConfig
from musictx.config.trainer import TrainerConfig as TrainerConfig
