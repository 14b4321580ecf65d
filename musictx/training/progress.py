"""The line a person watches while a model trains: a Lightning progress bar."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ProgressBar
from tqdm import tqdm

from musictx.training.clock import share

#: The weight of the past in the smoothed loss, each time the line is shown.
SMOOTHING = 0.8


def duration(seconds: float) -> str:
    """ "45 s", "3 min 20 s", "2 h 05 min"."""
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def compact(number: float) -> str:
    """ "812", "12.3k", "4.56M"."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{sign}"
    return f"{number:.3g}"


class Progress(ProgressBar):
    """Step, what is logged with ``prog_bar=True``, speed, time left.

    A bar over the whole run on a terminal, else a line every ``every`` seconds. The training loss
    is smoothed. The time left counts validations and samples as they have been so far.
    """

    def __init__(self, *, every: float = 10.0, file: TextIO | None = None) -> None:
        super().__init__()
        self.file = sys.stdout if file is None else file
        self.terminal = self.file.isatty()
        self.interval = 0.5 if self.terminal else every
        self.bar: Any = None
        self.shown = True
        self.loss: float | None = None
        self._last = (0.0, 0.0)  # time and targets when the line was last shown
        self._started = (0.0, 0.0)  # time and share of the run at the start

    def enable(self) -> None:
        self.shown = True

    def disable(self) -> None:
        self.shown = False

    def print(self, *parts: Any, **options: Any) -> None:
        """Print above the bar."""
        text = " ".join(map(str, parts))
        if self.bar is not None:
            self.bar.write(text, file=self.file)
        else:
            print(text, file=self.file, flush=True)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        now = time.monotonic()
        self._started, self._last = (now, share(trainer)), (now, 0.0)
        if self.shown and self.terminal:
            self.bar = tqdm(
                total=1.0,
                initial=share(trainer),
                file=self.file,
                bar_format="{percentage:3.0f}% |{bar:16}| {desc}",
                leave=False,
                dynamic_ncols=True,
            )

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        now = time.monotonic()
        if not self.shown or now - self._last[0] < self.interval:
            return
        text = self.line(trainer, now)
        if self.bar is None:
            print(text, file=self.file, flush=True)
            return
        self.bar.n = share(trainer)
        self.bar.set_description_str(text, refresh=False)
        self.bar.refresh()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.close()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away; what is said after goes straight to the file."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def line(self, trainer: pl.Trainer, now: float) -> str:
        """Where the training stands, in one line."""
        metrics: dict[str, Any] = dict(self.get_metrics(trainer, trainer.lightning_module))
        metrics.pop("v_num", None)
        if (loss := metrics.pop("train/loss", None)) is not None:
            past = loss if self.loss is None else self.loss
            self.loss = SMOOTHING * past + (1 - SMOOTHING) * loss
        of = f"/{trainer.max_steps:,}" if trainer.max_steps > 0 else ""
        parts = [f"step {trainer.global_step:,}{of}"]
        if self.loss is not None:
            parts.append(f"train/loss {self.loss:.3f}")
        for name, value in metrics.items():
            parts.append(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}")
        tokens = float(trainer.callback_metrics.get("train/tokens", 0.0))
        then, before = self._last
        if before and tokens > before:
            parts.append(f"{compact((tokens - before) / (now - then))} tokens/s")
        self._last = (now, tokens)
        began, first = self._started
        if (done := share(trainer)) > first:
            parts.append(f"{duration((now - began) * (1 - done) / (done - first))} left")
        return "  ".join(parts)
