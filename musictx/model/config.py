"""The configuration of a network: all that is needed to build it, except its weights.

``config.json`` of a model folder contains it, except for what follows from the tokenizer
(:mod:`musictx.bundle`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any

from musictx.attention import positions as schemes
from musictx.attention.api import IMPLEMENTATIONS
from musictx.attention.positions.coordinates import token_coordinates
from musictx.model.features import complete_features, user_options
from musictx.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class NetworkConfig:
    """The shape of a :class:`~musictx.model.transformer.MusicTransformer`.

    vocab_size   number of token ids
    layers, width, heads, feedforward   ``width`` is an even multiple of ``heads``
    context      length of a training window in tokens; longer inputs work, but are not trained
    dropout      on embeddings, attention weights and each residual branch
    tied         use the token embedding as output matrix, too
    position     a scheme and its options, such as {"name": "huang", "max_distance": 512}
                 (``musictx/config/position.py``); ``coordinates`` define the time, pitch and voice
                 of tokens
    attention    implementation of attention, by name (see ``attention/api.py``)
    gates        multiply the output of each head by a number computed from the token
    first_values let every layer mix in the values of layer 0
    group        number of ids that the layers take as one step (:mod:`musictx.songs.grouped`)
    features     inputs computed from the ids so far, in the order in which they are added, each
                 {"name": NAME, **arguments of its class} (``model/features``)

    Options of the position scheme that are left out get their defaults, which depend on
    ``context``. Raises ``ValueError`` or ``ConfigError`` for invalid values.
    """

    vocab_size: int
    _: KW_ONLY
    layers: int
    width: int
    heads: int
    feedforward: int
    context: int
    dropout: float = 0.0
    tied: bool = True
    position: dict[str, Any] = field(default_factory=lambda: {"name": "huang"})
    attention: str = "auto"
    gates: bool = False
    first_values: bool = False
    group: int = 1
    features: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.heads <= self.width or self.width % self.heads or self.head_dim % 2:
            raise ValueError(
                f"MusicTransformer: heads={self.heads}, expected a divisor of width={self.width} "
                "that leaves an even size for each head"
            )
        if self.attention not in IMPLEMENTATIONS:
            raise ValueError(
                f"MusicTransformer: attention={self.attention}, expected one of "
                + ", ".join(IMPLEMENTATIONS)
            )
        scheme = schemes.complete(self.position or {}, context=self.steps, width=self.width)
        object.__setattr__(self, "position", scheme)  # the dataclass is frozen
        object.__setattr__(self, "features", tuple(map(dict, self.features)))

    @property
    def head_dim(self) -> int:
        """Channels of a head."""
        return self.width // self.heads

    @property
    def steps(self) -> int:
        """Length of a training window in steps of the layers."""
        return max(self.context // self.group, 1)

    def plain(self) -> dict[str, Any]:
        """Return the configuration as numbers, strings, lists and dicts, without fields that are
        not in use. ``MusicTransformer(**config.plain())`` is an equal network."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["position"] = dict(self.position)
        values["features"] = [dict(feature) for feature in self.features]
        unused = {"gates": False, "first_values": False, "features": [], "group": 1}
        return {n: value for n, value in values.items() if n not in unused or value != unused[n]}

    def user_options(self) -> dict[str, Any]:
        """Return :meth:`plain` without what :func:`complete_arguments` adds."""
        values = self.plain()
        if values["position"]["name"] == "two_d":
            values["position"].pop("coordinates", None)
        if "features" in values:
            values["features"] = user_options(values["features"])
        return values

    def feature(self, name: str) -> dict[str, Any] | None:
        """Return the name and arguments of a feature; ``None``: the network does not have it."""
        return next((feature for feature in self.features if feature["name"] == name), None)


def alignment(config: NetworkConfig, tokenizer: Tokenizer) -> int:
    """Return the number of tokens at multiples of which windows of a piece begin, in training as in
    evaluation: a multiple of ``tokenizer.align`` and of the periods of ``position``."""
    # The periods count steps of the layers.
    periods = (config.group * period for period in config.position.get("periods", ()))
    return math.lcm(tokenizer.align, *periods)


def complete_arguments(arguments: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the ``arguments`` of a network, plus what follows from the tokenizer: the coordinates
    of ``two_d`` and the arguments of features.

    Raises ``ConfigError`` for options that a feature does not have, and for a tokenizer without the
    tokens that the position scheme or a feature reads.
    """
    values = dict(arguments)
    if values["position"].get("name") == "two_d":
        coordinates = token_coordinates(tokenizer)
        values["position"] = {**values["position"], "coordinates": coordinates}
    values["features"] = complete_features(values.get("features", ()), tokenizer)
    return values
