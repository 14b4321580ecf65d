"""The flags of Lightning's Trainer, under Lightning's names and with Lightning's meanings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from musictx.config.checks import MOST, at_least, one_of, option, require

PRECISIONS = (
    "auto", "32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true",
    "32", "bf16", "16", "64",
)  # fmt: skip
STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true")


@dataclass
class TrainerConfig:
    """Flags of Lightning's Trainer: how long to train, on which devices, how often to validate."""

    max_steps: int = option(2000, "optimizer steps of the whole run; -1 = without end")
    max_time: str | None = option(
        None,
        "train for this time instead, as DD:HH:MM:SS; the learning rate follows the clock",
    )
    max_epochs: int = option(-1, "most epochs; only limit_train_batches gives epochs an end")
    accelerator: str = option("auto", "auto, cpu, gpu, mps, ... as Lightning names them")
    devices: str = option("auto", "number of devices on each node, or auto")
    num_nodes: int = option(1, "number of machines")
    strategy: str = option("auto", "how devices share the work: " + ", ".join(STRATEGIES))
    precision: str = option(
        "auto", "32-true, bf16-mixed, 16-mixed, ...; auto = bf16-mixed on GPUs that have it"
    )
    val_check_interval: int = option(
        200, "batches between validations (each with checkpoints and a sample)"
    )
    log_every_n_steps: int = option(10, "optimizer steps between two rows of the log")
    accumulate_grad_batches: int = option(1, "batches whose gradients are added up for one step")
    gradient_clip_val: float | None = option(1.0, "largest norm of the gradient; null = any")
    gradient_clip_algorithm: str = option("norm", "norm (of all gradients) or value (of each)")
    limit_train_batches: int | None = option(
        None, "batches in an epoch; an epoch has no end without it"
    )
    limit_val_batches: int | float | None = option(
        None, "validation batches used: a number, or a share of them; 0 = no validation"
    )
    overfit_batches: int = option(0, "train on the same batches again and again: so many of them")
    fast_dev_run: bool | int = option(
        False, "one batch (or so many) of training and validation, nothing is written"
    )
    num_sanity_val_steps: int = option(0, "validation batches tried before training; -1 = all")
    deterministic: bool = option(False, "use deterministic algorithms only")
    benchmark: bool | None = option(None, "let cuDNN choose its algorithms by measuring")
    detect_anomaly: bool = option(False, "find the operation that made a gradient NaN; slow")
    profiler: str | None = option(None, "simple, advanced or pytorch: where the time goes")
    enable_progress_bar: bool = option(True, "show progress")
    enable_model_summary: bool = option(False, "print Lightning's table of layers")

    def __post_init__(self) -> None:
        require(
            1 <= self.max_steps <= MOST or self.max_steps == -1,
            "trainer.max_steps",
            self.max_steps,
            "a whole number from 1 to 1,000,000,000, or -1 for no end",
        )
        if self.max_time is not None:
            require(
                bool(re.fullmatch(r"\d+:\d\d:\d\d:\d\d", self.max_time)) and self.seconds != 0,
                "trainer.max_time",
                self.max_time,
                "days, hours, minutes and seconds as DD:HH:MM:SS, such as 00:01:30:00",
            )
        at_least("trainer.max_epochs", self.max_epochs, -1)
        at_least("trainer.num_nodes", self.num_nodes, 1)
        require(
            self.strategy in STRATEGIES,
            "trainer.strategy",
            self.strategy,
            f"one of {', '.join(STRATEGIES)} (sharded weights are not offered: gradient norms, "
            "averaged weights and checkpoints here are of whole parameters)",
        )
        one_of("trainer.precision", self.precision, PRECISIONS)
        one_of("trainer.gradient_clip_algorithm", self.gradient_clip_algorithm, ("norm", "value"))
        at_least("trainer.log_every_n_steps", self.log_every_n_steps, 1)
        at_least("trainer.accumulate_grad_batches", self.accumulate_grad_batches, 1)
        require(
            1 <= self.val_check_interval <= MOST
            and self.val_check_interval % self.accumulate_grad_batches == 0,
            "trainer.val_check_interval",
            self.val_check_interval,
            "a number of batches that is a multiple of trainer.accumulate_grad_batches="
            f"{self.accumulate_grad_batches}",
        )
        at_least("trainer.gradient_clip_val", self.gradient_clip_val, 0)
        for name in ("limit_train_batches", "limit_val_batches", "overfit_batches", "fast_dev_run"):
            at_least(f"trainer.{name}", getattr(self, name), 0)
        at_least("trainer.num_sanity_val_steps", self.num_sanity_val_steps, -1)
        if self.profiler is not None:
            one_of("trainer.profiler", self.profiler, ("simple", "advanced", "pytorch"))

    @property
    def seconds(self) -> float | None:
        """``max_time`` in seconds; None where the steps count."""
        if self.max_time is None:
            return None
        days, hours, minutes, seconds = map(int, self.max_time.split(":"))
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
