"""The optimizer and its learning rate."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import at_least, one_of, option, probability, require


@dataclass
class OptimConfig:
    """The optimizer and the course of its learning rate."""

    name: str = option("adamw", "adamw, or muon (for the hidden matrices, adamw for the rest)")
    lr: float | None = option(
        None, "highest learning rate; default: 1e-3 * sqrt(512 / width), a fifth of it with init="
    )
    adamw_lr: float = option(
        1.0, "muon: multiplier of lr for what AdamW trains (all but the hidden matrices)"
    )
    table_lr: float = option(
        1.0, "further multiplier of lr for the tables of relative positions and intervals"
    )
    betas: list[float] = option([0.9, 0.98], "AdamW's two decay rates")
    weight_decay: float = option(0.01, "on matrices; never on biases, norms and embeddings")
    schedule: str = option("cosine", "cosine (to min_lr), rsqrt (inverse square root) or constant")
    warmup: int = option(100, "steps of linear rise at the start")
    min_lr: float = option(0.0, "cosine: the last learning rate, as a share of lr")
    ema: float = option(
        0.0,
        "decay of the exponential moving average of the weights, which then is the model; 0 = none",
    )

    def __post_init__(self) -> None:
        one_of("optim.name", self.name, ("adamw", "muon"))
        if self.lr is not None:
            require(0 < self.lr < 10, "optim.lr", self.lr, "a positive number below 10")
        require(
            len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas),
            "optim.betas",
            self.betas,
            "two numbers from 0 up to 1, such as [0.9,0.98]",
        )
        for name in ("adamw_lr", "table_lr"):
            share = getattr(self, name)
            require(0 < share <= 10, f"optim.{name}", share, "a multiplier above 0, at most 10")
        at_least("optim.weight_decay", self.weight_decay, 0)
        one_of("optim.schedule", self.schedule, ("cosine", "rsqrt", "constant"))
        at_least("optim.warmup", self.warmup, 0)
        require(0 <= self.min_lr <= 1, "optim.min_lr", self.min_lr, "a share from 0 to 1")
        probability("optim.ema", self.ema)
