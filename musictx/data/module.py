"""The LightningDataModule: training batches without end, validation windows that never change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytorch_lightning as pl
import torch
import torch.distributed
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from musictx.config import AugmentConfig
from musictx.data.draw import TrainingRows
from musictx.data.shards import Shards
from musictx.data.windows import Batch, EvaluationWindows, Row, collate, join, windows
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


class TrainingBatches(IterableDataset[Batch]):
    """Batch ``start``, ``start + 1``, ... without end, each a pure function of its number.

    In a loader with W processes the w-th makes every W-th batch; the loader takes them in turn, so
    the order is the same for any W.
    """

    def __init__(self, rows: TrainingRows, batch: int, *, rank: int = 0, start: int = 0) -> None:
        self.rows = rows
        self.batch = batch
        self.rank = rank
        self.start = start

    def make(self, number: int) -> Batch:
        """Batch ``number``: (batch, context) tensors."""
        return collate(self.rows.row(number, row, self.rank) for row in range(self.batch))

    def __iter__(self) -> Iterator[Batch]:
        info = get_worker_info()
        number = self.start + (info.id if info else 0)
        step = info.num_workers if info else 1
        while True:
            yield self.make(number)
            number += step


class ValidationBatches:
    """Some of a split's evaluation windows in batches, shared among devices.

    chosen  which rows of ``rows``, in this order

    Iterable again and again, the same each time. Every device gets the same number of rows and
    batches (collective operations wait for each other), so the last rows may be all padding with
    nothing scored: weigh batches by their scored targets.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        chosen: Sequence[int],
        batch: int,
        *,
        rank: int = 0,
        devices: int = 1,
    ) -> None:
        self._rows = rows
        self._share = -(-len(chosen) // devices)
        self._mine = chosen[rank::devices]
        self._batch = batch

    def __len__(self) -> int:
        return -(-self._share // self._batch)

    def __iter__(self) -> Iterator[Batch]:
        for at in range(0, self._share, self._batch):
            rows = [self._rows[i] for i in self._mine[at : at + self._batch]]
            missing = min(self._batch, self._share - at) - len(rows)
            yield collate(rows + [join([], 1)] * missing)


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
        return DataLoader(
            batches,
            batch_size=None,
            num_workers=self.workers,
            worker_init_fn=_one_thread,
            pin_memory=torch.cuda.is_available(),
            persistent_workers=self.workers > 0,
            prefetch_factor=4 if self.workers else None,
        )

    def val_dataloader(self) -> ValidationBatches:
        """Full-coverage validation windows, all or evenly spread ones, the same each time."""
        rows = EvaluationWindows(self.shards, "validation", self.context)
        count = min(self.validation_windows or len(rows), len(rows))
        chosen = [(2 * i + 1) * len(rows) // (2 * count) for i in range(count)]
        return ValidationBatches(rows, chosen, self.batch, rank=self.rank, devices=self.devices)


def _one_thread(worker: int) -> None:
    torch.set_num_threads(1)
