"""The card of a trained model: corpus, training, numbers, licence."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from musictx.config import TrainConfig
from musictx.data.shards import Shards
from musictx.data.windows import EvaluationWindows
from musictx.training.callbacks import BestCheckpoint
from musictx.training.clock import clock, share
from musictx.training.lit import LitMusicTransformer
from musictx.training.trainer import describe_device


def card(
    config: TrainConfig, shards: Shards, trained: LitMusicTransformer, trainer: pl.Trainer
) -> dict[str, Any]:
    """The card of the best weights of ``trained`` so far, as ``bundle.save`` takes it.

    ``evaluate/app.py`` reads ``corpus`` (name, path, shards, held out) to measure on it again.
    """
    train, held_out = shards.totals("train"), shards.totals("validation")
    path = config.corpus.path
    given = path if isinstance(path, list) else [path] if path else []
    paths = [str(Path(one).expanduser().resolve()) for one in given]
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
    loss, step = best(trainer)
    context = int(trained.hparams["network"]["context"])
    windows = protocol(shards, context, config.data.validation_windows)
    numbers = {
        "validation, nats per token": loss,
        "of step": None if loss is None else step,
        "protocol": f"{windows} cut end to end from the pieces held out, no context carried over, "
        "no augmentation, padding not counted, ends of pieces not counted, weighted by tokens",
    }
    details = {
        "finished": share(trainer) >= 1,
        "steps": trainer.global_step,
        "tokens seen": trained.tokens,
        "minutes": round(clock(trainer).time_elapsed() / 60, 2),
        "device": describe_device(trainer),
        "precision": str(trainer.precision),
        "batch": rows_per_step(config, trainer),
        "optimizer": trained.optim,
        "seed": config.seed,
        "init": config.init,
        "torch": str(torch.__version__),
        "lightning": pl.__version__,
    }
    sources = "corpus named above" if config.init is None else "corpora of this and the init model"
    return {
        "title": f"A Music Transformer trained on {shards.corpus['name']}",
        "command": command_line(),
        "corpus": corpus,
        "training": details,
        "numbers": numbers,
        "licence": f"The weights were learnt from the {sources}: the terms of that music apply to "
        "them and to what they play. musictx itself is under the MIT licence.",
    }


def best(trainer: pl.Trainer) -> tuple[float | None, int]:
    """(nats per token, step) of the best validation of the run; (None, 0) if there was none."""
    for callback in trainer.checkpoint_callbacks:
        if isinstance(callback, BestCheckpoint):
            return callback.loss, callback.step
    return None, 0


def rows_per_step(config: TrainConfig, trainer: pl.Trainer) -> int:
    """Windows of one optimizer step, on all devices together."""
    return config.data.batch_size * config.trainer.accumulate_grad_batches * trainer.world_size


def protocol(shards: Shards, context: int, windows: int) -> str:
    """The windows that validation measures: ``windows`` of them, 0 = all."""
    total = len(EvaluationWindows(shards, "validation", context))
    return f"{min(windows or total, total)} of {total} windows of {context} tokens"


def command_line() -> str:
    """The command line, or a remark where training was called from Python."""
    if Path(sys.argv[0]).name in ("musictx", "__main__.py"):
        return shlex.join(["musictx", *sys.argv[1:]])
    return "musictx.apps.train.run (called from Python)"
