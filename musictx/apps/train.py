"""``musictx train``: train a model on a corpus; the same command resumes at any step.

:func:`run` calls the functions below it in their order.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytorch_lightning as pl

from musictx import bundle, files
from musictx.config import TrainConfig
from musictx.data.module import MusicDataModule
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.data.statistics import of_corpus
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.tokens.build import build as build_tokenizer
from musictx.tokens.tokenizer import Tokenizer
from musictx.training import checkpoint, ranks, report, run_folder
from musictx.training.callbacks import Ema, HookedCallback, Hooks, averaged
from musictx.training.lit import LitMusicTransformer
from musictx.training.network import build_model, freeze, model_from_init
from musictx.training.optimizer import optimizer_options
from musictx.training.progress import Progress, clock
from musictx.training.run_folder import RunFolder
from musictx.training.signals import Stopped, StopSignal
from musictx.training.trainer import build_trainer, fit, instantiate, quiet, wrong_checkpoint

#: The most tokens for each second of a sample: a model that needs more writes no time shifts.
SAMPLE_TOKENS_PER_SECOND = 60
Say = Callable[[str], object]


class Trained(NamedTuple):
    """The model folder (None after ``fast_dev_run``), the best validation loss in nats a token, and
    the number of optimizer steps of the run."""

    model: Path | None
    validation_loss: float | None
    steps: int


def run(config: TrainConfig) -> Trained:
    """Train a model with the options ``config``.

    Prepares the corpus if necessary. Resumes if the run folder has a checkpoint; returns at once if
    the run is finished. Raises ``UserError`` for impossible options, mostly before the long work,
    and ``WriteError`` for a full disk, after which the same command resumes. After Ctrl-C it saves
    a checkpoint, prints its path and raises ``KeyboardInterrupt``.

    With several processes (DDP) each of them calls this; only the first writes and prints. If a
    launcher (torchrun, SLURM) starts all of them, run ``musictx prepare`` first.
    """
    first, trial = ranks.is_first(), bool(config.trainer.fast_dev_run)
    say: Say = print if first else lambda line: None
    with quiet(), ExitStack() as stack:
        config = dataclasses.replace(config, trainer=ranks.from_environment(config.trainer))
        files.check_writable(Path(config.out or "runs"), "out")
        tokenizer, model = network(config, say)
        shards = corpus(config, tokenizer, say)

        applied_to = run_folder.fingerprints(config, shards, tokenizer)
        place = run_folder.choose(config, shards.corpus["name"], applied_to)
        if trial:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()), place.name)
        folder = RunFolder(place)
        if first:
            stack.enter_context(run_folder.one_process(folder.path / run_folder.LOCK))
            folder.check(config, applied_to)
        if (status := folder.finished(config)) is not None:
            say(report.finished(folder))
            return Trained(folder.model, status["validation_loss"], status["step"])

        lit, data = modules(config, model, tokenizer, shards, say)
        bar = Progress()
        hooks = make_hooks(config, folder, shards, lit, tokenizer, bar.print if first else say)
        trainer = make_trainer(config, folder, shards, hooks, bar)
        state, is_new = checkpoint_of(config, folder, say), folder.is_new
        if first:
            folder.begin(config, applied_to)
        say(report.header(config, shards, lit, trainer))

        stack.callback(ranks.destroy_process_group)
        try:
            with hooks.stop:
                fine_tunes = config.init is not None and state is None and not trial
                before = validation_before(lit, data, trainer, say) if fine_tunes else None
                fit(lit, data, trainer, hooks.stop, state)
        except Stopped:
            end_by_signal(folder, trainer, hooks)
        except UserError:
            # Lightning refused an option before the first step.
            if first and is_new and trainer.global_step == 0:
                shutil.rmtree(folder.path, ignore_errors=True)
            raise

        if trial:
            say("fast_dev_run: training and validation run through; no run folder was written")
            return Trained(None, validation_loss(trainer), trainer.global_step)
        if trainer.is_global_zero:
            keep_best(folder, lit, trainer, hooks)
            say(report.summary(config, shards, lit, trainer, before))
        return Trained(folder.model, validation_loss(trainer), trainer.global_step)


def network(config: TrainConfig, say: Say) -> tuple[Tokenizer, MusicTransformer]:
    """The tokenizer and the network to train: new ones, or those of ``init=FOLDER``, whose
    tokenizer, sizes and position scheme then replace these options."""
    if config.init is not None:
        loaded = bundle.load(config.init)
        tokenizer, model, added = model_from_init(loaded, config)
        more = f"; new in it: {', '.join(added)}" if added else ""
        if config.freeze:
            freeze(model, config.freeze)
            more += f"; its first {config.freeze} of {len(model.blocks)} layers stay"
        say(
            f"init    {loaded.folder}: its weights, and its tokenizer, model and position "
            f"settings instead of those given here{more}"
        )
        return tokenizer, model
    tokenizer = build_tokenizer(**dataclasses.asdict(config.tokenizer))
    return tokenizer, build_model(config, tokenizer)


def corpus(config: TrainConfig, tokenizer: Tokenizer, say: Say) -> Shards:
    """The shards of the corpus, prepared if necessary. Existing ``corpus.shards`` without a
    ``corpus.path`` are used unchanged."""
    prepared = prepare(config.corpus, tokenizer)
    if not prepared.up_to_date:
        say(str(prepared))
    return Shards(prepared.folder)


def modules(
    config: TrainConfig,
    model: MusicTransformer,
    tokenizer: Tokenizer,
    shards: Shards,
    say: Say,
) -> tuple[LitMusicTransformer, MusicDataModule]:
    """The LightningModule around the network, and the LightningDataModule with its batches."""
    optim = optimizer_options(config, model.config.width, say)
    lit = LitMusicTransformer(
        model.config.plain(), optim, tokenizer.to_config(), config.seed, model=model
    )
    data = MusicDataModule(
        shards,
        tokenizer,
        context=model.config.context,
        augment=config.corpus.augment,
        align=math.lcm(*model.config.position.get("periods", ())),
        seed=config.seed,
        **dataclasses.asdict(config.data),
    )
    return lit, data


def make_hooks(
    config: TrainConfig,
    folder: RunFolder,
    shards: Shards,
    lit: LitMusicTransformer,
    tokenizer: Tokenizer,
    say: Say,
) -> Hooks:
    """The functions that callbacks call to save the model, compose a sample or print a line."""
    limits = of_corpus(shards, tokenizer)
    model: Any = lit.model

    def save_model(trainer: pl.Trainer) -> None:
        described = {**report.card(config, shards, lit, trainer), "note_limits": limits}
        bundle.save(folder.model, model, tokenizer, described)

    def sample(seconds: float) -> Score:
        """Compose with the same seed each time, so that the pictures show the effect of
        training."""
        # Imported here, since a run without samples does not need these modules.
        from musictx.config import GenerateConfig
        from musictx.sampling.composer import continue_each
        from musictx.sampling.primer import NOTHING
        from musictx.sampling.steer import Steering, density_of

        tokens = int(seconds * SAMPLE_TOKENS_PER_SECOND) + 100
        request = GenerateConfig(
            seconds=seconds, tokens=tokens, sampling=config.sampling, end="cut"
        )
        loaded = bundle.Bundle(model, tokenizer, {"note_limits": limits}, folder.model)
        steering = [Steering(density=density_of(config.sampling))]
        seeds = [(config.seed, 0)]
        (piece,) = continue_each(loaded, [NOTHING], request, seeds=seeds, steering=steering)
        return piece.score

    return Hooks(save_model, sample, say, StopSignal(report=ranks.is_first()))


def make_trainer(
    config: TrainConfig, folder: RunFolder, shards: Shards, hooks: Hooks, bar: Progress
) -> pl.Trainer:
    """The Trainer with the callbacks and loggers of the configuration."""
    callbacks = [hooks.stop, *instantiate("callbacks", config.callbacks, folder.path)]
    for callback in callbacks:
        if isinstance(callback, HookedCallback):
            callback.hooks = hooks
    options = config.trainer
    bars = any(isinstance(c, pl.callbacks.ProgressBar) for c in callbacks)
    if options.flags["enable_progress_bar"] and not bars:
        callbacks.append(bar)
    if config.optim.ema > 0:
        callbacks.append(Ema(config.optim.ema))
    if not shards.pieces("validation"):
        options = dataclasses.replace(options, flags=options.flags | {"limit_val_batches": 0})
    loggers: list[Any] | bool = bool(config.logger)  # Lightning's dummy in a fast_dev_run
    if not options.fast_dev_run:
        loggers = instantiate("logger", config.logger, folder.path)
    return build_trainer(options, folder.path, callbacks=callbacks, loggers=loggers)


def checkpoint_of(config: TrainConfig, folder: RunFolder, say: Say) -> Path | None:
    """The checkpoint to resume from, if any. Raises ``UserError`` if it has more steps than
    ``trainer.max_steps``."""
    if not folder.last.is_file():
        return None
    step, steps = checkpoint.read(folder.last)["global_step"], config.trainer.max_steps
    if config.trainer.seconds is None and step > steps > 0:
        raise UserError(
            f"trainer.max_steps={steps}: {folder.last} has done {step:,} steps; ask for more, or "
            "give another out="
        )
    say(f"resume  at step {step:,} from {folder.last}")
    return folder.last


def validation_before(
    lit: LitMusicTransformer, data: MusicDataModule, trainer: pl.Trainer, say: Say
) -> float | None:
    """The validation loss of the model that fine-tuning starts from, if there is validation."""
    if trainer.limit_val_batches == 0:
        return None
    trainer.validate(lit, data, verbose=False)
    loss = float(trainer.callback_metrics["val/loss"])
    say(f"before  {loss:.4f} nats/token in validation, before the first step")
    return loss


def end_by_signal(folder: RunFolder, trainer: pl.Trainer, hooks: Hooks) -> NoReturn:
    """After a signal, print the path of the checkpoint and end the process with the usual status of
    the signal, 130 or 143. Processes that Lightning started end with 0, since Lightning would kill
    the first process otherwise."""
    if trainer.is_global_zero:
        if hooks.stop.agreed and not folder.model.is_dir():
            with averaged(trainer):
                hooks.save_model(trainer)
        hooks.say(report.stopped(folder, trainer))
    if trainer.local_rank:
        raise SystemExit(0)
    if hooks.stop.received == signal.SIGTERM:
        raise SystemExit(128 + signal.SIGTERM)
    raise KeyboardInterrupt


def keep_best(
    folder: RunFolder, lit: LitMusicTransformer, trainer: pl.Trainer, hooks: Hooks
) -> None:
    """Write the model folder from the best checkpoint, or from the last one without validation."""
    path = folder.best if folder.best.is_file() else folder.last
    if path.is_file():
        try:
            lit.load_state_dict(checkpoint.read(path)["state_dict"])
        except (RuntimeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise wrong_checkpoint(path, error) from error
    lit.cpu()
    hooks.save_model(trainer)
    folder.write_status(
        finished=True,
        step=trainer.global_step,
        seconds=clock(trainer).time_elapsed(),
        validation_loss=validation_loss(trainer),
    )


def validation_loss(trainer: pl.Trainer) -> float | None:
    """The best validation loss, or the latest one if no checkpoint was kept for the best."""
    latest = trainer.callback_metrics.get("val/loss")
    return report.best(trainer)[0] or (None if latest is None else float(latest))
