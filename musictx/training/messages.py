"""What ``musictx train`` says before and after training."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytorch_lightning as pl

from musictx.config import TrainConfig
from musictx.data.shards import Shards
from musictx.training.card import best, protocol, rows_per_step
from musictx.training.clock import clock
from musictx.training.lit import LitMusicTransformer
from musictx.training.progress import compact, duration
from musictx.training.trainer import describe_device, emulation
from musictx.untrusted import TRUST

#: More parameters than this for each token to train on: the model will overfit.
MOST_PARAMETERS_PER_TOKEN = 20


def header(
    config: TrainConfig,
    shards: Shards,
    lit: LitMusicTransformer,
    trainer: pl.Trainer,
    folder: Path,
) -> list[str]:
    """Corpus, model, length and place of a run, and what to know of it beforehand."""
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
        return lines
    lines.append(f"run     {folder}")
    if config.trainer.seconds is not None:
        lines.append("note    ends by the clock: the same command will not give the same weights")
    if parameters > MOST_PARAMETERS_PER_TOKEN * train.tokens and config.init is None:
        lines.append(
            f"note    {train.tokens:,} tokens are few for {parameters:,} parameters: the model "
            "will overfit; init=FOLDER (fine-tuning) or a smaller model does better"
        )
    return lines


def _on_precision(precision: str, trainer: pl.Trainer) -> list[str]:
    """What a CPU makes of ``trainer.precision`` if that is not what was asked for, or slow."""
    if trainer.strategy.root_device.type != "cpu":
        return []
    lines, used = [], str(trainer.precision)
    if precision.startswith("16") and used == "bf16-mixed":
        lines.append(
            f"note    trainer.precision={precision} is not for a CPU; it trains with bf16-mixed "
            "instead"
        )
    if used.startswith("bf16") and (times := emulation()):
        lines.append(
            f"note    this CPU has no instructions for bfloat16: a product of matrices takes "
            f"{times:.1f} times as long as in float32; trainer.precision=fast is float32 here"
        )
    return lines


def summary(
    config: TrainConfig,
    shards: Shards,
    lit: LitMusicTransformer,
    trainer: pl.Trainer,
    folder: Path,
    before: float | None,
) -> list[str]:
    """What came of a run and what to type next; ``before``: validation before the first step."""
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
    if before is not None and loss is not None:
        verdict = "better" if loss < before else "not better: keep the model you started from"
        lines.append(f"before  {before:.4f} nats/token, before the first step; {verdict}")
    model = shlex.quote(str(folder / "model"))
    lines.append(f"model   {folder / 'model'}")
    if (folder / "samples").is_dir():
        lines.append(f"samples {folder / 'samples'}")
    trust = _trusting(config, lit)
    lines.append(f"try     {trust}musictx generate model={model} render=true")
    lines.append(f"        {trust}musictx evaluate model={model}")
    return lines


def _trusting(config: TrainConfig, lit: LitMusicTransformer) -> str:
    """What must stand before a command that reads the model folder: the modules of the classes of
    one's own that it names, which :mod:`musictx.untrusted` imports for none but who trusts them."""
    network, tokenizer = lit.hparams["network"], lit.hparams["tokenizer"]
    named = [network["position"], *network.get("features", []), tokenizer]
    names = [str(one.get("name")) for one in named] + [config.corpus.name]
    modules = dict.fromkeys(name.partition(":")[0] for name in names if ":" in name)
    return f"{TRUST}={','.join(modules)} " if modules else ""
