"""The lines that ``musictx train`` prints before and after training."""

from __future__ import annotations

import math
import shlex

from musictx.training import checkpoint
from musictx.training.progress import compact, duration, timer
from musictx.training.run import Run
from musictx.training.trainer import describe_device

#: A model with more parameters than this per training token will overfit.
MOST_PARAMETERS_PER_TOKEN = 20


def header(run: Run) -> str:
    """The lines before training: corpus, model, length and folder of the run, and notes."""
    options, shape = run.config.trainer, run.model.config
    train, held_out = run.shards.totals("train"), run.shards.totals("validation")
    parameters = sum(p.numel() for p in run.model.parameters())
    if trial_steps := int(options.fast_dev_run):
        length = f"a trial of {trial_steps} step" + ("s" if trial_steps > 1 else "")
    elif options.seconds is not None:
        length = f"{duration(options.seconds)} of steps"
    elif options.max_steps > 0:
        length = f"{options.max_steps:,} steps"
    else:
        length = "steps without end"
    lines = [
        f"corpus  {run.shards.corpus['name']}: {train}; {held_out.pieces:,} held out",
        f"model   {parameters:,} parameters: {shape.layers} layers, width {shape.width}, "
        f"context {shape.context} tokens, positions {shape.position['name']}",
        f"train   {length} of {run.rows_per_step()} x {shape.context} tokens on "
        f"{describe_device(run.trainer)}, learning rate {run.lit.optim['lr']:.2g}",
    ]
    if trial_steps:
        return "\n".join(lines)
    lines.append(f"run     {run.folder.path}")
    if options.seconds is not None:
        lines.append("note    a time limit ends this run, so it cannot be repeated exactly")
    if parameters > MOST_PARAMETERS_PER_TOKEN * train.tokens and run.config.init is None:
        lines.append(
            f"note    {train.tokens:,} tokens are few for {parameters:,} parameters: the model "
            "will overfit; init=FOLDER (fine-tuning) or a smaller model does better"
        )
    return "\n".join(lines)


def summary(run: Run, initial_loss: float | None) -> str:
    """The lines after training: results and the next commands. ``initial_loss`` is the validation
    loss before the first step, None if it was not measured."""
    lines = [
        f"trained {run.trainer.global_step:,} steps on {compact(run.lit.tokens)} tokens "
        f"in {duration(timer(run.trainer).time_elapsed())}"
    ]
    loss, step = run.best()
    if loss is not None:
        uniform, optim = math.log(run.model.config.vocab_size), run.lit.optim
        windows = run.describe_windows()
        lines.append(f"best    {loss:.4f} nats/token in validation, at step {step:,} ({windows})")
        if loss > uniform:
            lines.append(
                f"note    guessing has {uniform:.4f} nats/token (log of vocabulary size): training "
                f"diverged, or has hardly begun; try a lower optim.lr (it was {optim['lr']:.2g}) "
                f"or a longer optim.warmup (it was {optim['warmup']}), with another out="
            )
        if initial_loss is not None:
            verdict = "improved"
            if loss >= initial_loss:
                other = f"try a lower optim.lr (it was {optim['lr']:.2g}), with another out="
                verdict = f"not improved: keep the model you started from, or {other}"
            lines.append(f"before  {initial_loss:.4f} nats/token before the first step; {verdict}")
    lines.append(f"model   {run.folder.model}")
    samples = run.folder.path / "samples"
    if samples.is_dir():
        lines.append(f"samples {samples}")
    model = shlex.quote(str(run.folder.model))
    lines.append(f"try     musictx generate model={model} render=true")
    lines.append(f"        musictx evaluate model={model}")
    return "\n".join(lines)


def stopped(run: Run) -> str:
    """The lines after a signal: the checkpoint and the model folder."""
    folder = run.folder
    if not folder.last.is_file():
        lines = [f"stopped at step {run.trainer.global_step:,}, before the first checkpoint"]
    else:
        step = checkpoint.read(folder.last)["global_step"]
        saved = f"stopped; the state at step {step:,} is in {folder.last}"
        lines = [saved, "the same command resumes"]
    if folder.model.is_dir():
        loss, step = run.best()
        quality = f"validation {loss:.4f} at step {step:,}" if step else "not validated yet"
        lines.append(f"model so far: {folder.model} ({quality})")
    return "\n".join(lines)
