"""The line a person watches while a model trains."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

import pytorch_lightning as pl
from tqdm import tqdm

from musictx.train.lit import Training

#: The weight of the past in the smoothed loss, per step.
SMOOTHING = 0.95


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


class Progress(pl.Callback):
    """Step, loss, validation, learning rate, speed, time left: a bar on a terminal, else lines.

    The loss is smoothed over some twenty steps; ``every`` seconds a line is printed where there is
    no terminal. The time left counts validations and samples as they have been so far.
    """

    def __init__(self, *, every: float = 10.0, file: TextIO | None = None) -> None:
        self.file = sys.stdout if file is None else file
        self.terminal = self.file.isatty()
        self.interval = 0.5 if self.terminal else every
        self.bar: Any = None
        self.loss: float | None = None
        self._shown = 0.0
        self._mark: tuple[float, int] | None = None
        self._speed = 0.0
        self._started = (0.0, 0.0)

    def say(self, text: str) -> None:
        """Print ``text`` above the bar."""
        if self.bar is not None:
            self.bar.write(text, file=self.file)
        else:
            print(text, file=self.file, flush=True)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Training)
        if not trainer.is_global_zero:
            return
        pl_module.on_loss = self._smooth
        self._started = (time.monotonic(), pl_module.share)
        self._shown = time.monotonic()
        if self.terminal:
            self.bar = tqdm(
                total=1.0,
                initial=pl_module.share,
                file=self.file,
                bar_format="{percentage:3.0f}% |{bar:16}| {desc}",
                leave=False,
                dynamic_ncols=True,
            )

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Training)
        pl_module.drain()
        self._mark = (time.monotonic(), pl_module.tokens)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        assert isinstance(pl_module, Training)
        now = time.monotonic()
        if now - self._shown < self.interval or not trainer.is_global_zero:
            return
        pl_module.drain()
        self._measure(now, pl_module.tokens)
        self._show(now, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Training)
        if trainer.is_global_zero:
            pl_module.drain()

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
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

    def _smooth(self, loss: float) -> None:
        self.loss = loss if self.loss is None else SMOOTHING * self.loss + (1 - SMOOTHING) * loss

    def _measure(self, now: float, tokens: int) -> None:
        if self._mark is not None and tokens > self._mark[1]:
            speed = (tokens - self._mark[1]) / max(now - self._mark[0], 1e-9)
            self._speed = speed if not self._speed else 0.7 * self._speed + 0.3 * speed
            self._mark = (now, tokens)

    def _show(self, now: float, training: Training) -> None:
        self._shown = now
        text = self.line(training)
        if self.bar is None:
            print(text, file=self.file, flush=True)
            return
        self.bar.n = training.share
        self.bar.set_description_str(text, refresh=False)
        self.bar.refresh()

    def line(self, training: Training) -> str:
        """Where the training stands, in one line."""
        parts = [f"step {training.step:,}"]
        if training.minutes is None:
            parts[0] += f"/{training.steps:,}"
        if self.loss is not None:
            parts.append(f"loss {self.loss:.3f}")
        if training.validation_nll is not None:
            best = "" if training.best is None else f" (best {training.best['nll']:.3f})"
            parts.append(f"validation {training.validation_nll:.3f}{best}")
        parts.append(f"lr {training.learning_rate:.1e}")
        if self._speed:
            parts.append(f"{compact(self._speed)} tokens/s")
        began, share = self._started
        if training.minutes is not None:
            parts.append(f"{duration(60 * training.minutes - training.seconds)} left")
        elif training.share > share:
            rate = (time.monotonic() - began) / (training.share - share)
            parts.append(f"{duration(rate * (1 - training.share))} left")
        return "  ".join(parts)
