"""A run of ``musictx train``: its modules and Trainer, and what it writes into its model folder."""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.exceptions import MisconfigurationException
from safetensors import SafetensorError

from musictx import bundle
from musictx.config import GenerateConfig, TrainConfig
from musictx.data.module import MusicDataModule
from musictx.data.shards import Shards
from musictx.data.statistics import of_corpus
from musictx.data.windows import EvaluationWindows
from musictx.errors import UserError, WriteError, reason
from musictx.model.config import alignment
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling.composer import continuations
from musictx.sampling.primer import NO_PRIMER
from musictx.sampling.steer import Steering
from musictx.tokens.tokenizer import Tokenizer
from musictx.training import checkpoint
from musictx.training.callbacks import BestCheckpoint, Ema, RunCallback, averaged
from musictx.training.lit import LitMusicTransformer
from musictx.training.optimizer import optimizer_options
from musictx.training.progress import Progress, share_done, timer
from musictx.training.ranks import print_once
from musictx.training.run_folder import RunFolder
from musictx.training.signals import Stopped, StopSignal
from musictx.training.trainer import build_trainer, describe_device, instantiate

#: The most tokens per second of a sample, since an untrained model writes hardly any time shifts.
TOKENS_PER_SECOND = 60


class Run:
    """A run with the options ``config`` in ``folder``, new or resumed.

    lit      the LightningModule of the network
    data     the LightningDataModule of the corpus
    stop     receives Ctrl-C and SIGTERM
    trainer  the Trainer with the callbacks and loggers of ``config``

    Raises ``UserError`` for an invalid callback, logger, device or flag.
    """

    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        shards: Shards,
        tokenizer: Tokenizer,
        model: MusicTransformer,
    ) -> None:
        self.config, self.folder, self.shards = config, folder, shards
        self.tokenizer, self.model = tokenizer, model
        optim = optimizer_options(config, model.config.width)
        self.lit = LitMusicTransformer(
            model.config.plain(), optim, tokenizer.to_config(), config.seed, model=model
        )
        self.data = MusicDataModule(
            shards,
            tokenizer,
            context=model.config.context,
            augment=config.corpus.augment,
            align=alignment(model.config, tokenizer),
            seed=config.seed,
            **dataclasses.asdict(config.data),
        )
        self.limits = of_corpus(shards, tokenizer)
        self.stop = StopSignal()
        self.trainer = self._trainer()

    def _trainer(self) -> pl.Trainer:
        config, options, path = self.config, self.config.trainer, self.folder.path
        callbacks = [self.stop, *instantiate("callbacks", config.callbacks, path, pl.Callback)]
        for callback in callbacks:
            if isinstance(callback, RunCallback):
                callback.run = self
        has_bar = any(isinstance(c, pl.callbacks.ProgressBar) for c in callbacks)
        if options.flags["enable_progress_bar"] and not has_bar:
            callbacks.append(Progress())
        if config.optim.ema > 0:
            callbacks.append(Ema(config.optim.ema))
        if not self.shards.pieces("validation"):
            options = dataclasses.replace(options, flags=options.flags | {"limit_val_batches": 0})
        loggers: list[Any] | bool = bool(config.logger)  # in a fast_dev_run, Lightning's dummy
        if not options.fast_dev_run:
            loggers = instantiate("logger", config.logger, path, pl.loggers.Logger)
        return build_trainer(options, path, callbacks=callbacks, loggers=loggers)

    def fit(self, resume_from: Path | None) -> None:
        """Train, from the beginning or from the checkpoint ``resume_from``.

        Raises :class:`Stopped` after Ctrl-C or SIGTERM, ``WriteError`` for a full disk, and
        ``UserError`` for options that Lightning refuses and for a checkpoint of another model.
        """
        try:
            self.trainer.fit(self.lit, self.data, ckpt_path=resume_from, weights_only=True)
        except SystemExit as error:  # raised by Lightning: a second Ctrl-C, SIGTERM before a step
            if not self.stop.received:
                raise
            raise Stopped from error
        except (UserError, Stopped):
            raise
        except MisconfigurationException as error:  # such as a callback that needs a logger
            raise UserError(reason(error)) from error
        except (OSError, SafetensorError) as error:
            path = getattr(error, "filename", None) or self.folder.path
            raise WriteError(f"{path}: cannot be written: {error}") from error
        except Exception as error:  # Lightning and torch hardly check what is in a checkpoint
            if str(error).startswith("Early stopping conditioned on metric"):
                raise self._unknown_monitor() from error
            if resume_from is None or self.stop.started:
                raise
            raise _wrong_checkpoint(resume_from, error) from error

    def _unknown_monitor(self) -> UserError:
        """The error for an EarlyStopping whose metric is not logged."""
        metrics, stoppings = self.trainer.callback_metrics, self.trainer.early_stopping_callbacks
        monitors = ", ".join(c.monitor for c in stoppings if c.monitor not in metrics)
        logged = ", ".join(sorted(metrics))
        return UserError(f"callbacks: EarlyStopping, monitor={monitors}: expected one of {logged}")

    def save_model(self) -> None:
        """Write the model folder with the current weights."""
        card = {**self.card(), "note_limits": self.limits}
        bundle.save(self.folder.model, self.model, self.tokenizer, card)

    def save_best_model(self) -> None:
        """Write the model folder from the best checkpoint, or with the current weights if this run
        records no best one, and mark the run as finished."""
        path = self.folder.best
        with averaged(self.trainer):  # after training the weights are already the averages
            if self.best()[0] is not None and path.is_file():
                state = checkpoint.read(path)["state_dict"]
                try:
                    self.lit.load_state_dict(state)
                except (RuntimeError, KeyError, TypeError, ValueError, AttributeError) as error:
                    raise _wrong_checkpoint(path, error) from error
            self.lit.cpu()
            self.save_model()
        self.folder.write_status(
            finished=True,
            step=self.trainer.global_step,
            seconds=timer(self.trainer).time_elapsed(),
            validation_loss=self.validation_loss(),
        )

    def sample(self, seconds: float) -> Score:
        """Compose a piece with the current weights. The seed is the same each time, so that samples
        show the effect of training."""
        tokens = int(seconds * TOKENS_PER_SECOND) + 100
        request = GenerateConfig(
            seconds=seconds, tokens=tokens, sampling=self.config.sampling, end="cut"
        )
        # No control tokens: a model at the start of training does not know them.
        steering, seeds = Steering(targets=request.controls), [(self.config.seed, 0)]
        card, folder = {"note_limits": self.limits}, self.folder.model
        model = bundle.Bundle(self.model, self.tokenizer, card, folder)
        ((_, piece),) = continuations(model, [NO_PRIMER], request, seeds=seeds, steering=steering)
        return piece.score

    def validate_initial_model(self) -> float | None:
        """Return the validation loss before fine-tuning; None without validation."""
        if self.trainer.limit_val_batches == 0:
            return None
        self.trainer.validate(self.lit, self.data, verbose=False)
        loss = float(self.trainer.callback_metrics["val/loss"])
        print_once(f"before  {loss:.4f} nats/token in validation, before the first step")
        return loss

    def best(self) -> tuple[float | None, int]:
        """(nats per token, step) of the best validation of the run; (None, 0) if there was none."""
        for callback in self.trainer.checkpoint_callbacks:
            if isinstance(callback, BestCheckpoint):
                return callback.loss, callback.step
        return None, 0

    def validation_loss(self) -> float | None:
        """The best validation loss; the latest one if no callback records the best; None if there
        was no validation."""
        best, _ = self.best()
        latest = self.trainer.callback_metrics.get("val/loss") if best is None else best
        return None if latest is None else float(latest)

    def card(self) -> dict[str, Any]:
        """The model card, for ``bundle.save``. ``musictx evaluate`` finds the corpus by its entries
        "name", "path", "shards" and "held out"."""
        config, shards, trainer = self.config, self.shards, self.trainer
        train, held_out = shards.totals("train"), shards.totals("validation")
        folders = config.corpus.path or []
        folders = folders if isinstance(folders, list) else [folders]
        paths = [str(Path(folder).expanduser().resolve()) for folder in folders]
        corpus = {
            "name": config.corpus.name,
            "label": shards.corpus["name"],
            "path": paths[0] if len(paths) == 1 else paths or None,
            "shards": str(shards.folder.resolve()),
            "pieces": {"train": train.pieces, "validation": held_out.pieces},
            "hours": round(train.seconds / 3600, 3),
            "tokens": train.tokens,
            "held out": {"validation": config.corpus.validation, "test": config.corpus.test},
            "augmentation": dataclasses.asdict(config.corpus.augment),
        }
        if config.corpus.programs:
            corpus["programs"] = dict(config.corpus.programs)
        if config.data.tasks:
            corpus["tasks"] = {"shares": dict(config.data.tasks), "melody": config.data.melody}
        training = {
            "finished": share_done(trainer) >= 1,
            "steps": trainer.global_step,
            "tokens seen": self.lit.tokens,
            "minutes": round(timer(trainer).time_elapsed() / 60, 2),
            "device": describe_device(trainer),
            "precision": str(trainer.precision),
            "batch": self.rows_per_step(),
            "optimizer": self.lit.optim,
            "seed": config.seed,
            "init": config.init,
            "torch": str(torch.__version__),
            "lightning": pl.__version__,
        }
        loss, step = self.best()
        numbers = {
            "validation, nats per token": loss,
            "of step": None if loss is None else step,
            "protocol": f"{self.describe_windows()} cut end to end from the pieces held out, no "
            "context carried over, no augmentation, padding not counted, ends of pieces not "
            "counted, weighted by tokens",
        }
        sources = "corpora of this and the init model" if config.init else "corpus named above"
        return {
            "title": f"A Music Transformer trained on {shards.corpus['name']}",
            "command": command_line(),
            "corpus": corpus,
            "training": training,
            "numbers": numbers,
            "licence": f"The weights were learnt from the {sources}: the terms of that music apply "
            "to them and to what they play. musictx itself is under the MIT licence.",
        }

    def rows_per_step(self) -> int:
        """The number of windows in an optimizer step, on all devices together."""
        trainer = self.trainer  # a callback may change its number of accumulated batches
        return self.config.data.batch_size * trainer.accumulate_grad_batches * trainer.world_size

    def describe_windows(self) -> str:
        """The windows used in validation, such as "64 of 200 windows of 1024 tokens"."""
        total = len(EvaluationWindows(self.shards, "validation", self.data.window))
        measured = min(self.config.data.validation_windows or total, total)
        limit, size = self.trainer.limit_val_batches, self.config.data.batch_size
        size *= self.trainer.world_size  # windows in a batch on all devices
        batches = limit if isinstance(limit, int) else int(math.ceil(measured / size) * limit)
        measured = min(measured, batches * size)
        return f"{measured} of {total} windows of {self.data.window} tokens"


def _wrong_checkpoint(path: Path, error: Exception) -> UserError:
    """The error for a checkpoint of another model, or a damaged one."""
    return UserError(
        f"{path}: not of this model ({reason(error)}); delete it, or give another out="
    )


def command_line() -> str:
    """The command line, or a remark if training was called from Python."""
    if Path(sys.argv[0]).name in ("musictx", "__main__.py"):
        return shlex.join(["musictx", *sys.argv[1:]])
    return "musictx.apps.train.run (called from Python)"
