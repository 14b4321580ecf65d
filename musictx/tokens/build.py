"""Build a tokenizer from its name and options, also from those in a model folder."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from musictx import registry
from musictx.config import TokenizerConfig
from musictx.config.checks import create, import_class
from musictx.errors import ConfigError, UserError, shown
from musictx.files import largest, read_json
from musictx.tokens.tokenizer import Tokenizer

#: {name: import path} of the core's tokenizers; ``registry.TOKENIZERS`` has those of optional
#: components.
REGISTRY = {"performance": "musictx.tokens.performance:PerformanceTokenizer"}
OPTIONS = tuple(TokenizerConfig.__dataclass_fields__)
#: The largest number that an option in a model folder may have.
_MAX_NUMBER = 10**6


def build(name: str = "performance", **options: Any) -> Tokenizer:
    """Return the tokenizer ``name`` with ``options`` (:class:`musictx.config.TokenizerConfig`).

    ``name`` is a name in :data:`REGISTRY` or ``registry.TOKENIZERS``, or a class of your own as
    ``package.module:Class``. Its constructor gets ``name`` and those ``options`` for which it has
    parameters; other options must have the defaults of ``TokenizerConfig``.

    ``build(**tokenizer.to_config())`` is equal to ``tokenizer``. Raises
    :class:`~musictx.errors.ConfigError` for an unknown name or option, an option that this
    tokenizer lacks, an invalid value, and a class whose constructor fails.
    """
    path = name if ":" in name else (REGISTRY | registry.TOKENIZERS).get(str(name).lower())
    if path is None:
        names = ", ".join([*REGISTRY, *registry.TOKENIZERS])
        raise ConfigError(
            f"tokenizer.name={name}: expected one of {names}, or your own as package.module:Class"
        )
    tokenizer_class = import_class("tokenizer.name", path, Tokenizer)
    parameters = inspect.signature(tokenizer_class).parameters
    if unknown := sorted(options.keys() - {*OPTIONS, *parameters}):
        raise ConfigError(f"tokenizer.{unknown[0]}: no such option; expected {', '.join(OPTIONS)}")
    defaults = vars(TokenizerConfig(name))
    for key, value in options.items():
        if key not in parameters and value != defaults[key]:
            names = ", ".join(key for key in OPTIONS[1:] if key in parameters) or "no options"
            problem = f"{name} tokens have no such option; they have {names}"
            raise ConfigError(f"tokenizer.{key}={shown(value)}: {problem}")
    options["name"] = name
    arguments = {key: value for key, value in options.items() if key in parameters}
    return create("tokenizer.name", name, tokenizer_class, **arguments)


def read_options(path: Path) -> dict[str, Any]:
    """Read the options for :func:`build` from ``path``, the tokenizer.json of a model folder.
    Raises ``UserError`` if the file is damaged."""
    options = read_json(path).get("config")
    if not isinstance(options, dict) or largest(options) > _MAX_NUMBER:
        raise UserError(f"{path}: expected the options of a tokenizer; the file is damaged")
    return options
