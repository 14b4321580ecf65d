"""What a network is, as values: all that is needed to build it, but for its weights.

``config.json`` of a model folder holds them (:mod:`musictx.bundle`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class FeatureConfig:
    """One of the features: its name or import path, and the arguments of its class."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> FeatureConfig:
        """From plain values, ``{"name": NAME, **arguments}``."""
        arguments = dict(values)
        return cls(arguments.pop("name"), arguments)

    def plain(self) -> dict[str, Any]:
        return {"name": self.name, **self.arguments}


@dataclass(frozen=True)
class SchemeConfig:
    """The position scheme: its name or import path, and the options of its class.

    concat_sinusoids, periods   what the embeddings get from positions, whatever the scheme
    coordinates                 where tokens stand in time, pitch and voice
                                (:mod:`musictx.tokens.coordinates`); ``None`` where nothing asks
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    concat_sinusoids: int = 0
    periods: tuple[int, ...] = ()
    coordinates: dict[str, Any] | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> SchemeConfig:
        """From plain values, ``{"name": NAME, **options}``."""
        options = dict(values)
        return cls(
            name=options.pop("name"),
            concat_sinusoids=options.pop("concat_sinusoids", None) or 0,
            periods=tuple(options.pop("periods", None) or ()),
            coordinates=options.pop("coordinates", None),
            options=options,
        )

    def plain(self) -> dict[str, Any]:
        values: dict[str, Any] = {"name": self.name, **self.options}
        if self.concat_sinusoids:
            values["concat_sinusoids"] = self.concat_sinusoids
        if self.periods:
            values["periods"] = list(self.periods)
        if self.coordinates is not None:
            values["coordinates"] = self.coordinates
        return values


@dataclass(frozen=True)
class NetworkConfig:
    """The arguments of :class:`~musictx.model.transformer.MusicTransformer`, complete."""

    vocab_size: int
    layers: int
    width: int
    heads: int
    feedforward: int
    context: int
    dropout: float
    tied: bool
    position: SchemeConfig
    attention: str
    gates: bool = False
    first_values: bool = False
    group: int = 1
    features: tuple[FeatureConfig, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As numbers, text, lists and dicts: ``MusicTransformer(**config.plain())`` is an equal
        network. What is not used is left out."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["position"] = self.position.plain()
        values["features"] = [feature.plain() for feature in self.features]
        unused = ("gates", "first_values", "features")
        kept = {name: value for name, value in values.items() if value or name not in unused}
        return {name: value for name, value in kept.items() if (name, value) != ("group", 1)}

    def feature(self, name: str) -> FeatureConfig | None:
        """The feature of this name, ``None`` if the network has none."""
        return next((one for one in self.features if one.name == name), None)
