"""The options of each position scheme: how attention takes the order of tokens into account.

A new scheme needs a class in ``musictx/attention/positions``, a dataclass here that names it, and a
file in ``conf/position``. A class of the user's own, ``position.name=my.module:Class``, needs
neither.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from musictx.config.checks import CheckedOptions, option, require

#: The number of buckets of distances in T5, as in the paper.
BUCKETS = 32
#: Name of a scheme -> the dataclass of its options.
SCHEMES: dict[str, type[PositionConfig]] = {}
_SHARED = "one table of distances for all heads instead of one for each"
_DISTANCE = "distances of this many tokens or more share one table entry; default: half the context"


@dataclass
class PositionConfig(CheckedOptions, prefix="position"):
    """The options of every scheme: its name, and further encodings in the token embeddings."""

    #: ``module:Class`` that implements the scheme.
    target: ClassVar[str] = ""

    name: str = option("", "name of the scheme; position=NAME --help=all lists its options")
    concat_sinusoids: int = option(
        0, "number of sinusoidal channels to concatenate to the token embedding; 0 = none"
    )
    periods: list[int] = option(
        [],
        "add a learned embedding of position modulo n for each n in this list (training windows "
        "then begin at multiples of n); [4]: the voice of a chorale",
        low=2,
    )

    def __init_subclass__(cls, scheme: str, target: str) -> None:
        """Register ``cls`` in :data:`SCHEMES` as the options of ``scheme``. ``target`` is the
        class that implements it, as ``module:Class`` in ``musictx.attention.positions``."""
        cls.__annotations__["name"] = "str"
        cls.name = option(scheme, "name of the scheme")
        cls.target = f"musictx.attention.positions.{target}"
        SCHEMES[scheme] = cls

    def check(self) -> None:
        is_even = self.concat_sinusoids in range(0, 2**15 + 1, 2)
        self.require("concat_sinusoids", is_even, "an even number from 0: sines and cosines")


@dataclass
class HuangConfig(PositionConfig, scheme="huang", target="huang:Huang"):
    """Relative global attention (Huang et al. 2018)."""

    max_distance: int | None = option(None, _DISTANCE, low=1, high=2**20)
    shared: bool = option(False, _SHARED)


@dataclass
class HuangLocalConfig(PositionConfig, scheme="huang_local", target="huang:HuangLocal"):
    """Relative local attention (Huang et al. 2018, section 3.5)."""

    block: int | None = option(None, "tokens in a block; default: a quarter of the context", low=1)
    shared: bool = option(False, _SHARED)


@dataclass
class ShawConfig(PositionConfig, scheme="shaw", target="shaw:Shaw"):
    """Relative positions for keys and values (Shaw et al. 2018)."""

    max_distance: int = option(
        16, "distances of this many tokens or more share one table entry", low=1, high=2**20
    )
    shared: bool = option(True, "one table of distances for all heads, as in the paper")


@dataclass
class TransformerXLConfig(
    PositionConfig, scheme="transformer_xl", target="transformer_xl:TransformerXL"
):
    """Relative positions from sinusoids, with two learned queries (Dai et al. 2019)."""

    shared: bool = option(False, "one projection of the sinusoids for all heads")


@dataclass
class T5Config(PositionConfig, scheme="t5", target="t5:T5"):
    """A learned number for each head and bucket of distances (Raffel et al. 2020)."""

    max_distance: int = option(
        128, "distances of this many tokens or more share a bucket", low=BUCKETS, high=2**20
    )


@dataclass
class AlibiConfig(PositionConfig, scheme="alibi", target="alibi:ALiBi"):
    """A fixed slope for each head, nothing learned (Press et al. 2022)."""


@dataclass
class RotaryConfig(PositionConfig, scheme="rotary", target="rotary:Rotary"):
    """Queries and keys rotated by their positions (Su et al. 2021)."""


@dataclass
class SinusoidalConfig(PositionConfig, scheme="sinusoidal", target="absolute:Sinusoidal"):
    """Sinusoids added to the embedding (Vaswani et al. 2017)."""


@dataclass
class LearnedConfig(PositionConfig, scheme="learned", target="absolute:Learned"):
    """A learned vector for each position of the context."""

    max_distance: int | None = option(
        None, "number of positions with a vector of their own; default: the context", low=1
    )


@dataclass
class TwoDConfig(HuangConfig, scheme="two_d", target="two_d:TwoD"):
    """Distances as in Huang et al.; in the first layers also differences of time, pitch, voice."""

    first_layers: int = option(
        1, "number of layers, from the first, that also use time, pitch or voice", low=1
    )
    max_time: int = option(
        512, "time differences of this many steps or more share one table entry", low=1
    )


@dataclass
class NoPositionConfig(PositionConfig, scheme="none", target="absolute:Plain"):
    """No positions: only the causal mask shows the order."""


def checked(position: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options of a scheme and return all of them. The default of ``name`` is huang.

    For a custom class, ``name: module:Class`` or Hydra's ``_target_: module.Class``,
    only the options of every scheme are checked; other entries are arguments of the class.
    """
    options = dict(position)
    target = options.pop("_target_", None)
    if isinstance(target, str):
        options["name"] = target if ":" in target else ":".join(target.rsplit(".", 1))
    name = options.setdefault("name", "huang")
    if ":" in str(name):
        common = PositionConfig.__dataclass_fields__.keys() & options.keys()
        PositionConfig(**{key: options[key] for key in common})
        return options
    expected = f"one of {', '.join(SCHEMES)}, or module:Class"
    require(isinstance(name, str) and name in SCHEMES, "position.name", name, expected)
    return dataclasses.asdict(SCHEMES[name](**options))
