"""The options of the optimizer and its learning-rate schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from musictx.config.checks import Options, option, require

#: The built-in optimizers.
OPTIMIZERS = ("adamw", "muon")


@dataclass
class OptimConfig(Options, prefix="optim"):
    """The optimizer and its learning-rate schedule."""

    name: str = option(
        "adamw",
        "adamw, muon (for the hidden matrices, adamw for the rest), or a class of your own: "
        "optim._target_=package.module.Class",
    )
    lr: float | None = option(
        None,
        "highest learning rate; default: 1e-3 * sqrt(512 / width), a fifth of it with init=",
        above=0,
        below=10,
    )
    adamw_lr: float = option(
        1.0,
        "muon: multiplier of lr for what AdamW trains (all but the hidden matrices)",
        above=0,
        high=10,
    )
    table_lr: float = option(
        1.0,
        "further multiplier of lr for the tables of relative positions and intervals",
        above=0,
        high=10,
    )
    betas: list[float] = option([0.9, 0.98], "AdamW's two decay rates", low=0, below=1)
    weight_decay: float = option(0.01, "on matrices; never on biases, norms and embeddings", low=0)
    schedule: str = option(
        "cosine",
        "cosine (to zero), rsqrt (inverse square root) or constant",
        choices=("cosine", "rsqrt", "constant"),
    )
    warmup: int = option(100, "steps of linear rise at the start", low=0)
    params: dict[str, Any] = option(
        {}, "arguments of a class of your own, each written optim.NAME=VALUE"
    )
    ema: float = option(
        0.0,
        "decay of the exponential moving average of the weights, which then is the model; 0 = none",
        low=0,
        below=1,
    )

    def check(self) -> None:
        if ":" not in self.name:
            expected = f"one of {', '.join(OPTIMIZERS)}, or module:Class"
            self.require("name", self.name in OPTIMIZERS, expected)
            expected = "an optimizer of your own with it, optim._target_=package.module.Class"
            for name, value in self.params.items():
                require(False, f"optim.{name}", value, expected)
        self.require("betas", len(self.betas) == 2, "two numbers such as [0.9,0.98]")
