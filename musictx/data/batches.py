"""Batches without Lightning: training ones without end, validation ones the same each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from musictx.data.draw import TrainingRows
from musictx.data.windows import Batch, Row, collate, join


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


def load(batches: TrainingBatches, workers: int) -> DataLoader[Batch]:
    """The batches, made ahead by so many processes (0: here), pinned where there is a CUDA GPU."""
    return DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        worker_init_fn=_one_thread,
        pin_memory=torch.cuda.is_available(),
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
    )


def _one_thread(worker: int) -> None:
    torch.set_num_threads(1)
