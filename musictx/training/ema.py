"""The exponential moving average of the weights (Polyak averaging), as a Lightning callback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import WeightAveraging


class Ema(WeightAveraging):
    """Averages the weights after each step: ``d * mean + (1 - d) * weight``.

    For the n-th average d is ``min(decay, (1 + n) / (10 + n))``: short at first, so that the random
    weights of the beginning are soon forgotten. Validation, samples, ``state_dict`` of checkpoints
    and the model folder have the averages; a checkpoint's ``current_model_state`` has the weights.
    """

    def __init__(self, decay: float) -> None:
        super().__init__(use_buffers=False)
        self.decay = decay

    @torch.no_grad()
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        """As Lightning's, but all weights at once, and n is the trainer's: to read the average's
        count would wait for the GPU. Buffers never change here."""
        if trainer.global_step > self._latest_update_step:
            assert self._average_model is not None
            n = trainer.global_step - 1
            d = min(self.decay, (1 + n) / (10 + n)) if n else 0.0
            means = list[torch.Tensor](self._average_model.parameters())
            torch._foreach_lerp_(means, [*pl_module.parameters()], 1.0 - d)
            self._average_model.n_averaged.fill_(trainer.global_step)
            self._latest_update_step = trainer.global_step


@contextmanager
def averaged(trainer: pl.Trainer) -> Iterator[None]:
    """Within it the trained module has its averaged weights, if the run averages them."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    ema = next((c for c in callbacks if isinstance(c, Ema) and c._average_model is not None), None)
    if ema is not None:
        ema._swap_models(trainer.lightning_module)
    try:
        yield
    finally:
        if ema is not None:
            ema._swap_models(trainer.lightning_module)
