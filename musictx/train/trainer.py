"""Lightning's Trainer as we use it: what it may decide is precision and devices, no more."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from musictx.config import TrainerConfig
from musictx.errors import UserError


def build_trainer(options: TrainerConfig) -> pl.Trainer:
    """Lightning's Trainer, bare: no bar, logger or checkpoint of its own, loops without end.

    How far to go is decided in ``train/``. Raises ``UserError`` for a device that is not there.
    """
    try:
        return pl.Trainer(
            accelerator=options.accelerator,
            devices=int(options.devices) if options.devices.isdigit() else options.devices,
            strategy=options.strategy,
            precision=precision(options.precision, options.accelerator),
            max_epochs=-1,
            accumulate_grad_batches=options.accumulate,
            reload_dataloaders_every_n_epochs=1,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
            inference_mode=False,  # tensors made in validation may be met again in training
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    except (MisconfigurationException, ValueError, RuntimeError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"trainer.accelerator={options.accelerator}, trainer.devices={options.devices}, "
            f"trainer.strategy={options.strategy}: not possible on this machine ({reason})"
        ) from None


def precision(asked: str, accelerator: str) -> Any:
    """``config.TrainerConfig.precision`` in Lightning's words."""
    if asked == "auto":
        on_gpu = accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
        asked = "bf16" if on_gpu and torch.cuda.get_device_capability()[0] >= 8 else "32"
    return {"bf16": "bf16-mixed", "32": "32-true"}[asked]


def describe_device(trainer: pl.Trainer) -> str:
    """Such as "cpu" or "2 x NVIDIA H100 (bf16-mixed)"."""
    device = trainer.strategy.root_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
    count = f"{trainer.world_size} x " if trainer.world_size > 1 else ""
    kind = "" if str(trainer.precision) == "32-true" else f" ({trainer.precision})"
    return f"{count}{name}{kind}"
