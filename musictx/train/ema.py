"""The exponential moving average of the weights (Polyak averaging), as a Lightning callback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import WeightAveraging
from torch import Tensor


class Ema(WeightAveraging):
    """Averages the weights after each step: ``d * mean + (1 - d) * weight``.

    For the n-th average d is ``min(decay, (1 + n) / (10 + n))``: short at first, so that the random
    weights of the beginning are soon forgotten. Validation, samples, ``state_dict`` of checkpoints
    and the model folder have the averages; the weights that train are a checkpoint's
    ``current_model_state``.
    """

    def __init__(self, decay: float) -> None:
        def average(means: list[Tensor], weights: list[Tensor], n: Tensor) -> None:
            """All at once, and without asking a GPU for ``n``: that would wait for the step."""
            apart = torch._foreach_sub(weights, means)
            torch._foreach_mul_(apart, 1.0 - ((1.0 + n) / (10.0 + n)).clamp(max=decay))
            torch._foreach_add_(means, apart)

        super().__init__(use_buffers=False, multi_avg_fn=average)
        self.decay = decay

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
