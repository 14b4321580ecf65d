"""What happens at the end of a step and at each validation: checkpoints, samples, stopping."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn

from musictx import midi
from musictx.notes import Score
from musictx.train import checkpoint
from musictx.train.lit import Training
from musictx.train.stopping import Stopped, StopRequest

#: Seconds after which a checkpoint is written between two validations.
CHECKPOINT_SECONDS = 300.0

LAST, BEST = "last.ckpt", "best.ckpt"

#: Writes the model folder: (model with the weights to keep, the training it comes from).
SaveModel = Callable[[nn.Module, Training], None]
#: Draws a score into a PNG file.
Draw = Callable[[Score, Path], object]
#: (model, seconds, seed) -> a piece of about so many seconds
Sample = Callable[[nn.Module, float, int], Score]
Say = Callable[[str], None]


class Checkpoints(pl.Callback):
    """Keeps ``last.ckpt``, ``best.ckpt`` and the model folder of the best validation; stops a run.

    folder      of the run;  extra  goes into each checkpoint beside the training state
    request     set by Ctrl-C: the state is saved at the end of the step and ``Stopped`` is raised
    save_model  called at each best validation (each one, if nothing is held out to validate on)

    A kill at any moment leaves a ``last.ckpt`` from which the run goes on: the files that depend on
    it are written before it, and writing them again changes nothing.
    """

    def __init__(
        self,
        folder: Path,
        *,
        validate_every: int,
        request: StopRequest,
        save_model: SaveModel,
        say: Say = print,
        extra: Mapping[str, Any] | None = None,
        seconds: float = CHECKPOINT_SECONDS,
    ) -> None:
        self.folder = folder
        self.validate_every = validate_every
        self.request = request
        self.save_model = save_model
        self.say = say
        self.extra = dict(extra or {})
        self.seconds = seconds
        self._saved_at = time.monotonic()

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._saved_at = time.monotonic()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        assert isinstance(pl_module, Training)
        if (args[-1] + 1) % pl_module.accumulate:
            return
        due = time.monotonic() - self._saved_at > self.seconds
        stop, over, due = _agree(trainer, bool(self.request), pl_module.finished, due)
        if over:
            trainer.should_stop = True  # Lightning validates, then ends the epoch
        elif pl_module.step % self.validate_every == 0:
            pass  # likewise: a stop waits for it, so that a resumed run has nothing to make up
        elif stop:
            self._write_last(trainer, pl_module)
            raise Stopped
        elif due:
            self._write_last(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Training)
        training = pl_module
        training.drain()
        nll = training.validation_nll
        before = training.best
        is_best = nll is None or before is None or nll < before["nll"]
        if nll is not None and is_best:
            training.best = {"nll": nll, "step": training.step}
        self._flush(trainer)
        state = self._state(training)
        if trainer.is_global_zero:
            if is_best:
                with averaged(training):
                    self.save_model(training.model, training)
                checkpoint.write(self.folder / BEST, state)
                checkpoint.copy(self.folder / BEST, self.folder / LAST)
            else:
                checkpoint.write(self.folder / LAST, state)
            self._report(training, is_best)
        self._saved_at = time.monotonic()
        (stop,) = _agree(trainer, bool(self.request))
        if stop and not training.finished:
            raise Stopped

    def _report(self, training: Training, is_best: bool) -> None:
        if training.validation_nll is None:
            self.say(f"step {training.step:,}: checkpoint (no pieces are held out to validate on)")
            return
        best = training.best
        assert best is not None
        note = "the best so far" if is_best else f"best {best['nll']:.4f} at step {best['step']:,}"
        self.say(
            f"step {training.step:,}: validation {training.validation_nll:.4f} nats/token, {note}"
        )

    def _write_last(self, trainer: pl.Trainer, training: Training) -> None:
        training.drain()
        self._flush(trainer)
        state = self._state(training)
        if trainer.is_global_zero:
            checkpoint.write(self.folder / LAST, state)
        self._saved_at = time.monotonic()

    def _state(self, training: Training) -> dict[str, Any]:
        return {**training.state(), **self.extra}

    @staticmethod
    def _flush(trainer: pl.Trainer) -> None:
        """The log on disk is never behind a checkpoint."""
        for logger in trainer.loggers:
            logger.save()


class Samples(pl.Callback):
    """At each validation a short piece by the model as it is, ``samples/step-000200.mid`` and .png.

    The seed is always the same, so that the pictures show what training changed. Whatever goes
    wrong with a sample is told and training goes on.
    """

    def __init__(
        self,
        folder: Path,
        sample: Sample,
        draw: Draw,
        *,
        seconds: float,
        seed: int,
        request: StopRequest | None = None,
        say: Say = print,
    ) -> None:
        self.folder = folder
        self.sample = sample
        self.draw = draw
        self.seconds = seconds
        self.seed = seed
        self.request = request
        self.say = say

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Training)
        if not trainer.is_global_zero or self.request:
            return
        training = pl_module.model.training
        try:
            pl_module.model.eval()
            with torch.no_grad(), averaged(pl_module):
                score = self.sample(pl_module.model, self.seconds, self.seed)
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"step-{pl_module.step:06}.mid"
            midi.write(score, path)
            self.draw(score, path.with_suffix(".png"))
            self.say(f"  sample with {len(score):,} notes: {path}")
        except Exception as error:  # the sample is a convenience; hours of training are not
            self.say(f"  no sample at step {pl_module.step:,}: {type(error).__name__}: {error}")
        finally:
            pl_module.model.train(training)


def averaged(training: Training) -> Any:
    """A context in which the model has its averaged weights, if the run keeps them."""
    return nullcontext() if training.ema is None else training.ema.swapped(training.model)


def _agree(trainer: pl.Trainer, *wishes: bool) -> list[bool]:
    """What the first rank wishes, known to all: ranks that part company hang for ever."""
    if trainer.world_size == 1:
        return list(wishes)
    mine = [float(w and trainer.is_global_zero) for w in wishes]
    told = torch.tensor(mine, device=trainer.strategy.root_device)
    return [bool(w) for w in trainer.strategy.reduce(told, reduce_op="sum").tolist()]
