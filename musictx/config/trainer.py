"""The flags of Lightning's Trainer, under Lightning's names and with Lightning's meanings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from musictx.config.checks import check, option, require

PRECISIONS = (
    "auto", "fast", "32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true",
    "32", "bf16", "16", "64",
)  # fmt: skip
STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true")
#: Flags of Lightning's that are not offered, and why.
NOT_OFFERED = {
    "barebones": "it turns off checkpoints and logs; callbacks=none logger=none does",
    "callbacks": "callbacks are a group: callbacks=none, callbacks.mine._target_=my_module.Mine",
    "check_val_every_n_epoch": "epochs have no end; trainer.val_check_interval counts batches",
    "default_root_dir": "the run folder is named by out=",
    "enable_autolog_hparams": "run.yaml and the checkpoints hold all options",
    "enable_checkpointing": "checkpoints are callbacks: callbacks=none, callbacks.last=null",
    "inference_mode": "tensors made in validation are met again in training, so it is off",
    "limit_predict_batches": "train predicts nothing",
    "limit_test_batches": "train tests nothing; musictx evaluate split=test windows=... does",
    "logger": "loggers are a group: logger=none, logger=tensorboard",
    "min_epochs": "epochs have no end; trainer.min_steps counts steps",
    "model_registry": "a model folder is written instead",
    "plugins": "checkpoints are written by a plugin of musictx's own",
    "reload_dataloaders_every_n_epochs": "batches are made by their number, nothing is reloaded",
    "sync_batchnorm": "the network has no batch norms",
    "use_distributed_sampler": "the data module shares the windows among processes",
}


@dataclass
class TrainerConfig:
    """Flags of Lightning's Trainer: how long to train, on which devices, how often to validate."""

    max_steps: int = option(3000, "optimizer steps of the whole run; -1 = without end", low=-1)
    min_steps: int | None = option(
        None, "train for at least this many steps, even if a callback wants to stop", low=1
    )
    max_time: str | None = option(
        None,
        "train for this long instead, as DD:HH:MM:SS; the learning rate schedule follows the clock",
    )
    max_epochs: int = option(
        -1, "most epochs; only limit_train_batches gives epochs an end", low=-1
    )
    accelerator: str = option("auto", "auto, cpu, gpu, mps, ... as Lightning names them")
    devices: str = option("auto", "number of devices on each node, or auto")
    num_nodes: int = option(1, "number of machines", low=1)
    strategy: str = option("auto", "how devices share the work: " + ", ".join(STRATEGIES))
    precision: str = option(
        "auto",
        "32-true, bf16-mixed, 16-mixed, ...; auto = bf16-mixed on GPUs that have it; fast = also "
        "on CPUs that have it",
        choices=PRECISIONS,
    )
    val_check_interval: int = option(
        250, "batches between validations (each with checkpoints and a sample)", low=1
    )
    log_every_n_steps: int = option(10, "optimizer steps between two rows of the log", low=1)
    accumulate_grad_batches: int = option(
        1, "batches whose gradients are added up for one step", low=1
    )
    gradient_clip_val: float | None = option(1.0, "largest norm of the gradient; null = any", low=0)
    gradient_clip_algorithm: str = option(
        "norm", "norm (of all gradients) or value (of each)", choices=("norm", "value")
    )
    limit_train_batches: int | None = option(
        None, "batches in an epoch; an epoch has no end without it", low=0
    )
    limit_val_batches: int | float | None = option(
        None, "validation batches used: a number, or a share of them; 0 = no validation", low=0
    )
    overfit_batches: int = option(0, "train on this many batches again and again; 0 = off", low=0)
    fast_dev_run: bool | int = option(
        False, "one batch (or this many) of training and validation, without a run folder", low=0
    )
    num_sanity_val_steps: int = option(
        0, "validation batches tried before training; -1 = all", low=-1
    )
    deterministic: bool = option(False, "use deterministic algorithms only")
    benchmark: bool | None = option(None, "let cuDNN choose its algorithms by measuring")
    detect_anomaly: bool = option(False, "find the operation that made a gradient NaN; slow")
    profiler: str | None = option(
        None,
        "simple, advanced or pytorch: where the time goes",
        choices=("simple", "advanced", "pytorch"),
    )
    enable_progress_bar: bool = option(True, "show progress")
    enable_model_summary: bool = option(False, "print Lightning's table of layers")

    def __post_init__(self) -> None:
        check(self, "trainer")
        require(
            self.max_steps != 0,
            "trainer.max_steps",
            self.max_steps,
            "a whole number of at least 1, or -1 for no end",
        )
        ends = self.limit_train_batches is not None or self.overfit_batches or self.fast_dev_run
        require(
            self.max_epochs == -1 or bool(ends),
            "trainer.max_epochs",
            self.max_epochs,
            "trainer.limit_train_batches with it, since epochs have no end; trainer.max_steps "
            "counts steps",
        )
        if self.max_time is not None:
            require(
                bool(re.fullmatch(r"\d+:\d\d:\d\d:\d\d", self.max_time)) and self.seconds != 0,
                "trainer.max_time",
                self.max_time,
                "days, hours, minutes and seconds as DD:HH:MM:SS, such as 00:01:30:00",
            )
        require(
            self.strategy in STRATEGIES,
            "trainer.strategy",
            self.strategy,
            f"one of {', '.join(STRATEGIES)} (sharded weights are not offered: gradient norms, "
            "averaged weights and checkpoints here are of whole parameters)",
        )
        for name in ("val_check_interval", "limit_train_batches", "overfit_batches"):
            batches = getattr(self, name) or 0
            require(  # a checkpoint is written between two steps
                batches % self.accumulate_grad_batches == 0,
                f"trainer.{name}",
                batches,
                "a number of batches that is a multiple of trainer.accumulate_grad_batches="
                f"{self.accumulate_grad_batches}",
            )
        share = self.limit_val_batches
        require(
            share is None or share <= 1 or float(share).is_integer(),
            "trainer.limit_val_batches",
            share,
            "a share from 0 to 1, or a whole number of batches",
        )

    @property
    def seconds(self) -> float | None:
        """``max_time`` in seconds; None where the steps count."""
        if self.max_time is None:
            return None
        days, hours, minutes, seconds = map(int, self.max_time.split(":"))
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
