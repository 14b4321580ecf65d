"""Name and options -> Tokenizer; also from what a model folder says about its own."""

from __future__ import annotations

from typing import Any

from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import TokenizerConfig
from musictx.errors import ConfigError
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import Tokenizer

OPTIONS = tuple(TokenizerConfig.__dataclass_fields__)


def build(name: str = "performance", **options: Any) -> Tokenizer:
    """The tokenizer of that name; ``options`` as in :class:`musictx.config.TokenizerConfig`.

    ``build(**tokenizer.to_config())`` is equal to ``tokenizer``. Raises
    :class:`~musictx.errors.ConfigError` for an unknown name, option or value, and
    :class:`~musictx.errors.UserError` if MidiTok is needed and not installed.
    """
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise ConfigError(f"tokenizer.{unknown[0]}: no such option; expected " + ", ".join(OPTIONS))
    if str(name).lower() == "performance":
        for other in ("params", "ties"):  # of MidiTok and chorales only
            options.pop(other, None)
        return PerformanceTokenizer(**options)
    if str(name).lower() == "chorale":
        return ChoraleTokenizer(**{k: options[k] for k in ("low", "high", "ties") if k in options})
    options.pop("ties", None)
    from musictx.tokens.miditok import (
        NAMES,
        REFUSED,
        MidiTokTokenizer,
    )  # MidiTok itself comes when made

    if str(name).lower() not in (*NAMES, *REFUSED):
        raise ConfigError(
            f"tokenizer.name={name}: expected one of performance, chorale, " + ", ".join(NAMES)
        )
    return MidiTokTokenizer(str(name), **options)
