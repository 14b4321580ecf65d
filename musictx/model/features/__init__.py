"""Features: inputs that are computed from the ids so far and added to their embeddings.

``model.features`` is a list of features by name, each with its options. A name is in
:data:`BUILT_IN` or in :mod:`musictx.registry`, or is the import path ``module:Class`` of a
:class:`Feature`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from musictx import registry
from musictx.config.checks import imported
from musictx.errors import ConfigError
from musictx.model.features.base import Feature, NativeForm, Options
from musictx.tokens.tokenizer import Tokenizer

__all__ = ["BUILT_IN", "Feature", "NativeForm", "Options", "chosen", "kind_of", "with_tokens"]

#: Name -> import path of the built-in features.
BUILT_IN = {
    "sounding": "musictx.model.features.sounding:Sounding",
    "conditions": "musictx.model.features.conditions:Conditions",
    "echoes": "musictx.model.features.motif_memory:MotifMemory",
}


def kind_of(name: str) -> type[Feature]:
    """The class of a feature by name or import path; ``ConfigError`` where there is none."""
    path = name if ":" in name else (BUILT_IN | registry.FEATURES).get(name)
    if path is None:
        names = sorted({*BUILT_IN, *registry.FEATURES})
        raise ConfigError(f"model.features={name}: expected one of {', '.join(names)}")
    kind: type[Feature] = imported("model.features", path, Feature)
    return kind


def with_tokens(
    chosen: Sequence[Mapping[str, Any]], tokenizer: Tokenizer
) -> tuple[dict[str, Any], ...]:
    """The features ``chosen`` by name and options, complete for the tokens of ``tokenizer``.

    Raises ``ConfigError`` for an unknown name, for an option that the feature does not have or a
    value that it may not have, and for tokens without what the feature reads.
    """
    features = []
    for feature in chosen:
        options = dict(feature)
        name = str(options.pop("name"))
        kind = kind_of(name)
        names = _option_names(kind)
        for option in options:
            if option not in names:
                has = f"which has {', '.join(names)}" if names else "which has none"
                raise ConfigError(f"model.features: {option} is no option of {name}, {has}")
        given = dataclasses.asdict(kind.options(**options))
        features.append({"name": name, **given, **kind.of_tokens(tokenizer)})
    return tuple(features)


def chosen(features: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The name and options of each of ``features``, without the arguments that follow from the
    tokens, which :func:`with_tokens` adds."""
    every = [("name", *_option_names(kind_of(feature["name"]))) for feature in features]
    return [{n: f[n] for n in names if n in f} for f, names in zip(features, every)]


def _option_names(kind: type[Feature]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind.options)]
