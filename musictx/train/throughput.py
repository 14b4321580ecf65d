"""How fast a training is, by Lightning's own monitor."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ThroughputMonitor
from torch import nn

from musictx.model.transformer import MusicTransformer


class Throughput(ThroughputMonitor):
    """``ThroughputMonitor``, told what a batch holds and what it takes.

    Logs, over the last ``window_size`` batches, tokens a second (``train/device/items_per_sec``,
    padding included), operations a second, and the share of what the device could have done
    (``train/device/mfu``) where Lightning knows it.
    """

    def __init__(self, window_size: int = 20) -> None:
        super().__init__(
            batch_size_fn=lambda batch: len(batch.ids),
            length_fn=lambda batch: int(batch.ids.numel()),
            window_size=window_size,
        )

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, *args: Any
    ) -> None:
        work = sum(operations_per_token(pl_module.model, batch.ids.shape[1]).values())
        pl_module.flops_per_batch = work * batch.ids.numel()
        super().on_train_batch_end(trainer, pl_module, outputs, batch, *args)

    def _compute(self, trainer: pl.Trainer, iter_num: int | None = None) -> None:
        if iter_num is None:  # validation counts batches where a table of training counts steps
            super()._compute(trainer)


def operations_per_token(model: MusicTransformer, length: int) -> dict[str, float]:
    """Floating-point operations that a training step needs for a token, by what needs them.

        matrices   6 N: two for each weight of a matrix forward, four backward; N counts the
                   linear layers and the output matrix, not embeddings that are looked up, not norms
        content    6 n L d: q k and w v, 4 (L / 2) d forward for each of n layers, twice that
                   backward; causal, so half of the L x L pairs
        relative   3 n L d: q E forward, as much again for each of two gradients

    L tokens to a row, d channels. Softmax, norms, dropout, loss, optimizer and whatever is computed
    a second time in the backward pass are not counted: the share is of work that must be done.
    """
    shape = model.config
    matrices = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))
    if shape.tied:
        matrices += model.embedding.weight.numel()
    pairs = shape.layers * length * shape.width
    relative = any(axis.table is not None for axis in model.position.terms(0, reach=length).axes)
    return {"matrices": 6.0 * matrices, "content": 6.0 * pairs, "relative": 3.0 * pairs * relative}
