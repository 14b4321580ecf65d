"""The options of Lightning's Trainer: some declared here, and flags that are passed on under
Lightning's names and with Lightning's meanings."""

from __future__ import annotations

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
PASSED_ON: dict[str, Any] = {
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
#: Flags of Lightning's Trainer that do not work here -> the reason, or what to use instead.
NOT_OFFERED = {
    "barebones": "it turns off checkpoints and logs; callbacks=none logger=none does",
    "callbacks": "callbacks are a group: callbacks=none, callbacks.mine._target_=my_module.Mine",
    "check_val_every_n_epoch": "epochs have no end; trainer.val_check_interval counts batches",
    "default_root_dir": "the run folder is named by out=",
    "enable_checkpointing": "checkpoints are callbacks: callbacks=none, callbacks.last=null",
    "inference_mode": "tensors made in validation are met again in training, so it is off",
    "logger": "loggers are a group: logger=none, logger=tensorboard",
    "min_epochs": "epochs have no end; trainer.min_steps counts steps",
    "plugins": "checkpoints are written by a plugin of musictx's own",
    "use_distributed_sampler": "the data module shares the windows among processes",
}


@dataclass
class TrainerConfig(CheckedOptions, prefix="trainer"):
    """Flags of Lightning's Trainer: how long to train, on which devices, how often to validate."""

    max_steps: int = option(
        3000, "optimizer steps of the whole run, in place of epochs; -1 = without end", low=-1
    )
    max_time: str | None = option(
        None,
        "train for this long instead, as DD:HH:MM:SS; the learning rate schedule follows the "
        "clock; the validation at the end comes on top",
        pattern=(r"[0-9]{1,4}(:[0-9]{2}){3}", TIMES),
    )
    accelerator: str = option("auto", "auto, cpu, gpu, mps, ... as Lightning names them")
    devices: str = option("auto", "number of devices (GPUs) on each node, or auto")
    strategy: str = option(
        "auto", "how devices share the work: " + ", ".join(STRATEGIES), choices=STRATEGIES
    )
    precision: str = option(
        "auto",
        "32-true, bf16-mixed, 16-mixed, ...; auto = bf16-mixed on GPUs that have it; fast = also "
        "on CPUs that have it",
        choices=PRECISIONS,
    )
    val_check_interval: int = option(
        250, "batches between validations (each with checkpoints and a sample)", low=1
    )
    accumulate_grad_batches: int = option(
        1, "batches whose gradients are added up for one step", low=1
    )
    fast_dev_run: bool | int = option(
        False, "one batch (or this many) of training and validation, without a run folder", low=0
    )
    flags: dict[str, Any] = option(
        PASSED_ON, "other flags of Lightning's Trainer, each written trainer.NAME=VALUE"
    )

    def check(self) -> None:
        for name, value in self.flags.items():
            require(name in PASSED_ON, f"trainer.{name}", value, "one of " + ", ".join(PASSED_ON))
        self.flags = PASSED_ON | self.flags
        self.require("max_steps", self.max_steps != 0, "at least 1, or -1 for no end")
        epochs, limit = self.flags["max_epochs"], self.flags["limit_train_batches"]
        epochs_end = limit is not None or self.flags["overfit_batches"] or self.fast_dev_run
        expected = "trainer.limit_train_batches with it, since epochs have no end"
        require(epochs == -1 or bool(epochs_end), "trainer.max_epochs", epochs, expected)
        self.require("max_time", self.seconds != 0, TIMES)
        clip = self.flags["gradient_clip_val"]
        is_bound = clip is None or (type(clip) in (int, float) and clip >= 0)
        expected = "a number of at least 0, or null for no bound"
        require(is_bound, "trainer.gradient_clip_val", clip, expected)
        # A checkpoint is written between two optimizer steps, so these must be whole steps.
        numbers = {"val_check_interval": self.val_check_interval, "limit_train_batches": limit or 0}
        numbers["overfit_batches"] = self.flags["overfit_batches"]
        batches = self.accumulate_grad_batches
        for name, number in numbers.items():
            is_multiple = type(number) in (int, float) and number % batches == 0
            expected = f"multiples of trainer.accumulate_grad_batches={batches}"
            require(is_multiple, f"trainer.{name}", number, expected)

    @property
    def seconds(self) -> float | None:
        """``max_time`` in seconds; None if the number of steps limits the run."""
        if self.max_time is None:
            return None
        days, hours, minutes, seconds = map(int, self.max_time.split(":"))
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
