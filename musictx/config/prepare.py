"""Options of ``musictx prepare``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.corpus import CorpusConfig
from musictx.config.tokenizer import TokenizerConfig


@dataclass
class PrepareConfig:
    """musictx prepare: a folder of MIDI -> token shards."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
