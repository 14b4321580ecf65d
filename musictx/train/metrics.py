"""The numbers of a run as a small table, and whatever other loggers Lightning was given."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers.logger import Logger

from musictx.train.lit import Training

#: Rows of the table between two validations.
ROWS = 20

COLUMNS = (
    "step",
    "tokens",  # targets learnt from so far
    "train_nll",  # nats per token, mean since the row before
    "validation_nll",
    "learning_rate",
    "gradient_norm",  # before clipping
    "tokens_per_second",
    "seconds",  # of training so far
)


class CsvLog(Logger):
    """``metrics.csv``: one row a step, in :data:`COLUMNS`; empty where nothing was measured.

    What is logged at one step goes into one row, which is written when a later step comes or at
    ``save()``. ``keep_to`` is the step a resumed run goes on from: rows after it, left by a run
    that was killed, are dropped.
    """

    def __init__(self, path: str | Path, *, keep_to: int = 0) -> None:
        super().__init__()
        self.path = Path(path)
        self._row: dict[str, Any] = {}
        self._written = _steps_kept(self.path, keep_to)

    @property
    def name(self) -> str:
        return "csv"

    @property
    def version(self) -> str:
        return ""

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: ``run.yaml`` holds them."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if self._row and step != self._row["step"]:
            self.save()
        self._row = {**self._row, **metrics, "step": step}

    def save(self) -> None:
        """Write the row begun, if it is not written yet."""
        row, self._row = self._row, {}
        if not row or row["step"] <= self._written:
            return
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n").writerow(
                {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()}
            )
        self._written = row["step"]

    def finalize(self, status: str) -> None:
        self.save()


def _steps_kept(path: Path, keep_to: int) -> int:
    """Make the file begin with its header and hold no row after ``keep_to``; the last step kept."""
    rows: list[dict[str, str]] = []
    if keep_to and path.is_file():
        with path.open(newline="", encoding="utf-8") as file:
            rows = [r for r in csv.DictReader(file) if (r["step"] or "").isdigit()]
        rows = [r for r in rows if int(r["step"]) <= keep_to]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    beside = path.with_name(f".{path.name}.writing")
    beside.write_text(text.getvalue(), encoding="utf-8", newline="")
    os.replace(beside, path)
    return int(rows[-1]["step"]) if rows else 0


class Metrics(pl.Callback):
    """Logs the training loss about twenty times between validations, and each validation.

    Rows fall on fixed steps (multiples of ``every``), so a resumed run logs the same numbers.
    """

    def __init__(self, validate_every: int) -> None:
        self.every = max(1, validate_every // ROWS)
        self._mark = (0.0, 0)  # seconds and tokens at the row before

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Training)
        self._mark = (time.monotonic(), pl_module.tokens)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        assert isinstance(pl_module, Training)
        step, batch_idx = pl_module.step, args[-1]
        if (batch_idx + 1) % pl_module.accumulate or step % self.every:
            return
        pl_module.drain()
        window = pl_module.window
        if not window["targets"]:
            return
        now, (then, tokens) = time.monotonic(), self._mark
        metrics = {
            "tokens": pl_module.tokens,
            "train_nll": window["nats"] / window["targets"],
            "learning_rate": pl_module.learning_rate,
            "tokens_per_second": (pl_module.tokens - tokens) / max(now - then, 1e-9),
            "seconds": pl_module.seconds,
        }
        if isinstance(pl_module.gradient_norm, torch.Tensor):
            metrics["gradient_norm"] = float(pl_module.gradient_norm)
        self._mark = (now, pl_module.tokens)
        pl_module.window = {"nats": 0.0, "targets": 0}
        log(trainer, metrics, step)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Training)
        if pl_module.validation_nll is not None:
            log(trainer, {"validation_nll": pl_module.validation_nll}, pl_module.step)


def log(trainer: pl.Trainer, metrics: Mapping[str, float], step: int) -> None:
    """``metrics`` to every logger of the trainer, on the first rank."""
    if trainer.is_global_zero:
        for logger in trainer.loggers:
            logger.log_metrics(dict(metrics), step=step)
