"""The exponential moving average of the weights (Polyak averaging), as a Lightning callback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import WeightAveraging


class Ema(WeightAveraging):
    """Averages the weights after each step: ``d * mean + (1 - d) * weight``.

    For the n-th average d is ``min(decay, (1 + n) / (10 + n))``: short at first, so that the random
    weights of the beginning are soon forgotten. Validation, samples, ``state_dict`` of checkpoints
    and the model folder have the averages; the weights that train are a checkpoint's
    ``current_model_state``.
    """

    def __init__(self, decay: float) -> None:
        super().__init__(use_buffers=False)
        self.decay = decay

    @torch.no_grad()
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        """As Lightning's, but all weights at once, and the count of steps is the trainer's: to ask
        a GPU for its own would wait for the step to end. Buffers never change here."""
        if trainer.global_step > self._latest_update_step:
            assert self._average_model is not None
            n = trainer.global_step - 1
            d = min(self.decay, (1 + n) / (10 + n)) if n else 0.0
            means = list[torch.Tensor](self._average_model.parameters())
            torch._foreach_lerp_(means, [*pl_module.parameters()], 1.0 - d)
            self._average_model.n_averaged.fill_(trainer.global_step)
            self._latest_update_step = trainer.global_step

    @contextmanager
    def swapped(self, module: pl.LightningModule) -> Iterator[None]:
        """Within it ``module`` has the averages; whatever happens, its weights come back after."""
        if self._average_model is None:
            yield
            return
        self._swap_models(module)
        try:
            yield
        finally:
            self._swap_models(module)


def averaged(trainer: pl.Trainer) -> Any:
    """A context in which the trained module has its averaged weights, if the run averages them."""
    ema = next((c for c in trainer.callbacks if isinstance(c, Ema)), None)  # type: ignore[attr-defined]
    return nullcontext() if ema is None else ema.swapped(trainer.lightning_module)
