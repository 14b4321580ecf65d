"""Name and options -> Tokenizer; also from what a model folder says about its own."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from musictx.config import TokenizerConfig
from musictx.errors import ConfigError
from musictx.tokens.vocab import Tokenizer

#: Where the tokenizers live. One is imported only when it is asked for.
REGISTRY = {
    "performance": "musictx.tokens.performance:PerformanceTokenizer",
    "chorale": "musictx.chorale.tokenizer:ChoraleTokenizer",
    **dict.fromkeys(
        ("remi", "tsd", "midilike", "structured"), "musictx.tokens.miditok:MidiTokTokenizer"
    ),
}
#: MidiTok's tokenizers that cannot be used, and why.
REFUSED = {
    **dict.fromkeys(("octuple", "cpword", "mumidi"), "writes several ids for each note"),
    "pertok": "lets notes without velocity and length through and cannot read its tempos back",
    "beat": "writes pitches as intervals and long notes in pieces, so no window can be transposed",
    "mmm": "writes the instruments one after another, so a piece cannot be continued in time",
}
OPTIONS = tuple(TokenizerConfig.__dataclass_fields__)


def build(name: str = "performance", **options: Any) -> Tokenizer:
    """The tokenizer of that name; ``options`` as in :class:`musictx.config.TokenizerConfig`.

    name  one of :data:`REGISTRY`, or a class of your own as ``package.module:Class``, which takes
          those options by name that its constructor names (and ``name``, if it names that)

    ``build(**tokenizer.to_config())`` is equal to ``tokenizer``. Raises
    :class:`~musictx.errors.ConfigError` for an unknown name, option or value, and
    :class:`~musictx.errors.UserError` if MidiTok is needed and not installed.
    """
    place = name if ":" in name else REGISTRY.get(str(name).lower())
    if place is None:
        known = ", ".join(REGISTRY)
        if str(name).lower() in REFUSED:
            why = f"MidiTok's {name} {REFUSED[str(name).lower()]}; expected one of {known}"
            raise ConfigError(f"tokenizer.name={name}: {why}")
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
