"""The LightningDataModule: training batches without end, validation windows that never change."""

from __future__ import annotations

import pytorch_lightning as pl
import torch.distributed
from torch.utils.data import DataLoader

from musictx.config import AugmentConfig
from musictx.data.batches import TrainingBatches, ValidationBatches, load
from musictx.data.draw import TrainingRows
from musictx.data.shards import Shards
from musictx.data.windows import Batch, EvaluationWindows, collate, windows
from musictx.tokens.vocab import Tokenizer

__all__ = [
    "Batch",
    "EvaluationWindows",
    "MusicDataModule",
    "TrainingBatches",
    "ValidationBatches",
    "collate",
    "windows",
]


class MusicDataModule(pl.LightningDataModule):
    """Batches for training and validation from a shard folder.

    context             tokens in a row;  batch  rows on each device
    augment             changes of training windows; validation is never changed
    seed                of every draw: same seed, same batches
    validation_windows  full-coverage validation windows used, spread evenly; 0 = all
    workers             loader processes for training (validation needs none)
    accumulate          batches of one optimizer step, for :meth:`start_at_step`

    Before ``train_dataloader()`` is called, ``start_batch`` may be set to the number of batches
    that an earlier run has seen; training then goes on exactly there.

    Raises ``UserError`` if the shards are of another tokenizer or have no piece to train on.
    """

    def __init__(
        self,
        shards: Shards,
        tokenizer: Tokenizer,
        *,
        context: int,
        batch: int,
        augment: AugmentConfig | None = None,
        seed: int = 0,
        validation_windows: int = 0,
        workers: int = 0,
        accumulate: int = 1,
    ) -> None:
        super().__init__()
        shards.check(tokenizer)
        self.shards = shards
        self.tokenizer = tokenizer
        self.context = context
        self.batch = batch
        self.seed = seed
        self.validation_windows = validation_windows
        self.workers = workers
        self.accumulate = accumulate
        self.start_batch = 0
        self._rows = TrainingRows(shards, tokenizer, context, augment or AugmentConfig(), seed)

    def start_at_step(self, step: int) -> None:
        """Go on after ``step`` optimizer steps: sets ``start_batch``."""
        self.start_batch = step * self.accumulate

    @property
    def rank(self) -> int:
        """The number of this device among all of the run."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank()
        return self.trainer.global_rank if self.trainer is not None else 0

    @property
    def devices(self) -> int:
        """How many devices share the run."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_world_size()
        return self.trainer.world_size if self.trainer is not None else 1

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches ``start_batch``, ``start_batch + 1``, ... without end."""
        batches = TrainingBatches(self._rows, self.batch, rank=self.rank, start=self.start_batch)
        return load(batches, self.workers)

    def val_dataloader(self) -> ValidationBatches:
        """Full-coverage validation windows, all or evenly spread ones, the same each time."""
        rows = EvaluationWindows(self.shards, "validation", self.context)
        count = min(self.validation_windows or len(rows), len(rows))
        chosen = [(2 * i + 1) * len(rows) // (2 * count) for i in range(count)]
        return ValidationBatches(rows, chosen, self.batch, rank=self.rank, devices=self.devices)
