"""How the model knows order: each position scheme with its own options, and only those.

A new scheme is a file in ``musictx/attention/positions``, a dataclass here with the import path of
its class, and a file under ``conf/position``. A custom class needs nothing here:
``position.name=my.module:Class``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from musictx.config.checks import Options, one_of, option, require
from musictx.errors import ConfigError

#: The numbers that T5 learns for each head, as in the paper.
BUCKETS = 32
_SHARED = "one table of distances for all heads instead of one for each"
_DISTANCE = "longer distances share one table entry, tokens; default: half the context"


@dataclass
class PositionConfig(Options):
    """What every scheme has: its name, and what is added to the token embeddings."""

    prefix = "position"

    #: ``module:Class`` of the scheme.
    target: ClassVar[str]

    name: str = option("", "the scheme; each has options of its own: position=NAME --help=all")
    concat_sinusoids: int = option(
        0, "channels of sinusoids concatenated to the token embedding; 0 = none"
    )
    periods: list[int] = option(
        [],
        "add a learned embedding of position mod n for each n (training windows then begin at "
        "multiples of n); [4]: the voice of a chorale",
        low=2,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("position.name", self.name, (type(self).name,))
        require(
            self.concat_sinusoids in range(0, 2**15 + 1, 2),
            "position.concat_sinusoids",
            self.concat_sinusoids,
            "an even number from 0: sines and cosines",
        )


@dataclass
class HuangConfig(PositionConfig):
    """Relative global attention (Huang et al. 2018)."""

    target: ClassVar[str] = "musictx.attention.positions.huang:Huang"
    name: str = option("huang", "the scheme")
    max_distance: int | None = option(None, _DISTANCE, low=1, high=2**20)
    shared: bool = option(False, _SHARED)


@dataclass
class HuangLocalConfig(PositionConfig):
    """Relative local attention (Huang et al. 2018, section 3.5)."""

    target: ClassVar[str] = "musictx.attention.positions.huang_local:HuangLocal"
    name: str = option("huang_local", "the scheme")
    block: int | None = option(None, "tokens in a block; default: a quarter of the context", low=1)
    shared: bool = option(False, _SHARED)


@dataclass
class ShawConfig(PositionConfig):
    """Relative positions for keys and values (Shaw et al. 2018)."""

    target: ClassVar[str] = "musictx.attention.positions.shaw:Shaw"
    name: str = option("shaw", "the scheme")
    max_distance: int = option(
        16, "longer distances share one table entry, tokens", low=1, high=2**20
    )
    shared: bool = option(True, "one table of distances for all heads, as in the paper")


@dataclass
class TransformerXLConfig(PositionConfig):
    """Relative positions from sinusoids, with two learned queries (Dai et al. 2019)."""

    target: ClassVar[str] = "musictx.attention.positions.transformer_xl:TransformerXL"
    name: str = option("transformer_xl", "the scheme")
    shared: bool = option(False, "one projection of the sinusoids for all heads")


@dataclass
class T5Config(PositionConfig):
    """A learned number for each head and bucket of distances (Raffel et al. 2020)."""

    target: ClassVar[str] = "musictx.attention.positions.t5:T5"
    name: str = option("t5", "the scheme")
    max_distance: int = option(
        128, "longer distances share the last bucket, tokens", low=BUCKETS, high=2**20
    )


@dataclass
class AlibiConfig(PositionConfig):
    """A fixed slope for each head, nothing learned (Press et al. 2022)."""

    target: ClassVar[str] = "musictx.attention.positions.alibi:ALiBi"
    name: str = option("alibi", "the scheme")


@dataclass
class RotaryConfig(PositionConfig):
    """Queries and keys rotated by their positions (Su et al. 2021)."""

    target: ClassVar[str] = "musictx.attention.positions.rotary:Rotary"
    name: str = option("rotary", "the scheme")


@dataclass
class SinusoidalConfig(PositionConfig):
    """Sinusoids added to the embedding (Vaswani et al. 2017)."""

    target: ClassVar[str] = "musictx.attention.positions.absolute:Sinusoidal"
    name: str = option("sinusoidal", "the scheme")


@dataclass
class LearnedConfig(PositionConfig):
    """A learned vector for each position of the context."""

    target: ClassVar[str] = "musictx.attention.positions.absolute:Learned"
    name: str = option("learned", "the scheme")
    max_distance: int | None = option(
        None, "positions with a vector of their own; default: the context", low=1
    )


@dataclass
class TwoDConfig(HuangConfig):
    """Huang's distances, and in the first layers also time, pitch or voice of the tokens."""

    target: ClassVar[str] = "musictx.attention.positions.two_d:TwoD"
    name: str = option("two_d", "the scheme")
    first_layers: int = option(
        1, "layers, counted from the first, that also use the further axes", low=1
    )
    max_time: int = option(
        512, "longer differences of time share one table entry, time steps", low=1
    )


@dataclass
class NoPositionConfig(PositionConfig):
    """No positions: the causal mask alone distinguishes before from after."""

    target: ClassVar[str] = "musictx.attention.positions.absolute:Plain"
    name: str = option("none", "the scheme")


#: The schemes by their names.
SCHEMES: dict[str, type[PositionConfig]] = {
    scheme.name: scheme
    for scheme in (
        *(HuangConfig, HuangLocalConfig, ShawConfig, TransformerXLConfig, T5Config, AlibiConfig),
        *(RotaryConfig, SinusoidalConfig, LearnedConfig, TwoDConfig, NoPositionConfig),
    )
}


def checked(position: PositionConfig | Mapping[str, Any]) -> PositionConfig | dict[str, Any]:
    """The options of a scheme by name: its dataclass, or a dict for a custom class.

    Such a class is named by ``name: module:Class`` or, as Hydra does, ``_target_: module.Class``;
    the other entries are its arguments and are not looked at. Raises :class:`ConfigError` for an
    unknown name and for an option that the scheme does not have.
    """
    if isinstance(position, PositionConfig):
        return position
    options = dict(position)
    target = options.pop("_target_", None)
    if isinstance(target, str):
        options["name"] = target if ":" in target else ":".join(target.rsplit(".", 1))
    name = options.setdefault("name", "huang")
    if ":" in str(name):
        return options
    one_of("position.name", name, (*SCHEMES, "or module:Class"))
    kind = SCHEMES[name]
    names = [f.name for f in dataclasses.fields(kind)]
    for key in options:
        if key not in names:
            raise ConfigError(
                f"position.{key}: no option of position={name}, which has {', '.join(names)}"
            )
    return kind(**options)


def plain(position: PositionConfig | Mapping[str, Any]) -> dict[str, Any]:
    """The options as a dict of plain values."""
    return dataclasses.asdict(position) if dataclasses.is_dataclass(position) else dict(position)
