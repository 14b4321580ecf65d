"""How long a run has trained, over all its sessions, and how much of it is done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Timer

from musictx.config.checks import is_number
from musictx.errors import UserError


class Clock(Timer):
    """Lightning's timer, over all sessions of a run; it ends training between two steps only."""

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__(None if seconds is None else timedelta(seconds=seconds), verbose=False)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """``UserError`` where the time is missing: Lightning would begin at 0 without a word."""
        state = checkpoint["callbacks"].get(self.state_key)
        used = state.get("time_elapsed") if isinstance(state, dict) else None
        if not isinstance(used, dict) or not is_number(used.get("train")):
            raise UserError(
                f"{trainer.ckpt_path}: not a checkpoint of musictx train (it does not say how long "
                "it has trained); delete it, or give another out="
            )

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **options: Any) -> None:
        if (args[-1] + 1) % trainer.accumulate_grad_batches == 0:
            super().on_train_batch_end(trainer, *args, **options)


def clock(trainer: pl.Trainer) -> Timer:
    """The timer of a trainer: the one by which the run ends, if one does."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    timers = [c for c in callbacks if isinstance(c, Timer)]
    limited = [t for t in timers if t.time_remaining() is not None]
    return next(iter([*limited, *timers]), Clock())


def time_used(trainer: pl.Trainer) -> float | None:
    """The share of its time that a run has used up, 0..1; None where it does not end by time."""
    timer = clock(trainer)
    left, used = timer.time_remaining(), timer.time_elapsed()
    return None if left is None else min(1.0, used / max(used + left, 1e-9))


def share(trainer: pl.Trainer) -> float:
    """How much of the run is done, 0..1; 0 for a run without end."""
    used = time_used(trainer)
    if used is not None:
        return used
    return min(1.0, trainer.global_step / trainer.max_steps) if trainer.max_steps > 0 else 0.0
