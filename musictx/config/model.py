"""The options of the network: its size and its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from musictx import registry
from musictx.config.checks import Options, option

#: Implementations of attention: those of the core, then those of optional components.
IMPLEMENTATIONS = ("auto", "reference", "skew", "sdpa", *registry.ATTENTION)


@dataclass
class ModelConfig(Options, prefix="model"):
    """The size and the parts of the network. ``conf/model`` has presets.

    The bounds are far above any useful size, and low enough that a typing error does not fill the
    memory.
    """

    layers: int = option(6, "number of transformer blocks", low=1, high=1000)
    width: int = option(256, "channels of the residual stream", low=1, high=2**15)
    heads: int = option(4, "attention heads; they divide the width", low=1, high=2**12)
    feedforward: int = option(1024, "hidden channels of the feed-forward layers", low=1, high=2**18)
    context: int = option(1024, "length of a training window, tokens", low=8, high=2**20)
    dropout: float | None = option(
        None, "on embeddings, attention, branches; default: 0.1, or as of init", low=0, below=1
    )
    attention: str = option(
        "auto",
        "implementation of attention; auto = the fastest that can: " + ", ".join(IMPLEMENTATIONS),
        choices=IMPLEMENTATIONS,
    )
    gates: bool = option(
        False, "multiply the output of each attention head by a gate computed from the token"
    )
    first_values: bool = option(
        False, "let each layer mix the attention values of the first layer into its own"
    )
    features: list[Any] = option(
        [],
        "further inputs of the network, computed from the ids so far, each a name or a name with "
        "options, such as [{name: sounding, recent: 8}, conditions]",
    )

    def check(self) -> None:
        expected = f"a divisor of model.width={self.width} that leaves an even size for each head"
        self.require("heads", self.width % (2 * self.heads) == 0, expected)
        self.features = [{"name": f} if isinstance(f, str) else f for f in self.features]
        names = [f.get("name") if isinstance(f, dict) else None for f in self.features]
        are_unique = all(isinstance(n, str) and n for n in names) and len({*names}) == len(names)
        expected = "different names, each alone or with its options: [{name: sounding, recent: 8}]"
        self.require("features", are_unique, expected)
