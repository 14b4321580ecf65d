"""Lightning's fit, with what may go wrong said in one sentence, and how a run ends.

A run ends by itself (``keep_best``) or is stopped by a signal (``stopped``); either way a model
folder is left.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytorch_lightning as pl
from pytorch_lightning.utilities.exceptions import MisconfigurationException, SIGTERMException
from safetensors import SafetensorError

from musictx.data.module import MusicDataModule
from musictx.errors import UserError, WriteError
from musictx.training import checkpoint, ranks, runs
from musictx.training.callbacks import Run
from musictx.training.card import best
from musictx.training.clock import clock
from musictx.training.ema import averaged
from musictx.training.lit import LitMusicTransformer
from musictx.training.stopping import Stopped

#: What to do after a failed write.
WAY_ON = "what last.ckpt holds is kept: when there is space, the same command goes on"


def fit(
    lit: LitMusicTransformer,
    data: MusicDataModule,
    trainer: pl.Trainer,
    path: Path | None,
) -> None:
    """``trainer.fit``, from the checkpoint ``path`` if any; what a disk or a checkpoint can
    do wrong is said in one sentence."""
    batches = Batches()
    trainer.callbacks.append(batches)  # type: ignore[attr-defined]
    try:
        trainer.fit(lit, data, ckpt_path=path, weights_only=True)
    except SIGTERMException as error:  # heard by Lightning, before its ear was taken away
        raise Stopped from error
    except runs.FolderGone:
        raise
    except WriteError as error:
        raise WriteError(f"{error}; {WAY_ON}") from error
    except UserError:
        raise
    except MisconfigurationException as error:  # such as a callback that wants a logger
        raise UserError(" ".join(str(error).split())) from error
    except (OSError, SafetensorError) as error:
        reason = f"{getattr(error, 'filename', None) or trainer.default_root_dir}: {error}"
        raise WriteError(f"{reason}: cannot be written; {WAY_ON}") from error
    except Exception as error:  # Lightning and torch check little of what a checkpoint holds
        if ranks.is_of_another(error):
            sentence = "another process of this training has ended; the same command goes on"
            raise ranks.RankGone(sentence) from error
        if path is None or batches.done:
            raise
        raise _not_of_this_model(path, error) from error


class Batches(pl.Callback):
    """Whether a batch has been trained on: if so, a checkpoint fitted."""

    done = False

    def on_train_batch_end(self, *_: object) -> None:
        self.done = True


def _not_of_this_model(path: Path, error: Exception) -> UserError:
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    return UserError(f"{path}: not of this model ({reason}); delete it, or give another out=")


def stopped(folder: runs.RunFolder, trainer: pl.Trainer, known: Run, *, at_once: bool) -> None:
    """Say where things are, and end the program as the signal asked."""
    if trainer.is_global_zero:
        if folder.checkpoint is None:
            known.say(f"stopped at step {trainer.global_step:,}, before the first checkpoint")
        else:
            step = checkpoint.read(folder.checkpoint)["global_step"]
            known.say(f"stopped; the state at step {step:,} is in {folder.checkpoint}")
            known.say("go on with the same command")
        if not at_once and not folder.model.is_dir():
            with averaged(trainer):
                known.save_model(trainer)
        if folder.model.is_dir():
            lowest, step = best(trainer)
            quality = f"validation {lowest:.4f} at step {step:,}" if lowest else "not validated yet"
            known.say(f"model so far: {folder.model} ({quality})")
    if known.stop.signal == signal.SIGTERM or not trainer.is_global_zero:
        raise SystemExit(128 + (known.stop.signal or signal.SIGINT))
    raise KeyboardInterrupt


def keep_best(
    folder: runs.RunFolder,
    lit: LitMusicTransformer,
    trainer: pl.Trainer,
    save_model: Callable[[pl.Trainer], object],
) -> None:
    """The model folder of the best checkpoint (the last, where nothing was validated)."""
    path = folder.best or folder.checkpoint
    if path is not None:
        try:
            lit.load_state_dict(checkpoint.read(path)["state_dict"])
        except (RuntimeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise _not_of_this_model(path, error) from error
    lit.cpu()
    save_model(trainer)
    folder.write_status(
        finished=True,
        step=trainer.global_step,
        seconds=clock(trainer).time_elapsed(),
        validation_loss=loss(trainer),
    )


def loss(trainer: pl.Trainer) -> float | None:
    """The best validation, or the latest where none was kept."""
    latest = trainer.callback_metrics.get("val/loss")
    return best(trainer)[0] or (None if latest is None else float(latest))
