"""A model and batches small enough that a whole training takes a blink."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from musictx.train.lit import Epochs, Take, Training
from musictx.train.quiet import quiet_lightning

VOCAB = 11
OPTIM = {
    "lr": 1e-2,
    "betas": [0.9, 0.98],
    "weight_decay": 0.01,
    "clip": 1.0,
    "schedule": "cosine",
    "warmup": 2,
    "min_lr": 0.0,
    "ema": 0.0,
}


class FakeBatch(NamedTuple):
    ids: Tensor
    targets: Tensor
    piece_ids: Tensor


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


def fake_batch(number: int, rows: int = 2, length: int = 12) -> FakeBatch:
    """Batch ``number``: the next id is the present one plus one, a varying part is not scored."""
    rng = np.random.default_rng([7, number])
    ids = torch.from_numpy((rng.integers(VOCAB, size=(rows, 1)) + np.arange(length + 1)) % VOCAB)
    targets = ids[:, 1:].clone()
    targets[:, rng.integers(2, length + 1) :] = -100
    return FakeBatch(ids[:, :-1], targets, torch.zeros(rows, length, dtype=torch.int64))


class FakeData:
    """What ``MusicDataModule`` looks like from the training's side; ``asked`` notes the batches."""

    def __init__(self, validation: list[FakeBatch] | None = None, same: bool = False) -> None:
        self.start_batch = 0
        self.trainer = None
        self.asked: list[int] = []
        self.same = same
        self.validation = [fake_batch(1000), fake_batch(1001)] if validation is None else validation

    def setup(self, stage: str) -> None: ...

    def train_dataloader(self) -> Iterator[FakeBatch]:
        number = self.start_batch
        while True:
            self.asked.append(number)
            yield fake_batch(0 if self.same else number)
            number += 1

    def val_dataloader(self) -> Take:
        return Take(self.validation, len(self.validation))


def fake_training(model: nn.Module | None = None, **options) -> Training:
    torch.manual_seed(0)
    optim = OPTIM | {k: options.pop(k) for k in list(options) if k in OPTIM}
    return Training(model or FakeModel(), optim=optim, **{"steps": 12, **options})


def fit(training: Training, data: FakeData, *, every: int = 5, callbacks=(), loggers=()) -> None:
    """Train on the CPU as ``apps/train.py`` does."""
    with quiet_lightning():
        trainer = pl.Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=-1,
            accumulate_grad_batches=training.accumulate,
            reload_dataloaders_every_n_epochs=1,
            num_sanity_val_steps=0,
            inference_mode=False,
            logger=list(loggers),
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            limit_val_batches=1.0 if data.validation else 0,
            callbacks=[*callbacks, _End()],
        )
        trainer.fit(training, datamodule=Epochs(data, training, every=every))


class _End(pl.Callback):
    """Ends the training when it is finished (``Checkpoints`` does it in a real run)."""

    def on_train_batch_end(self, trainer, pl_module, *args) -> None:
        if pl_module.finished:
            trainer.should_stop = True
