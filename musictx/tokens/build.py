"""Name and options -> Tokenizer; also from what a model folder says about its own."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from musictx import wings
from musictx.config import TokenizerConfig
from musictx.errors import ConfigError
from musictx.tokens.vocab import Tokenizer

#: Where the tokenizers of the core live; wings add theirs. One is imported when it is asked for.
REGISTRY = {
    "performance": "musictx.tokens.performance:PerformanceTokenizer",
    "notes": "musictx.tokens.groups:GroupTokenizer",
}
OPTIONS = tuple(TokenizerConfig.__dataclass_fields__)


def build(name: str = "performance", **options: Any) -> Tokenizer:
    """The tokenizer of that name; ``options`` as in :class:`musictx.config.TokenizerConfig`.

    name  one of :data:`REGISTRY` or of a wing, or a class of your own as ``package.module:Class``,
          which takes those options by name that its constructor names (and ``name``, if it does)

    ``build(**tokenizer.to_config())`` is equal to ``tokenizer``. Raises
    :class:`~musictx.errors.ConfigError` for an unknown name, option or value.
    """
    word = str(name).lower()
    place = name if ":" in name else REGISTRY.get(word) or wings.place("tokenizers", word)
    if place is None:
        known = ", ".join([*REGISTRY, *wings.everywhere("tokenizers")])
        raise ConfigError(
            f"tokenizer.name={name}: expected one of {known}, or your own as package.module:Class"
        )
    make = _find(name, place)
    takes = inspect.signature(make).parameters
    unknown = sorted(set(options) - set(OPTIONS) - set(takes))
    if unknown:
        raise ConfigError(f"tokenizer.{unknown[0]}: no such option; expected " + ", ".join(OPTIONS))
    given = {key: value for key, value in options.items() if key in takes}
    if "name" in takes:
        given["name"] = name
    tokenizer: Tokenizer = make(**given)
    return tokenizer


def _find(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"tokenizer.name={name}: cannot be imported: {error}") from error
