"""How much of a run is done, counting earlier sessions, and the progress bar."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any, TextIO

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ProgressBar, Timer
from tqdm import tqdm


class TrainingTimer(Timer):
    """Lightning's timer, which adds up the time of all sessions and ends training after
    ``seconds``; None: it only measures.

    Lightning's timer may stop after any batch. This one stops only after a whole step, since no
    checkpoint can be written between the batches of one step (``accumulate_grad_batches``).
    """

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__(None if seconds is None else timedelta(seconds=seconds), verbose=False)

    @property
    def state_key(self) -> str:
        """The key in checkpoints: the former name of this class, so that older runs resume."""
        return "Clock"

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Keep the ``patience`` of the options; EarlyStopping would restore the former one."""
        for callback in trainer.early_stopping_callbacks:
            state = checkpoint["callbacks"].get(callback.state_key, {})
            state["patience"] = callback.patience

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **options: Any) -> None:
        if ends_step(trainer, batch_idx=args[-1]):
            super().on_train_batch_end(trainer, *args, **options)


def ends_step(trainer: pl.Trainer, batch_idx: int) -> bool:
    """Whether batch ``batch_idx`` is the last batch of an optimizer step."""
    return (batch_idx + 1) % trainer.accumulate_grad_batches == 0


def validation_follows(trainer: pl.Trainer) -> bool:
    """Whether Lightning validates after the current step, as it does every ``val_check_interval``
    batches and after the last step."""
    batches: Any = trainer.fit_loop.total_batch_idx + 1
    is_due = trainer.fit_loop.done or batches % trainer.val_check_interval == 0
    return bool(trainer.enable_validation and is_due)


def timer(trainer: pl.Trainer) -> TrainingTimer:
    """Return the timer among the callbacks of ``trainer``; a new one if there is none."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return next((c for c in callbacks if isinstance(c, TrainingTimer)), TrainingTimer())


def time_used(trainer: pl.Trainer) -> float | None:
    """Return the share of ``trainer.max_time`` that has passed, 0..1; None: no ``max_time``."""
    remaining, elapsed = timer(trainer).time_remaining(), timer(trainer).time_elapsed()
    return None if remaining is None else min(1.0, elapsed / max(elapsed + remaining, 1e-9))


def share_done(trainer: pl.Trainer) -> float:
    """Return the share of the run that is done, 0..1; 0 for a run without end."""
    if (share := time_used(trainer)) is not None:
        return share
    return min(1.0, trainer.global_step / trainer.max_steps) if trainer.max_steps > 0 else 0.0


def duration(seconds: float) -> str:
    """Format a duration: "45 s", "3 min 20 s", "2 h 05 min"."""
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def compact(number: float) -> str:
    """Format a number with three digits: "812", "12.3k", "4.56M"."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:  # rounds to at least ``size``
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


class Progress(ProgressBar):
    """Shows the step, the metrics logged with ``prog_bar=True``, tokens per second and time left.

    On a terminal this is one bar for the whole run; otherwise a line every ``every`` seconds. The
    time left is extrapolated from the time so far, with validations and samples.
    """

    def __init__(self, *, every: float = 10.0, file: TextIO | None = None) -> None:
        super().__init__()
        self.file = sys.stdout if file is None else file
        self.interval = 0.5 if self.file.isatty() else every
        self.bar: Any = None
        self.enabled = True
        self._start_time = self._start_share = 0.0
        self._line_time = self._line_tokens = 0.0  # at the latest line

    def disable(self) -> None:
        """Show nothing. Lightning calls this in all processes but the first."""
        self.enabled = False

    def print(self, *parts: Any, **options: Any) -> None:
        """Print a line above the bar."""
        tqdm.write(" ".join(map(str, parts)), file=self.file)
        self.file.flush()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._start_time = self._line_time = time.monotonic()
        self._start_share, self._line_tokens = share_done(trainer), 0.0
        if self.enabled and self.file.isatty():
            bar_format = "{percentage:3.0f}% |{bar:16}| {desc}"
            self.bar = tqdm(
                total=1.0, file=self.file, bar_format=bar_format, leave=False, dynamic_ncols=True
            )

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **options: Any) -> None:
        now = time.monotonic()
        if not self.enabled or now - self._line_time < self.interval:
            return
        text = self._line(trainer, now)
        if self.bar is None:
            print(text, file=self.file, flush=True)
        else:
            self.bar.n = share_done(trainer)
            self.bar.set_description_str(text)

    def on_train_end(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def on_exception(self, *_: object) -> None:
        self.on_train_end()

    def _line(self, trainer: pl.Trainer, now: float) -> str:
        metrics: dict[str, Any] = dict(self.get_metrics(trainer, trainer.lightning_module))
        total = f"/{trainer.max_steps:,}" if trainer.max_steps > 0 else ""
        parts = [f"step {trainer.global_step:,}{total}"]
        for name, value in metrics.items():
            if isinstance(value, float):
                parts.append(f"{name} {value:.3f}" if "loss" in name else f"{name} {value:.3g}")
        tokens = float(trainer.callback_metrics.get("train/tokens", 0.0))
        if 0 < self._line_tokens < tokens:
            rate = (tokens - self._line_tokens) / (now - self._line_time)
            parts.append(f"{compact(rate)} tokens/s")
        self._line_time, self._line_tokens = now, tokens
        done = share_done(trainer)
        if done > self._start_share:
            elapsed = now - self._start_time
            parts.append(f"{duration(elapsed * (1 - done) / (done - self._start_share))} left")
        return "  ".join(parts)
