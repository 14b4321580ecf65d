"""The lines that ``musictx train`` prints before and after training, and the card of the model."""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from musictx.config import TrainConfig
from musictx.data.shards import Shards
from musictx.data.windows import EvaluationWindows
from musictx.training import checkpoint
from musictx.training.callbacks import BestCheckpoint
from musictx.training.lit import LitMusicTransformer
from musictx.training.progress import clock, compact, duration, share_done
from musictx.training.run_folder import RunFolder
from musictx.training.trainer import describe_device

#: With more parameters than this for each training token the model will overfit.
MOST_PARAMETERS_PER_TOKEN = 20


def header(
    config: TrainConfig, shards: Shards, lit: LitMusicTransformer, trainer: pl.Trainer
) -> str:
    """The lines before training: corpus, model, length and folder of the run, and warnings."""
    train, held_out = shards.totals("train"), shards.totals("validation")
    parameters = sum(p.numel() for p in lit.model.parameters())
    shape = lit.hparams["network"]
    steps = config.trainer.max_steps
    length = f"{steps:,} steps" if steps > 0 else "steps without end"
    trial = int(config.trainer.fast_dev_run)
    if trial:
        length = f"a trial of {trial} step{'s' * (trial > 1)}"
    elif config.trainer.seconds is not None:
        length = f"{duration(config.trainer.seconds)} of steps"
    lines = [
        f"corpus  {shards.corpus['name']}: {train}; {held_out.pieces:,} held out",
        f"model   {parameters:,} parameters: {shape['layers']} layers, width {shape['width']}, "
        f"context {shape['context']} tokens, positions {shape['position']['name']}",
        f"train   {length} of {rows_per_step(config, trainer)} x {shape['context']} tokens on "
        f"{describe_device(trainer)}, learning rate {lit.optim['lr']:.2g}",
    ]
    if trial:
        return "\n".join(lines)
    lines.append(f"run     {trainer.default_root_dir}")
    if config.trainer.seconds is not None:
        lines.append("note    ends by the clock: the same command will not give the same weights")
    if parameters > MOST_PARAMETERS_PER_TOKEN * train.tokens and config.init is None:
        lines.append(
            f"note    {train.tokens:,} tokens are few for {parameters:,} parameters: the model "
            "will overfit; init=FOLDER (fine-tuning) or a smaller model does better"
        )
    return "\n".join(lines)


def summary(
    config: TrainConfig,
    shards: Shards,
    lit: LitMusicTransformer,
    trainer: pl.Trainer,
    initial_loss: float | None,
) -> str:
    """The lines after training: results and the next commands. ``initial_loss`` is the
    validation loss before the first step, if it was measured."""
    lines = [
        f"trained {trainer.global_step:,} steps on {compact(lit.tokens)} tokens "
        f"in {duration(clock(trainer).time_elapsed())}"
    ]
    loss, step = best(trainer)
    folder = Path(trainer.default_root_dir)
    guessing = math.log(lit.hparams["network"]["vocab_size"])
    if loss is not None:
        where = f"at step {step:,} ({windows(config, shards, lit)})"
        lines.append(f"best    {loss:.4f} nats/token in validation, {where}")
    if loss is not None and loss > guessing:
        lines.append(
            f"note    guessing has {guessing:.4f} nats/token (log of the vocabulary): training "
            f"diverged, or has hardly begun; try a lower optim.lr (it was {lit.optim['lr']:.2g}) "
            f"or a longer optim.warmup (it was {lit.optim['warmup']}), with another out="
        )
    if loss is not None and initial_loss is not None:
        verdict = "better" if loss < initial_loss else "not better: keep the model you started from"
        lines.append(f"before  {initial_loss:.4f} nats/token, before the first step; {verdict}")
    lines.append(f"model   {folder / 'model'}")
    if (folder / "samples").is_dir():
        lines.append(f"samples {folder / 'samples'}")
    model = shlex.quote(str(folder / "model"))
    lines.append(f"try     musictx generate model={model} render=true")
    lines.append(f"        musictx evaluate model={model}")
    return "\n".join(lines)


def already_trained(folder: RunFolder) -> str:
    """The lines for a run that was finished before: its model, and how to train longer."""
    state = folder.status()
    return (
        f"already trained: {folder.path} has {state.step:,} steps "
        f"({duration(state.seconds)}); with out={folder.path} a larger trainer.max_steps or "
        f"trainer.max_time trains on, another out= starts again\nmodel   {folder.model}"
    )


def stopped(folder: RunFolder, trainer: pl.Trainer) -> str:
    """The lines after a signal: the checkpoint and the model folder."""
    if not folder.last.is_file():
        lines = [f"stopped at step {trainer.global_step:,}, before the first checkpoint"]
    else:
        step = checkpoint.read(folder.last)["global_step"]
        lines = [f"stopped; the state at step {step:,} is in {folder.last}"]
        lines.append("the same command resumes")
    if folder.model.is_dir():
        loss, step = best(trainer)
        quality = f"validation {loss:.4f} at step {step:,}" if loss else "not validated yet"
        lines.append(f"model so far: {folder.model} ({quality})")
    return "\n".join(lines)


def card(
    config: TrainConfig, shards: Shards, lit: LitMusicTransformer, trainer: pl.Trainer
) -> dict[str, Any]:
    """The card of the best weights so far, for ``bundle.save``. ``musictx evaluate`` finds the
    corpus by its name, path, shards and held out."""
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
        "tokens seen": lit.tokens,
        "minutes": round(clock(trainer).time_elapsed() / 60, 2),
        "device": describe_device(trainer),
        "precision": str(trainer.precision),
        "batch": rows_per_step(config, trainer),
        "optimizer": lit.optim,
        "seed": config.seed,
        "init": config.init,
        "torch": str(torch.__version__),
        "lightning": pl.__version__,
    }
    loss, step = best(trainer)
    numbers = {
        "validation, nats per token": loss,
        "of step": None if loss is None else step,
        "protocol": f"{windows(config, shards, lit)} cut end to end from the pieces held out, no "
        "context carried over, no augmentation, padding not counted, ends of pieces not counted, "
        "weighted by tokens",
    }
    sources = "corpus named above" if config.init is None else "corpora of this and the init model"
    return {
        "title": f"A Music Transformer trained on {shards.corpus['name']}",
        "command": command_line(),
        "corpus": corpus,
        "training": training,
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
    """The number of windows in an optimizer step, on all devices together."""
    return config.data.batch_size * config.trainer.accumulate_grad_batches * trainer.world_size


def windows(config: TrainConfig, shards: Shards, lit: LitMusicTransformer) -> str:
    """How many windows of validation there are, and of how many tokens."""
    context = lit.hparams["network"]["context"]
    total = len(EvaluationWindows(shards, "validation", context))
    measured = min(config.data.validation_windows or total, total)
    return f"{measured} of {total} windows of {context} tokens"


def command_line() -> str:
    """The command line, or a remark if training was called from Python."""
    if Path(sys.argv[0]).name in ("musictx", "__main__.py"):
        return shlex.join(["musictx", *sys.argv[1:]])
    return "musictx.apps.train.run (called from Python)"
