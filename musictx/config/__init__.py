"""Every option of every command: name, type, default, unit, check. No torch, no Hydra.

The YAML files under ``conf/`` give combinations of these; a value that is not declared here cannot
be set. A dataclass checks itself when it is made and raises :class:`ConfigError` with the option's
dotted name, what came and what would be right - before anything heavy starts. The text after each
field is its help: ``musictx train --help`` prints it.
"""

from musictx.config.composing import ModelFolder as ModelFolder
from musictx.config.corpus import AugmentConfig as AugmentConfig
from musictx.config.corpus import CorpusConfig as CorpusConfig
from musictx.config.data import DataConfig as DataConfig
from musictx.config.generate import GenerateConfig as GenerateConfig
from musictx.config.infill import AccompanyConfig as AccompanyConfig
from musictx.config.infill import InfillConfig as InfillConfig
from musictx.config.limits import Limits as Limits
from musictx.config.model import IMPLEMENTATIONS as IMPLEMENTATIONS
from musictx.config.model import ModelConfig as ModelConfig
from musictx.config.optim import OptimConfig as OptimConfig
from musictx.config.position import SCHEMES as SCHEMES
from musictx.config.position import HuangConfig as HuangConfig
from musictx.config.position import PositionConfig as PositionConfig
from musictx.config.sampling import SamplingConfig as SamplingConfig
from musictx.config.sampling import TokenSampling as TokenSampling
from musictx.config.tokenizer import TokenizerConfig as TokenizerConfig
from musictx.config.train import PrepareConfig as PrepareConfig
from musictx.config.train import TrainConfig as TrainConfig
from musictx.config.trainer import TrainerConfig as TrainerConfig
