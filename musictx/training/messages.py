"""The lines that ``musictx train`` prints before and after training."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

import pytorch_lightning as pl

from musictx.config import TrainConfig
from musictx.data.shards import Shards
from musictx.training import checkpoint
from musictx.training.card import best, protocol, rows_per_step
from musictx.training.clock import clock
from musictx.training.lit import LitMusicTransformer
from musictx.training.muon import multiplies_bfloat16
from musictx.training.progress import compact, duration
from musictx.training.run_folder import RunFolder
from musictx.training.trainer import describe_device
from musictx.untrusted import TRUST

#: More parameters than this for each token to train on: the model will overfit.
MOST_PARAMETERS_PER_TOKEN = 20


def header(
    config: TrainConfig,
    shards: Shards,
    lit: LitMusicTransformer,
    trainer: pl.Trainer,
    folder: Path,
) -> str:
    """Corpus, model, length and folder of a run, and warnings."""
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
        f"corpus  {shards.corpus['name']}: {train}; {held_out.pieces:,} pieces held out",
        f"model   {parameters:,} parameters: {shape['layers']} layers, width {shape['width']}, "
        f"context {shape['context']} tokens, positions {shape['position']['name']}",
        f"train   {length} of {rows_per_step(config, trainer)} x {shape['context']} tokens on "
        f"{describe_device(trainer)}, learning rate {lit.optim['lr']:.2g}",
    ]
    lines += _on_precision(config.trainer.precision, trainer)
    if trial:
        return "\n".join(lines)
    lines.append(f"run     {folder}")
    if config.trainer.seconds is not None:
        lines.append("note    ends by the clock: the same command will not give the same weights")
    if parameters > MOST_PARAMETERS_PER_TOKEN * train.tokens and config.init is None:
        lines.append(
            f"note    {train.tokens:,} tokens are few for {parameters:,} parameters: the model "
            "will overfit; init=FOLDER (fine-tuning) or a smaller model does better"
        )
    return "\n".join(lines)


def _on_precision(precision: str, trainer: pl.Trainer) -> list[str]:
    """Where a CPU replaces the number format of ``trainer.precision``, or emulates it."""
    device, used = trainer.strategy.root_device, str(trainer.precision)
    lines: list[str] = []
    if device.type != "cpu":
        return lines
    if precision.startswith("16") and used == "bf16-mixed":
        lines.append(f"note    trainer.precision={precision} is not for a CPU; here it is {used}")
    if used.startswith("bf16") and not multiplies_bfloat16(device):
        lines.append(
            "note    this CPU emulates bfloat16, which mostly is slower than float32: "
            "trainer.precision=fast is float32 here"
        )
    return lines


def summary(
    config: TrainConfig,
    shards: Shards,
    lit: LitMusicTransformer,
    trainer: pl.Trainer,
    folder: Path,
    before: float | None,
) -> str:
    """The result of a run, and the next commands; ``before``: validation before the first step."""
    lines = [
        f"trained {trainer.global_step:,} steps on {compact(lit.tokens)} tokens "
        f"in {duration(clock(trainer).time_elapsed())}"
    ]
    loss, step = best(trainer)
    if loss is not None:
        windows = protocol(
            shards, lit.hparams["network"]["context"], config.data.validation_windows
        )
        lines.append(f"best    {loss:.4f} nats/token in validation, at step {step:,} ({windows})")
    guessing = math.log(lit.hparams["network"]["vocab_size"])
    if loss is not None and loss > guessing:
        lines.append(
            f"note    guessing has {guessing:.4f} nats/token (log of the vocabulary): training "
            f"diverged, or has hardly begun; try a lower optim.lr (it was {lit.optim['lr']:.2g}) "
            f"or a longer optim.warmup (it was {lit.optim['warmup']}), with another out="
        )
    if before is not None and loss is not None:
        verdict = "better" if loss < before else "not better: keep the model you started from"
        lines.append(f"before  {before:.4f} nats/token, before the first step; {verdict}")
    model = shlex.quote(str(folder / "model"))
    lines.append(f"model   {folder / 'model'}")
    if (folder / "samples").is_dir():
        lines.append(f"samples {folder / 'samples'}")
    trust = _trust(config, lit)
    lines.append(f"try     {trust}musictx generate model={model} render=true")
    lines.append(f"        {trust}musictx evaluate model={model}")
    return "\n".join(lines)


def finished(folder: RunFolder) -> str:
    """Where the model of a finished run is, and what to type for more."""
    status = folder.status()
    return (
        f"already trained: {folder.path} has {status['step']:,} steps "
        f"({duration(status['seconds'])}); with out={folder.path} a larger trainer.max_steps or "
        f"trainer.max_time trains on, another out= starts again\nmodel   {folder.model}"
    )


def stopped(folder: RunFolder, trainer: pl.Trainer) -> str:
    """Where the state of a run is that a signal has stopped, and its model."""
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


def _trust(config: TrainConfig, lit: LitMusicTransformer) -> str:
    """The environment variable by which :mod:`musictx.untrusted` imports the user's own classes
    that the model folder names; empty where there are none."""
    network, tokenizer = lit.hparams["network"], lit.hparams["tokenizer"]
    parts = [network["position"], *network.get("features", []), tokenizer]
    names = [str(part.get("name")) for part in parts] + [config.corpus.name]
    modules = dict.fromkeys(name.partition(":")[0] for name in names if ":" in name)
    return f"{TRUST}={','.join(modules)} " if modules else ""
