"""Name and options -> Tokenizer; also from the description in a model folder."""

from __future__ import annotations

import inspect
from typing import Any

from musictx import registry
from musictx.config import TokenizerConfig
from musictx.config.checks import imported
from musictx.errors import ConfigError, shown
from musictx.tokens.tokenizer import Tokenizer

#: Import paths of the core's tokenizers, each imported when it is asked for; optional components
#: add theirs (``registry.TOKENIZERS``).
REGISTRY = {"performance": "musictx.tokens.performance:PerformanceTokenizer"}
OPTIONS = tuple(TokenizerConfig.__dataclass_fields__)


def build(name: str = "performance", **options: Any) -> Tokenizer:
    """The tokenizer of that name; ``options`` as in :class:`musictx.config.TokenizerConfig`.

    name  one of :data:`REGISTRY` or of an optional component, or a class of your own as
          ``package.module:Class``, which takes those options by name that its constructor names
          (and ``name``, if it does)

    ``build(**tokenizer.to_config())`` is equal to ``tokenizer``. Raises
    :class:`~musictx.errors.ConfigError` for an unknown name, option or value.
    """
    word = str(name).lower()
    place = name if ":" in name else (REGISTRY | registry.TOKENIZERS).get(word)
    if place is None:
        names = ", ".join([*REGISTRY, *registry.TOKENIZERS])
        raise ConfigError(
            f"tokenizer.name={name}: expected one of {names}, or your own as package.module:Class"
        )
    make = imported("tokenizer.name", place)
    takes = inspect.signature(make).parameters
    unknown = sorted(set(options) - set(OPTIONS) - set(takes))
    if unknown:
        raise ConfigError(f"tokenizer.{unknown[0]}: no such option; expected " + ", ".join(OPTIONS))
    if "params" not in takes:
        for key, value in (options.get("params") or {}).items():
            raise ConfigError(
                f"tokenizer.params.{key}={shown(value)}: {name} takes no params; they are for a "
                "class of your own whose constructor names params"
            )
    given = {key: value for key, value in options.items() if key in takes}
    if "name" in takes:
        given["name"] = name
    tokenizer: Tokenizer = make(**given)
    return tokenizer
