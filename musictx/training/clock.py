"""How long a run has trained, over all its sessions, and how much of it is done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Timer


class Clock(Timer):
    """Lightning's timer, over all sessions of a run; it ends training between two steps only."""

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__(None if seconds is None else timedelta(seconds=seconds), verbose=False)

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **options: Any) -> None:
        if (args[-1] + 1) % trainer.accumulate_grad_batches == 0:
            super().on_train_batch_end(trainer, *args, **options)


def clock(trainer: pl.Trainer) -> Clock:
    """The clock of a trainer, which :func:`musictx.training.trainer.build_trainer` puts first."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return next((c for c in callbacks if isinstance(c, Clock)), Clock())


def time_used(trainer: pl.Trainer) -> float | None:
    """The share of its time that a run has used up, 0..1; None where it does not end by time."""
    left, used = clock(trainer).time_remaining(), clock(trainer).time_elapsed()
    return None if left is None else min(1.0, used / max(used + left, 1e-9))


def share(trainer: pl.Trainer) -> float:
    """How much of the run is done, 0..1; 0 for a run without end."""
    used = time_used(trainer)
    if used is not None:
        return used
    return min(1.0, trainer.global_step / trainer.max_steps) if trainer.max_steps > 0 else 0.0


def is_over(trainer: pl.Trainer) -> bool:
    """Whether the last step is done: of all steps, or as a callback has ended the run."""
    stops = trainer.should_stop and trainer.global_step >= (trainer.min_steps or 0)
    return stops or trainer.global_step >= trainer.max_steps > 0
