"""How the model knows order."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import at_least, one_of, option, require

POSITIONS = (
    "huang",
    "huang_local",
    "shaw",
    "transformer_xl",
    "t5",
    "alibi",
    "rotary",
    "sinusoidal",
    "learned",
    "two_d",
    "none",
)
AXES = ("time", "pitch", "voice")


@dataclass
class PositionConfig:
    """How the model knows order: a scheme of musictx/attention/positions."""

    name: str = option("huang", "scheme: " + ", ".join(POSITIONS))
    max_distance: int | None = option(
        None,
        "distances beyond it share one embedding, tokens; default: half the context (shaw 16, "
        "t5 128); learned: positions with a row, default: the context",
    )
    shared: bool = option(False, "one table of distances for all heads instead of one each")
    block: int | None = option(
        None, "huang_local: tokens in a block; default: a quarter of the context"
    )
    buckets: int | None = option(None, "t5: entries for all distances; default 32")
    features: int | None = option(
        None, "transformer_xl: sinusoids (sines and cosines); default: the model's width"
    )
    first_layers: int | None = option(
        None, "two_d: how many layers also measure the further axes; default 1"
    )
    axes: list[str] | None = option(
        None, "two_d: further axes, some of time, pitch, voice; default: all that the tokens have"
    )
    cycles: list[int] = option(
        [], "any scheme: add a learned vector for place mod n, for each n; 4: the chorale's voice"
    )
    sinusoids: int = option(
        0, "any scheme: sinusoids of the place set beside the embedding, channels; 0 = none"
    )
    max_time: int | None = option(
        None, "two_d: distances in time with an entry of their own, time steps; default 512"
    )

    def __post_init__(self) -> None:
        one_of("position.name", self.name, POSITIONS)
        at_least("position.max_distance", self.max_distance, 1)
        for name, (scheme, low) in {
            "block": ("huang_local", 1),
            "buckets": ("t5", 2),
            "features": ("transformer_xl", 2),
            "first_layers": ("two_d", 1),
            "max_time": ("two_d", 1),
        }.items():
            value = getattr(self, name)
            at_least(f"position.{name}", value, low)
            require(
                value is None or self.name == scheme,
                f"position.{name}",
                value,
                f"position={scheme} with it, not position={self.name}",
            )
        require(
            self.axes is None or self.name == "two_d",
            "position.axes",
            self.axes,
            f"position=two_d with it, not position={self.name}",
        )
        require(
            self.axes is None or (bool(self.axes) and set(self.axes) <= set(AXES)),
            "position.axes",
            self.axes,
            "one or more of " + ", ".join(AXES) + ", such as [pitch]",
        )
        require(
            self.features is None or self.features % 2 == 0,
            "position.features",
            self.features,
            "an even number: sines and cosines",
        )
