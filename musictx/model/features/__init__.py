"""Features: inputs that are computed from the ids so far and added to their embeddings.

``model.features`` is a list of features, each with a name and options. The name is a key of
:data:`BUILT_IN` or of ``FEATURES`` in :mod:`musictx.registry`, or the import path ``module:Class``
of a :class:`Feature`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from musictx import registry
from musictx.config.checks import import_class
from musictx.errors import ConfigError
from musictx.model.features.base import Feature, NativeForm, Options
from musictx.tokens.tokenizer import Tokenizer

__all__ = [
    "BUILT_IN",
    "Feature",
    "NativeForm",
    "Options",
    "complete_features",
    "feature_class",
    "user_options",
]

#: Name -> import path of the built-in features.
BUILT_IN = {
    "sounding": "musictx.model.features.sounding:Sounding",
    "conditions": "musictx.model.features.conditions:Conditions",
    "echoes": "musictx.model.features.motif_memory:MotifMemory",
}


def feature_class(name: str) -> type[Feature]:
    """The class of a feature by name or import path. Raises ``ConfigError`` if there is none."""
    path = name if ":" in name else (BUILT_IN | registry.FEATURES).get(name)
    if path is None:
        names = ", ".join(sorted({*BUILT_IN, *registry.FEATURES}))
        raise ConfigError(f"model.features={name}: expected module:Class or one of {names}")
    feature_type: type[Feature] = import_class("model.features", path, Feature)
    return feature_type


def complete_features(
    features: Sequence[Mapping[str, Any]], tokenizer: Tokenizer
) -> tuple[dict[str, Any], ...]:
    """Return ``features`` with all their options and the arguments that follow from
    ``tokenizer``.

    Raises ``ConfigError`` for an unknown name or option, an invalid value, and a tokenizer without
    the tokens that the feature reads.
    """
    completed = []
    for feature in features:
        options = dict(feature)
        name = str(options.pop("name"))
        feature_type = feature_class(name)
        names = _option_names(feature_type)
        for option in options:
            if option not in names:
                expected = ", ".join(names) or "none"
                raise ConfigError(f"model.features: {name} has no {option}; options: {expected}")
        options = dataclasses.asdict(feature_type.options(**options))
        completed.append({"name": name, **options, **feature_type.of_tokens(tokenizer)})
    return tuple(completed)


def user_options(features: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the name and options of each of ``features``, without the arguments that
    :func:`complete_features` adds."""
    return [
        {n: f[n] for n in ("name", *_option_names(feature_class(f["name"]))) if n in f}
        for f in features
    ]


def _option_names(feature_type: type[Feature]) -> list[str]:
    return [field.name for field in dataclasses.fields(feature_type.options)]
