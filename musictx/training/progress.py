"""The progress of a run over all its sessions, and the progress bar."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any, TextIO

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ProgressBar, Timer
from tqdm import tqdm


class Clock(Timer):
    """Lightning's timer, which measures all sessions of a run, but ends training only between two
    optimizer steps, so that no accumulated batch is lost."""

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__(None if seconds is None else timedelta(seconds=seconds), verbose=False)

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **options: Any) -> None:
        if (args[-1] + 1) % trainer.accumulate_grad_batches == 0:
            super().on_train_batch_end(trainer, *args, **options)


def clock(trainer: pl.Trainer) -> Clock:
    """The :class:`Clock` among the callbacks of a trainer."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return next((c for c in callbacks if isinstance(c, Clock)), Clock())


def time_used(trainer: pl.Trainer) -> float | None:
    """The elapsed share of the time of a run, 0..1; None without a time limit."""
    left, used = clock(trainer).time_remaining(), clock(trainer).time_elapsed()
    return None if left is None else min(1.0, used / max(used + left, 1e-9))


def share(trainer: pl.Trainer) -> float:
    """The finished share of a run, 0..1; 0 for an endless run."""
    used = time_used(trainer)
    if used is not None:
        return used
    return min(1.0, trainer.global_step / trainer.max_steps) if trainer.max_steps > 0 else 0.0


def is_over(trainer: pl.Trainer) -> bool:
    """Whether training is over: all steps are done, or a callback has ended the run."""
    stops = trainer.should_stop and trainer.global_step >= (trainer.min_steps or 0)
    return stops or trainer.global_step >= trainer.max_steps > 0


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
    """Show the step, values logged with ``prog_bar=True``, tokens per second, and the time left.

    On a terminal this is a bar over the whole run, otherwise a line every ``every`` seconds. The
    time left is estimated from the time so far, including validations and samples.
    """

    def __init__(self, *, every: float = 10.0, file: TextIO | None = None) -> None:
        super().__init__()
        self.file = sys.stdout if file is None else file
        self.interval = 0.5 if self.file.isatty() else every
        self.bar: Any = None
        self.enabled = True
        self._start = (0.0, 0.0)  # time and share of the run
        self._shown = (0.0, 0.0)  # time and number of targets at the last line

    def disable(self) -> None:
        """Lightning calls this in all processes but the first."""
        self.enabled = False

    def print(self, *parts: Any, **options: Any) -> None:
        """Print above the bar."""
        tqdm.write(" ".join(map(str, parts)), file=self.file)
        self.file.flush()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        now = time.monotonic()
        self._start, self._shown = (now, share(trainer)), (now, 0.0)
        if self.enabled and self.file.isatty():
            form = "{percentage:3.0f}% |{bar:16}| {desc}"
            look = {"bar_format": form, "leave": False, "dynamic_ncols": True}
            self.bar = tqdm(total=1.0, file=self.file, **look)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        now = time.monotonic()
        if not self.enabled or now - self._shown[0] < self.interval:
            return
        text = self._line(trainer, now)
        if self.bar is None:
            print(text, file=self.file, flush=True)
        else:
            self.bar.n = share(trainer)
            self.bar.set_description_str(text)

    def on_train_end(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def on_exception(self, *_: object) -> None:
        self.on_train_end()

    def _line(self, trainer: pl.Trainer, now: float) -> str:
        metrics: dict[str, Any] = dict(self.get_metrics(trainer, trainer.lightning_module))
        of = f"/{trainer.max_steps:,}" if trainer.max_steps > 0 else ""
        parts = [f"step {trainer.global_step:,}{of}"]
        for name, value in metrics.items():
            digits = ".3f" if "loss" in name else ".3g"
            parts += [f"{name} {value:{digits}}"] if isinstance(value, float) else []
        tokens = float(trainer.callback_metrics.get("train/tokens", 0.0))
        since, before = self._shown
        if before and tokens > before:
            parts.append(f"{compact((tokens - before) / (now - since))} tokens/s")
        self._shown = (now, tokens)
        began, first = self._start
        if (done := share(trainer)) > first:
            parts.append(f"{duration((now - began) * (1 - done) / (done - first))} left")
        return "  ".join(parts)
