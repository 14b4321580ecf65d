"""A model and batches small enough that a whole training takes a blink."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from musictx.config import OptimConfig, TrainerConfig
from musictx.config.trainer import LIGHTNING_FLAGS
from musictx.data.windows import Batch
from musictx.training.lit import LitMusicTransformer
from musictx.training.trainer import build_trainer, quiet

VOCAB = 11
OPTIM = dataclasses.asdict(OptimConfig(lr=1e-2, warmup=2))


class FakeModel(nn.Module):
    """Embedding, norm, dropout, linear: one of each kind of parameter, and randomness."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 8)
        self.norm = nn.LayerNorm(8)
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(8, 8)
        self.output = nn.Linear(8, VOCAB, bias=False)

    def forward(self, ids: Tensor, *, piece_ids: Tensor) -> Tensor:
        return self.output(self.dropout(self.hidden(self.norm(self.embedding(ids))).relu()))


def fake_batch(number: int, rows: int = 2, length: int = 12) -> Batch:
    """Batch ``number``: each id is the previous one plus 1; a varying part is not scored."""
    rng = np.random.default_rng([7, number])
    ids = torch.from_numpy((rng.integers(VOCAB, size=(rows, 1)) + np.arange(length + 1)) % VOCAB)
    targets = ids[:, 1:].clone()
    targets[:, rng.integers(2, length + 1) :] = -100
    return Batch(ids[:, :-1], targets, torch.zeros(rows, length, dtype=torch.int64))


class FakeData(pl.LightningDataModule):
    """A ``MusicDataModule`` as training sees it."""

    def __init__(self, validation: list[Batch] | None = None, same: bool = False) -> None:
        super().__init__()
        self.same = same
        self.validation = [fake_batch(1000), fake_batch(1001)] if validation is None else validation

    def train_dataloader(self) -> "FakeData":
        return self

    def __iter__(self) -> Iterator[Batch]:
        assert self.trainer is not None
        number = self.trainer.global_step * self.trainer.accumulate_grad_batches
        while True:
            yield fake_batch(0 if self.same else number)
            number += 1

    def val_dataloader(self) -> DataLoader[Batch]:
        return DataLoader(self.validation, batch_size=None)


def fake_training(model: nn.Module | None = None, kind=LitMusicTransformer, **optim):
    torch.manual_seed(0)
    return kind({}, OPTIM | optim, model=model or FakeModel())


def trainer_options(**options) -> TrainerConfig:
    """A TrainerConfig of declared options and Lightning's flags."""
    flags = {name: options.pop(name) for name in [*options] if name in LIGHTNING_FLAGS}
    return TrainerConfig(**options, flags=flags)


def fit(
    lit: LitMusicTransformer,
    data: FakeData | None = None,
    *,
    folder: Path | None = None,
    callbacks=(),
    loggers=(),
    ckpt_path=None,
    **trainer,
) -> pl.Trainer:
    """Train on the CPU as ``apps/train.py`` does: 12 steps, validation after every five."""
    usual = {"accelerator": "cpu", "devices": "1", "max_steps": 12, "log_every_n_steps": 1}
    usual["val_check_interval"] = 5 * trainer.get("accumulate_grad_batches", 1)
    bar = any(isinstance(c, pl.callbacks.ProgressBar) for c in callbacks)
    options = trainer_options(**usual | {"enable_progress_bar": bar} | trainer)
    with quiet():
        made = build_trainer(options, folder, callbacks=callbacks, loggers=loggers)
        made.fit(lit, data or FakeData(), ckpt_path=ckpt_path)
    return made
