"""``musictx train``: train a model on a corpus; the same command resumes at any step.

:func:`run` calls the functions below it in their order.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import signal
import tempfile
from contextlib import ExitStack
from functools import partial
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
from musictx.tokens.build import build as build_tokenizer
from musictx.tokens.tokenizer import Tokenizer
from musictx.training import checkpoint, ranks, report, run_folder, samples
from musictx.training.callbacks import Ema, Hooks, averaged
from musictx.training.lit import LitMusicTransformer
from musictx.training.network import build_model, freeze, model_from_init
from musictx.training.optimizer import optimizer_options
from musictx.training.progress import PrintLine, Progress, clock
from musictx.training.run_folder import RunFolder
from musictx.training.signals import Stopped, StopSignal
from musictx.training.trainer import build_trainer, fit, instantiate, quiet, wrong_checkpoint


class Trained(NamedTuple):
    """The result of training.

    model            the model folder; None after ``fast_dev_run``
    validation_loss  the best one, in nats per token
    steps            the number of optimizer steps, earlier runs of the command included
    """

    model: Path | None
    validation_loss: float | None
    steps: int


def run(config: TrainConfig) -> Trained:
    """Train a model with the options ``config``.

    Prepares the corpus if necessary. Resumes if the run folder has a checkpoint; returns at once if
    the run is finished. Raises ``UserError`` for impossible options, mostly before training, and
    ``WriteError`` for a full disk, after which the same command resumes. After Ctrl-C it saves a
    checkpoint, prints its path and raises ``KeyboardInterrupt``.

    With several processes (DDP) each of them calls this function; only the first writes and prints.
    If a launcher (torchrun, SLURM) starts them, run ``musictx prepare`` first.
    """
    is_first, is_trial = ranks.is_first(), bool(config.trainer.fast_dev_run)
    print_line: PrintLine = print if is_first else lambda line: None
    with quiet(), ExitStack() as stack:
        # 1. Configuration, network and corpus
        config = dataclasses.replace(config, trainer=ranks.from_environment(config.trainer))
        files.check_writable(Path(config.out or "runs"), "out")
        tokenizer, model = make_network(config, print_line)
        shards = open_corpus(config, tokenizer, print_line)

        # 2. The run folder: new, to resume, or finished
        fingerprints = run_folder.fingerprints(config, shards, tokenizer)
        path = run_folder.choose_path(config, shards.corpus["name"], fingerprints)
        if is_trial:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory()), path.name)
        folder = RunFolder(path)
        if is_first:
            stack.enter_context(run_folder.one_process(folder.path / run_folder.LOCK))
            folder.check(config, fingerprints)
        was_new, state = folder.is_new, folder.state(config)
        if state.is_finished:
            print_line(report.already_trained(folder))
            return Trained(folder.model, state.validation_loss, state.step)
        if state.step:
            print_line(f"resume  at step {state.step:,} from {folder.last}")

        # 3. LightningModule, data module, callbacks and Trainer
        lit, data = make_modules(config, model, tokenizer, shards, print_line)
        bar = Progress()
        above_bar = bar.print if is_first else print_line
        hooks = make_hooks(config, folder, shards, lit, tokenizer, above_bar)
        trainer = make_trainer(config, folder, shards, hooks, bar)
        if is_first:
            folder.begin(config, fingerprints)
        print_line(report.header(config, shards, lit, trainer))

        # 4. Training
        stack.callback(ranks.destroy_process_group)
        initial_loss = None
        try:
            with hooks.stop:
                if config.init is not None and not state.step and not is_trial:
                    initial_loss = validate_initial_model(lit, data, trainer, print_line)
                fit(lit, data, trainer, hooks.stop, folder.last if state.step else None)
        except Stopped:
            exit_after_signal(folder, trainer, hooks)
        except UserError:
            # Lightning refused an option before the first step.
            if is_first and was_new and trainer.global_step == 0:
                shutil.rmtree(folder.path, ignore_errors=True)
            raise

        # 5. The model folder
        if is_trial:
            print_line("fast_dev_run: training and validation work; no run folder was written")
            return Trained(None, validation_loss(trainer), trainer.global_step)
        if trainer.is_global_zero:
            save_best_model(folder, lit, trainer, hooks)
            print_line(report.summary(config, shards, lit, trainer, initial_loss))
        return Trained(folder.model, validation_loss(trainer), trainer.global_step)


def make_network(config: TrainConfig, print_line: PrintLine) -> tuple[Tokenizer, MusicTransformer]:
    """Return the tokenizer and the network to train. With ``init=FOLDER`` they come from this model
    folder, and the options of tokenizer, model and position scheme are ignored."""
    if config.init is not None:
        loaded = bundle.load(config.init)
        tokenizer, model, added = model_from_init(loaded, config)
        changes = f"; added to it: {', '.join(added)}" if added else ""
        if config.freeze:
            freeze(model, config.freeze)
            changes += f"; its first {config.freeze} of {len(model.blocks)} layers are frozen"
        print_line(
            f"init    {loaded.folder}: its weights, and its tokenizer, model and position "
            f"settings instead of those given here{changes}"
        )
        return tokenizer, model
    tokenizer = build_tokenizer(**dataclasses.asdict(config.tokenizer))
    return tokenizer, build_model(config, tokenizer)


def open_corpus(config: TrainConfig, tokenizer: Tokenizer, print_line: PrintLine) -> Shards:
    """Return the shards of the corpus, and prepare them if necessary. Existing ``corpus.shards``
    without a ``corpus.path`` are used unchanged."""
    report = prepare(config.corpus, tokenizer)
    if not report.up_to_date:
        print_line(str(report))
    return report.shards


def make_modules(
    config: TrainConfig,
    model: MusicTransformer,
    tokenizer: Tokenizer,
    shards: Shards,
    print_line: PrintLine,
) -> tuple[LitMusicTransformer, MusicDataModule]:
    """Return the LightningModule of the network and the LightningDataModule of the corpus."""
    optim = optimizer_options(config, model.config.width, print_line)
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
    print_line: PrintLine,
) -> Hooks:
    """Return the functions with which callbacks save the model, compose a sample or print."""
    limits = of_corpus(shards, tokenizer)
    model: Any = lit.model

    def save_model(trainer: pl.Trainer) -> None:
        card = {**report.card(config, shards, lit, trainer), "note_limits": limits}
        bundle.save(folder.model, model, tokenizer, card)

    in_training = bundle.Bundle(model, tokenizer, {"note_limits": limits}, folder.model)
    sample = partial(samples.compose, in_training, config)
    return Hooks(save_model, sample, print_line, StopSignal(report=ranks.is_first()))


def make_trainer(
    config: TrainConfig, folder: RunFolder, shards: Shards, hooks: Hooks, bar: Progress
) -> pl.Trainer:
    """Return the Trainer with the callbacks and loggers of ``config``."""
    callbacks = [hooks, hooks.stop, *instantiate("callbacks", config.callbacks, folder.path)]
    options = config.trainer
    has_bar = any(isinstance(c, pl.callbacks.ProgressBar) for c in callbacks)
    if options.flags["enable_progress_bar"] and not has_bar:
        callbacks.append(bar)
    if config.optim.ema > 0:
        callbacks.append(Ema(config.optim.ema))
    if not shards.pieces("validation"):
        options = dataclasses.replace(options, flags=options.flags | {"limit_val_batches": 0})
    loggers: list[Any] | bool = bool(config.logger)  # Lightning's dummy in a fast_dev_run
    if not options.fast_dev_run:
        loggers = instantiate("logger", config.logger, folder.path)
    return build_trainer(options, folder.path, callbacks=callbacks, loggers=loggers)


def validate_initial_model(
    lit: LitMusicTransformer, data: MusicDataModule, trainer: pl.Trainer, print_line: PrintLine
) -> float | None:
    """Return the validation loss before fine-tuning; None without validation."""
    if trainer.limit_val_batches == 0:
        return None
    trainer.validate(lit, data, verbose=False)
    loss = float(trainer.callback_metrics["val/loss"])
    print_line(f"before  {loss:.4f} nats/token in validation, before the first step")
    return loss


def exit_after_signal(folder: RunFolder, trainer: pl.Trainer, hooks: Hooks) -> NoReturn:
    """Print the path of the checkpoint and exit with the usual status of the signal: 130 for
    Ctrl-C, 143 for SIGTERM. Processes that Lightning started exit with 0, since Lightning would
    kill the first process otherwise."""
    if trainer.is_global_zero:
        if hooks.stop.agreed and not folder.model.is_dir():
            with averaged(trainer):
                hooks.save_model(trainer)
        hooks.print_line(report.stopped(folder, trainer))
    if trainer.local_rank:
        raise SystemExit(0)
    if hooks.stop.received == signal.SIGTERM:
        raise SystemExit(128 + signal.SIGTERM)
    raise KeyboardInterrupt


def save_best_model(
    folder: RunFolder, lit: LitMusicTransformer, trainer: pl.Trainer, hooks: Hooks
) -> None:
    """Write the model folder from the best checkpoint, or from the last one without validation, and
    mark the run as finished."""
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
    """Return the best validation loss; the latest one if no callback keeps the best checkpoint."""
    latest = trainer.callback_metrics.get("val/loss")
    return report.best(trainer)[0] or (None if latest is None else float(latest))
