"""What happens in a run besides learning: checkpoints, stopping, samples.

All are Lightning callbacks and work in any ``Trainer``; what they need to know of the run they
belong to (``RunCallback.run``) is given to them by ``apps/train.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from musictx import midi
from musictx.notes import Score
from musictx.training.ema import averaged
from musictx.training.stopping import Stopped, StopRequest


@dataclass
class Run:
    """What the callbacks know of the run they are in.

    save_model  writes the model folder from the module's weights as they are
    sample      (seconds, seed) -> a piece by the network as it is;  draw  a score into a PNG file
    say         tells the person at the terminal;  stop  set by Ctrl-C
    """

    save_model: Callable[[pl.Trainer], object] = lambda trainer: None
    sample: Callable[[float, int], Score] | None = None
    draw: Callable[[Score, Path], object] = lambda score, path: None
    say: Callable[[str], object] = print
    stop: StopRequest = field(default_factory=StopRequest)
    seed: int = 0
    #: Raises where the run folder has gone.
    check: Callable[[], object] = lambda: None


class RunCallback:
    """A callback that is told of its run before training begins."""

    run: Run = Run()


class _InRunFolder(RunCallback, ModelCheckpoint):
    """A ``ModelCheckpoint`` that writes one file into the run folder, which may be moved."""

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if self.dirpath is None:
            self.dirpath = str(Path(trainer.default_root_dir).absolute())
        super().setup(trainer, pl_module, stage)

    def _save_checkpoint(self, trainer: pl.Trainer, filepath: str) -> None:
        self.run.check()
        super()._save_checkpoint(trainer, filepath)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The paths in the state are those of the folder as it was called then."""
        here = str(self.dirpath)

        def moved(path: str) -> str:
            return str(Path(here, Path(path).name)) if path else path

        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        best = {moved(path): score for path, score in state_dict["best_k_models"].items()}
        for score in (state_dict["best_model_score"], *best.values()):
            if not isinstance(score, (torch.Tensor, type(None))):
                raise TypeError(f"a validation loss is {score!r}")
        changed = {name: moved(state_dict[name]) for name in paths}
        super().load_state_dict(
            {**state_dict, **changed, "best_k_models": best, "dirpath": self.dirpath}
        )


class BestCheckpoint(_InRunFolder):
    """``best.ckpt`` and the model folder: rewritten whenever ``val/loss`` is the lowest so far."""

    def __init__(self, filename: str = "best", monitor: str = "val/loss", **options: Any) -> None:
        super().__init__(
            filename=filename, monitor=monitor, enable_version_counter=False, **options
        )
        self.step = 0  # of the best validation

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "step": self.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.step = state_dict["step"]

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking or _is_trial(trainer):
            return
        loss = trainer.callback_metrics.get("val/loss")
        if loss is None:
            return  # nothing is held out to validate on
        super().on_validation_end(trainer, pl_module)
        is_best = self.step == trainer.global_step
        note = (
            "the best so far"
            if is_best
            else f"best {float(self.best_model_score or 0):.4f} at step {self.step:,}"
        )
        if trainer.is_global_zero:
            if is_best:
                with averaged(trainer):
                    self.run.save_model(trainer)
            self.run.say(
                f"step {trainer.global_step:,}: validation {float(loss):.4f} nats/token, {note}"
            )

    def _save_checkpoint(self, trainer: pl.Trainer, filepath: str) -> None:
        self.step = trainer.global_step  # before saving: it is part of the state
        super()._save_checkpoint(trainer, filepath)


class _Listens(RunCallback, pl.Callback):
    """Takes the signals back, to which Lightning puts its own ear after ``on_fit_start``."""

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.run.stop.listen()

    def on_sanity_check_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.run.stop.listen()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self.run.stop.listen()


class LastCheckpoint(_Listens, _InRunFolder):
    """``last.ckpt``: from which the run goes on, bit for bit.

    Written at each validation, after ``minutes`` without one, at the last step and when the run is
    asked to stop; always between two optimizer steps, and after all that depends on it.
    """

    def __init__(self, filename: str = "last", minutes: float = 5.0, **options: Any) -> None:
        super().__init__(
            filename=filename,
            train_time_interval=timedelta(minutes=minutes),
            enable_version_counter=False,
            **options,
        )
        self._saved = self._stops = False  # since the last batch began

    def on_train_batch_start(self, trainer: pl.Trainer, *args: Any) -> None:
        """By now Lightning has handed the row of the step that was saved to the loggers."""
        if self._saved:
            _write_logs(trainer)
        self._saved = False
        if self._stops:
            raise Stopped

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        batch = args[-1] + 1
        if batch % trainer.accumulate_grad_batches:
            return
        stop = agreed(trainer, self.run.stop)
        ends = trainer.should_stop and trainer.fit_loop._can_stop_early  # min_steps are done
        over = ends or trainer.global_step >= trainer.max_steps > 0
        validates = bool(trainer.limit_val_batches) and any(_sizes(trainer))
        total = trainer.fit_loop.total_batch_idx + 1
        if validates and (over or total % trainer.val_check_interval == 0):
            return  # it is written after the validation
        if stop or over or total % trainer.val_check_interval == 0:
            self._save(trainer)
        else:
            super().on_train_batch_end(trainer, pl_module, *args)
        self._stops = stop and not over

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        self._save(trainer)
        stop = agreed(trainer, self.run.stop)
        if stop and not trainer.should_stop and trainer.global_step != trainer.max_steps:
            raise Stopped

    def _save_checkpoint(self, trainer: pl.Trainer, filepath: str) -> None:
        super()._save_checkpoint(trainer, filepath)
        self._saved = True

    def _save(self, trainer: pl.Trainer) -> None:
        if self._should_skip_saving_checkpoint(trainer):
            return
        _write_logs(trainer)  # the log on disk is not behind the checkpoint
        self._save_topk_checkpoint(trainer, self._monitor_candidates(trainer))


class StopBetweenSteps(_Listens):
    """Ends a run without ``LastCheckpoint`` after the step in which it is asked to stop."""

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **options: Any) -> None:
        between = (args[-1] + 1) % trainer.accumulate_grad_batches == 0
        if between and agreed(trainer, self.run.stop):
            raise Stopped


def _is_trial(trainer: Any) -> bool:
    return bool(trainer.fast_dev_run)


def _write_logs(trainer: pl.Trainer) -> None:
    for logger in trainer.loggers:
        logger.save()


def _sizes(trainer: pl.Trainer) -> list[int | float]:
    batches: Any = trainer.num_val_batches
    return list(batches) if isinstance(batches, list) else [batches]


class Samples(RunCallback, pl.Callback):
    """At each validation a short piece by the model as it is: ``samples/step-000200.mid``, .png.

    The seed is always the same, so that the pictures show what training changed. Whatever goes
    wrong with a sample is told and training goes on.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        run, step = self.run, trainer.global_step
        fitting = trainer.state.fn == "fit" and not trainer.sanity_checking
        if not fitting or not trainer.is_global_zero or _is_trial(trainer) or run.stop:
            return
        if run.sample is None or not self.seconds:
            return
        training = pl_module.training
        try:
            pl_module.eval()
            with torch.no_grad(), averaged(trainer):
                score = run.sample(self.seconds, run.seed)
            path = Path(trainer.default_root_dir, "samples", f"step-{step:06}.mid")
            path.parent.mkdir(parents=True, exist_ok=True)
            midi.write(score, path)
            run.draw(score, path.with_suffix(".png"))
            run.say(f"  sample with {len(score):,} notes: {path}")
        except Exception as error:  # the sample is a convenience; hours of training are not
            run.say(f"  no sample at step {step:,}: {type(error).__name__}: {error}")
        finally:
            pl_module.train(training)


def agreed(trainer: pl.Trainer, stop: StopRequest) -> bool:
    """Whether any rank was asked to stop, by a signal which then is that of all: ranks that part
    company hang for ever."""
    if trainer.world_size == 1:
        return bool(stop)
    mine = torch.tensor(float(stop.signal or 0), device=trainer.strategy.root_device)
    heard = int(trainer.strategy.reduce(mine, reduce_op="max"))
    if heard:  # one that came to this rank meanwhile is agreed on after the next step
        stop.signal = heard
    return heard > 0
