"""The options of Lightning's Trainer. Some are declared here; other flags are passed on with
Lightning's names and meanings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from musictx.config.checks import CheckedOptions, option, require

PRECISIONS = (
    "auto", "fast", "32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true",
    "32", "bf16", "16", "64",
)  # fmt: skip
STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true")
TIMES = "days, hours, minutes and seconds as DD:HH:MM:SS, such as 00:01:30:00"
#: Flags of Lightning's Trainer that are passed on -> their defaults here.
LIGHTNING_FLAGS: dict[str, Any] = {
    "benchmark": None,
    "detect_anomaly": False,
    "deterministic": None,
    "enable_autolog_hparams": True,
    "enable_model_summary": False,
    "enable_progress_bar": True,
    "gradient_clip_algorithm": "norm",
    "gradient_clip_val": 1.0,
    "limit_predict_batches": None,
    "limit_test_batches": None,
    "limit_train_batches": None,
    "limit_val_batches": None,
    "log_every_n_steps": 10,
    "max_epochs": -1,
    "min_steps": None,
    "model_registry": None,
    "num_nodes": 1,
    "num_sanity_val_steps": 0,
    "overfit_batches": 0,
    "profiler": None,
    "reload_dataloaders_every_n_epochs": 0,
    "sync_batchnorm": False,
}


@dataclass
class TrainerConfig(CheckedOptions, prefix="trainer"):
    """Options of Lightning's Trainer: how long to train, where, and how often to validate."""

    max_steps: int = option(
        3000, "number of optimizer steps of the whole run; -1 = until it is stopped", low=-1
    )
    max_time: str | None = option(
        None,
        "train for this time, DD:HH:MM:SS, instead of max_steps; the schedule of the learning rate "
        "follows the clock; the validation at the end takes extra time",
        pattern=(r"[0-9]{1,4}(:[0-9]{2}){3}", TIMES),
    )
    accelerator: str = option("auto", "auto, cpu, gpu, mps, ... by Lightning's names")
    devices: str = option("auto", "number of devices (GPUs) on each node, or auto")
    strategy: str = option(
        "auto", "how devices divide the work: " + ", ".join(STRATEGIES), choices=STRATEGIES
    )
    precision: str = option(
        "auto",
        "32-true, bf16-mixed, 16-mixed, ...; auto = bf16-mixed on GPUs that support it; fast = "
        "also on CPUs that support it",
        choices=PRECISIONS,
    )
    val_check_interval: int = option(
        250, "number of batches between validations (each with checkpoints and a sample)", low=1
    )
    accumulate_grad_batches: int = option(
        1, "number of batches whose gradients are added up for one optimizer step", low=1
    )
    fast_dev_run: bool | int = option(
        False, "test one batch (or this many) of training and validation, no run folder", low=0
    )
    flags: dict[str, Any] = option(
        LIGHTNING_FLAGS, "other flags of Lightning's Trainer, each written trainer.NAME=VALUE"
    )

    def check(self) -> None:
        self.flags = LIGHTNING_FLAGS | self.flags
        self.require("max_steps", self.max_steps != 0, "at least 1, or -1 for no end")
        epochs, limit = self.flags["max_epochs"], self.flags["limit_train_batches"]
        epochs_end = limit is not None or self.flags["overfit_batches"] or self.fast_dev_run
        expected = "trainer.limit_train_batches with it, since epochs have no end"
        require(epochs == -1 or bool(epochs_end), "trainer.max_epochs", epochs, expected)
        is_count = limit is None or (type(limit) is int and limit >= 1)
        expected = "a whole number of batches, at least 1, since epochs have no end"
        require(is_count, "trainer.limit_train_batches", limit, expected)
        self.require("max_time", self.seconds != 0, TIMES)
        # Lightning sees the end of an epoch only after the hooks of its last step.
        factors = (epochs, self.flags["overfit_batches"] or limit)
        are_counts = all(type(factor) is int and factor > 0 for factor in factors)
        if are_counts and self.seconds is None and not self.fast_dev_run:
            steps = math.prod(factors) // self.accumulate_grad_batches
            self.max_steps = steps if self.max_steps < 0 else min(self.max_steps, steps)
            self.flags["max_epochs"] = -1
        clip = self.flags["gradient_clip_val"]
        is_negative = isinstance(clip, int | float) and clip < 0
        require(not is_negative, "trainer.gradient_clip_val", clip, "at least 0, or null")
        # Checkpoints are written between optimizer steps, so these must be whole numbers of steps.
        counts = {"val_check_interval": self.val_check_interval, "limit_train_batches": limit or 0}
        counts["overfit_batches"] = self.flags["overfit_batches"]
        step = self.accumulate_grad_batches
        for name, count in counts.items():
            is_multiple = type(count) in (int, float) and count % step == 0
            expected = f"a multiple of trainer.accumulate_grad_batches={step}"
            require(is_multiple, f"trainer.{name}", count, expected)

    @property
    def seconds(self) -> float | None:
        """``max_time`` in seconds; ``None`` if ``max_steps`` limits the run."""
        if self.max_time is None:
            return None
        days, hours, minutes, seconds = map(int, self.max_time.split(":"))
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
