"""Options of ``musictx prepare``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import option
from musictx.config.corpus import CorpusConfig
from musictx.config.tokenizer import TokenizerConfig


@dataclass
class PrepareConfig:
    """musictx prepare: a folder of MIDI -> token shards."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    part: str | None = option(
        None,
        "3/16: prepare only the third of sixteen parts, for a job array; train reads all parts as "
        "one corpus",
    )
