"""Lightning callbacks of a run: averaged weights, checkpoints, the model folder, samples."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint, WeightAveraging

from musictx import formats, registry
from musictx.training.progress import ends_step, validation_follows
from musictx.training.ranks import print_once


class RunCallback(pl.Callback):
    """A callback that uses its :class:`musictx.training.run.Run`, which sets the attribute ``run``.
    It cannot be used with a Trainer of your own."""

    run: Any


class Ema(WeightAveraging):
    """Exponential moving average of the weights: after each step ``d * mean + (1 - d) * weight``.

    d is ``min(decay, (1 + n) / (10 + n))`` n steps after the first average, which is a copy of the
    weights. It is small at first, so that the earliest weights soon lose their influence. The
    averages are used in validation, samples, the ``state_dict`` of checkpoints and the model
    folder; ``current_model_state`` of a checkpoint has the weights that are trained. The averages
    are float64 with a precision of 64-true, and float32 otherwise: a step changes them too little
    for bfloat16.
    """

    def __init__(self, decay: float) -> None:
        super().__init__(use_buffers=False)
        self.decay = decay

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self._weights: list[torch.Tensor] = []  # while the module has the averages
        if self._average_model is not None:
            dtype = torch.float64 if trainer.precision == "64-true" else torch.float32
            self._average_model.to(dtype)

    @torch.no_grad()
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        """Like Lightning's, but all weights are averaged in one call, and n comes from the trainer,
        since reading the counter of the average would wait for the GPU. Buffers never change."""
        if trainer.global_step > self._latest_update_step:
            assert self._average_model is not None
            n = trainer.global_step - 1
            d = min(self.decay, (1 + n) / (10 + n)) if n else 0.0
            means = list[torch.Tensor](self._average_model.parameters())
            weights = [p.to(mean.dtype) for p, mean in zip(pl_module.parameters(), means)]
            torch._foreach_lerp_(means, weights, 1.0 - d)
            self._average_model.n_averaged.fill_(trainer.global_step)
            self._latest_update_step = trainer.global_step

    @torch.no_grad()
    def _swap_models(self, pl_module: pl.LightningModule) -> None:
        """Load the averages into the module, or its weights again. Unlike in Lightning's method the
        averages are copied: swapping would round them to the type of the weights."""
        if self._weights:
            for p, weight in zip(pl_module.parameters(), self._weights):
                p.copy_(weight)
            self._weights = []
        else:
            self._weights = [p.clone() for p in pl_module.parameters()]
            self._copy_average_to_current(pl_module)


@contextmanager
def averaged(trainer: pl.Trainer) -> Iterator[None]:
    """Load the averaged weights into the module for this context, if the run averages them."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    ema = next((c for c in callbacks if isinstance(c, Ema) and c._average_model is not None), None)
    if ema is not None:
        ema._swap_models(trainer.lightning_module)
    try:
        yield
    finally:
        if ema is not None:
            ema._swap_models(trainer.lightning_module)


class BestCheckpoint(RunCallback, Checkpoint):
    """``best.ckpt`` and the model folder: rewritten whenever ``val/loss`` is the lowest so far."""

    def __init__(self) -> None:
        self.loss: float | None = None
        self.step = 0

    def state_dict(self) -> dict[str, Any]:
        return {"loss": self.loss, "step": self.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.loss, self.step = state_dict["loss"], state_dict["step"]

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not _is_training(trainer) or "val/loss" not in trainer.callback_metrics:
            return
        loss = float(trainer.callback_metrics["val/loss"])
        if self.loss is None or loss < self.loss:
            comment = "the best so far"
            self.loss, self.step = loss, trainer.global_step
            trainer.save_checkpoint(Path(trainer.default_root_dir, "best.ckpt"))
            if trainer.is_global_zero:
                with averaged(trainer):
                    self.run.save_model()
        else:
            comment = f"best {self.loss:.4f} at step {self.step:,}"
        print_once(f"step {trainer.global_step:,}: validation {loss:.4f} nats/token, {comment}")


class LastCheckpoint(RunCallback, Checkpoint):
    """``last.ckpt``, from which the same command resumes bit for bit.

    It is written after each validation, ``minutes`` after it was last written, when a signal stops
    training, and after the last step. If a validation follows a step, it is written only after the
    validation: a run resumed from an earlier checkpoint of this step would skip the validation, as
    with ``train_time_interval`` of Lightning's ModelCheckpoint.
    """

    def __init__(self, minutes: float = 5.0) -> None:
        self.minutes = minutes
        self._saved_at = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._saved_at = time.monotonic()

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **options: Any) -> None:
        if not _is_training(trainer) or not ends_step(trainer, batch_idx=args[-1]):
            return
        if validation_follows(trainer):  # on_validation_end saves
            return
        is_due = time.monotonic() - self._saved_at >= 60 * self.minutes
        is_due = trainer.strategy.broadcast(is_due)  # all processes save at once
        if is_due or self.run.stop.agreed or trainer.fit_loop.done:
            self._save(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if _is_training(trainer):
            self._save(trainer)

    def _save(self, trainer: pl.Trainer) -> None:
        for logger in trainer.loggers:
            logger.save()  # the log on disk must include the steps of the checkpoint
        trainer.save_checkpoint(Path(trainer.default_root_dir, "last.ckpt"))
        self._saved_at = time.monotonic()


class Samples(RunCallback):
    """Composes a short piece with the current weights after each validation, into
    ``samples/step-000200.mid``, and .png if an optional component draws piano rolls.

    If composing fails, a line is printed and training continues.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not _is_training(trainer) or not trainer.is_global_zero:
            return
        if self.run.stop.received or not self.seconds:
            return
        step = trainer.global_step
        try:
            with averaged(trainer):
                score = self.run.sample(self.seconds)
            path = Path(trainer.default_root_dir, "samples", f"step-{step:06}.mid")
            formats.write(score, path)
            if ".png" in registry.WRITERS:
                formats.write(score, path.with_suffix(".png"))
            print_once(f"  sample with {len(score):,} notes: {path}")
        except Exception as error:  # a failed sample must not end training
            print_once(f"  no sample at step {step:,}: {type(error).__name__}: {error}")


def _is_training(trainer: Any) -> bool:
    """Whether this is training, not the validation before it or a ``fast_dev_run``."""
    in_fit = trainer.state.fn == "fit" and not trainer.sanity_checking
    return bool(in_fit and not trainer.fast_dev_run)
