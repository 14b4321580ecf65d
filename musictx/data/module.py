"""The LightningDataModule: endless training batches and fixed validation windows.

A batch is a pure function of its number (:mod:`musictx.data.draw`), so ``state_dict`` has only the
number of the next batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Subset

from musictx import registry
from musictx.config import AugmentConfig
from musictx.data import windows
from musictx.data.draw import TrainingBatches, TrainingRows
from musictx.data.shards import Shards
from musictx.data.windows import Batch, EvaluationWindows, Row
from musictx.errors import UserError
from musictx.tokens.controls import HERE
from musictx.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from musictx.data.tasks import Tasks

#: The class of tasks for tokenizers without an entry in ``registry.TRAINING_TASKS``.
DEFAULT_TASKS = "musictx.data.tasks:EventTasks"


class MusicDataModule(pl.LightningDataModule):
    """Batches for training and validation from a shard folder.

    context             tokens in a row
    batch_size          rows on each device
    augment             augmentation of training windows; validation windows have none
    seed                the same seed gives the same batches
    validation_windows  number of validation windows to use, evenly spaced; 0 = all
    num_workers         loader processes for training; validation has none
    growing_windows     [[batch, tokens], ...], ascending: batches before number ``batch`` have
                        rows of only ``tokens`` tokens, and more rows, so that their number of
                        tokens stays about the same
    align               training windows begin at multiples of this many tokens in their piece
    tasks, melody       ``weights`` and ``melody`` of :class:`musictx.data.tasks.Tasks`

    The devices of a run share each batch: the rows of device r begin at r * batch_size. Raises
    ``UserError`` if the shards have another tokenizer or no piece to train on, if the tokenizer
    has no control tokens for ``tasks`` or ``context`` is too short for them, and for
    ``growing_windows`` longer than ``context``.
    """

    def __init__(
        self,
        shards: Shards,
        tokenizer: Tokenizer,
        *,
        context: int,
        batch_size: int,
        augment: AugmentConfig | None = None,
        align: int = 1,
        seed: int = 0,
        validation_windows: int = 0,
        num_workers: int = 0,
        growing_windows: Sequence[Sequence[int]] = (),
        tasks: Mapping[str, float] | None = None,
        melody: str = "skyline",
    ) -> None:
        super().__init__()
        shards.check(tokenizer)
        self.shards, self.batch_size = shards, batch_size
        self.validation_windows, self.num_workers = validation_windows, num_workers
        window_tasks: Tasks | None = None  # None: plain windows
        if tasks:
            if HERE not in tokenizer.vocabulary.kinds:
                raise UserError(
                    f"data.tasks={dict(tasks)}: tasks require tokenizer.controls=true, and "
                    "tokenizer=performance or magenta or ensemble or notes"
                )
            path = registry.TRAINING_TASKS.get(tokenizer.name, DEFAULT_TASKS)
            window_tasks = registry.load(path)(tokenizer, tasks, melody)
            if context < window_tasks.fewest_ids:
                raise UserError(
                    f"data.tasks={dict(tasks)}: a context of {context} tokens is too short for "
                    f"tasks; expected model.context of at least {window_tasks.fewest_ids}"
                )

        def rows_of(tokens: int) -> TrainingRows:
            augmentation = augment or AugmentConfig()
            return TrainingRows(shards, tokenizer, tokens, augmentation, seed, window_tasks, align)

        self.rows = rows_of(context)
        #: Tokens in a validation window.
        self.window = windows.round_down(context, self.rows.align)
        if any(tokens > context for _, tokens in growing_windows):
            raise UserError(
                f"data.growing_windows={list(growing_windows)}: expected windows of at most "
                f"{context} tokens, the context of the model"
            )
        self.shorter = [(until, rows_of(tokens)) for until, tokens in growing_windows]
        self._loaded = 0  # ``next_batch`` of a loaded state

    @property
    def next_batch(self) -> int:
        """The number of the next training batch."""
        trainer: Any = self.trainer
        if trainer is None:
            return self._loaded
        if trainer.overfit_batches:
            return 0  # the same batches in every epoch
        return max(self._loaded, trainer.global_step * trainer.accumulate_grad_batches)

    def state_dict(self) -> dict[str, Any]:
        return {"next_batch": self.next_batch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loaded = int(state["next_batch"])

    def train_dataloader(self) -> MusicDataModule:
        """Return this module, whose iterator yields endless batches from ``next_batch`` on."""
        return self

    def __iter__(self) -> Iterator[Batch]:
        rank = self.trainer.global_rank if self.trainer else 0
        return iter(
            DataLoader(
                TrainingBatches(self.rows, self.batch_size, rank, self.shorter),
                batch_size=None,
                sampler=itertools.count(self.next_batch),
                num_workers=self.num_workers,  # each with one thread
                pin_memory=torch.cuda.is_available(),
                prefetch_factor=4 if self.num_workers else None,
            )
        )

    def val_dataloader(self) -> DataLoader[Row]:
        """The validation windows of this device, the same each time."""
        rows = EvaluationWindows(self.shards, "validation", self.window)
        indices = windows.evenly_spaced(self.validation_windows or len(rows), len(rows))
        trainer = self.trainer
        rank, devices = (trainer.global_rank, trainer.world_size) if trainer else (0, 1)
        return validation_loader(rows, indices, self.batch_size, rank, devices)


def validation_loader(
    rows: EvaluationWindows, indices: Sequence[int], batch_size: int, rank: int, devices: int
) -> DataLoader[Row]:
    """Batches of this device's share of the rows ``indices``, the same each time.

    All devices get the same number of rows and batches, since collective operations wait for every
    device. So the last row may be padding without scored targets: weight batches by their number
    of scored targets.
    """
    local_indices = indices[rank::devices]
    is_short = len(local_indices) < len(indices[::devices])
    padding: Any = [windows.join([], 1)] if is_short else []
    return DataLoader(Subset(rows, local_indices) + padding, batch_size, collate_fn=windows.collate)
