"""``musictx train``: a corpus -> a model folder, resumable at any step.

:func:`run` is a list of steps; each is a function below, in the same order.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl

from musictx import __version__, bundle, files, formats, wings
from musictx.config import GenerateConfig, TrainConfig
from musictx.data import corpora
from musictx.data.module import MusicDataModule
from musictx.data.prepare import prepare
from musictx.data.report import Report
from musictx.data.shards import Shards
from musictx.errors import ConfigError, UserError
from musictx.evaluate.note_limits import of_corpus
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling.music import continue_each
from musictx.sampling.primer import NOTHING
from musictx.sampling.steer import Steering, density_of
from musictx.tokens.build import build as build_tokenizer
from musictx.tokens.vocab import Tokenizer
from musictx.train import checkpoint, fitting, memory, messages, ranks, runs
from musictx.train.callbacks import LastCheckpoint, Run, RunCallback, StopBetweenSteps
from musictx.train.card import card
from musictx.train.ema import Ema
from musictx.train.init import take_over
from musictx.train.lit import LitMusicTransformer
from musictx.train.lock import Lock
from musictx.train.network import build_model
from musictx.train.progress import Progress, duration
from musictx.train.quiet import quiet_lightning
from musictx.train.schedule import learning_rate
from musictx.train.stopping import Stopped, StoppedAtOnce, StopRequest
from musictx.train.trainer import build_trainer, instantiate

#: What fine-tuning takes of the usual learning rate.
FINE_TUNING = 0.2
#: A warm-up longer than this share of the steps would leave too little to train at full rate.
MOST_WARMUP = 0.2
#: Tokens for each second of a sample; more means that time has stopped passing.
SAMPLE_TOKENS_PER_SECOND = 60
Say = Callable[[str], None]


class Trained(NamedTuple):
    """The model folder (None after ``fast_dev_run``), and the best validation in nats a token."""

    model: Path | None
    validation_loss: float | None


def run(config: TrainConfig) -> Trained:
    """Train as ``config`` says.

    Prepares the corpus if need be. A run folder with a checkpoint is gone on with, one that is
    finished is returned at once. ``UserError`` for whatever cannot be, before anything heavy
    starts where that can be seen; ``WriteError`` for a full disk, after which the same command goes
    on. On Ctrl-C the state is saved, told, and ``KeyboardInterrupt`` raised.

    With several processes (DDP) each runs this; only the first writes and prints. When a launcher
    (torchrun, SLURM) starts them all at once, run ``musictx prepare`` before.
    """
    ranks.end_with_parent()
    first = ranks.is_first()
    say: Say = print if first else (lambda text: None)
    with quiet_lightning():
        config = dataclasses.replace(config, trainer=ranks.from_environment(config.trainer))
        files.check_writable(Path(config.out or "runs"), "out")
        tokenizer, model = start(config, say)
        shards, report = corpus(config, tokenizer)
        with ExitStack() as held:
            made_of = ingredients(config, shards, tokenizer)
            folder = runs.RunFolder(runs.choose(config, shards.corpus["name"], made_of))
            keeps = first and not config.trainer.fast_dev_run
            if keeps:
                held.enter_context(Lock(folder.path / runs.LOCK))  # its folder goes if refused
                folder.check(config, made_of)
            done = finished_before(config, folder, say)
            if done is not None:
                return done
            session = assemble(config, folder, shards, tokenizer, model, say)
            if keeps:
                folder.begin(config, made_of, musictx=__version__)
            try:
                return train(config, folder, shards, session, report, say)
            except runs.FolderGone:
                folder.clear_place()
                raise
            except UserError:
                if keeps and session.trainer.global_step == 0 and folder.checkpoint is None:
                    folder.clear()  # refused by Lightning before the first step
                raise
            finally:
                ranks.part()


def start(config: TrainConfig, say: Say) -> tuple[Tokenizer, MusicTransformer]:
    """New ones, or those of ``init=FOLDER``: its tokenizer, shape and position scheme count."""
    if config.init is not None:
        loaded = bundle.load(config.init)
        tokenizer, model, added = take_over(loaded, config)
        more = f"; new in it: {', '.join(added)}" if added else ""
        say(
            f"init    {loaded.folder}: its weights, and its tokenizer, model and position "
            f"settings instead of those given here{more}"
        )
        return tokenizer, model
    tokenizer = build_tokenizer(**dataclasses.asdict(config.tokenizer))
    return tokenizer, build_model(config, tokenizer)


def corpus(config: TrainConfig, tokenizer: Tokenizer) -> tuple[Shards, Report | None]:
    """The shards of the corpus, prepared if need be; as they are if only they are named."""
    asked = config.corpus
    if asked.path is None and asked.shards and corpora.needs_path(asked.name):
        return Shards(Path(asked.shards)), None
    report = prepare(asked, tokenizer)
    return Shards(report.folder), report


def ingredients(config: TrainConfig, shards: Shards, tokenizer: Tokenizer) -> dict[str, str]:
    """What a run is made of beside its settings: it must be the same to go on."""
    pieces = [(p.name, p.hash, p.split, p.tokens) for p in shards.pieces()]
    made_of = {
        "corpus": hashlib.sha256(repr(pieces).encode()).hexdigest()[:16],
        "vocabulary": tokenizer.fingerprint,
    }
    if config.init is not None:
        with (bundle.locate(config.init) / "model.safetensors").open("rb") as file:
            made_of["init model"] = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    return made_of


def finished_before(config: TrainConfig, folder: runs.RunFolder, say: Say) -> Trained | None:
    """The result, if this run has already done all that is asked."""
    status, asked = folder.status(), config.trainer
    if not status.get("finished") or not (folder.model / "model.safetensors").is_file():
        return None
    if asked.fast_dev_run:
        return None
    if asked.seconds is not None:
        enough, more = status.get("seconds", 0.0) >= asked.seconds, "trainer.max_time"
    else:
        enough, more = status.get("step", 0) >= asked.max_steps > 0, "trainer.max_steps"
    if not enough:
        return None
    say(
        f"already trained: {folder.path} has {status['step']:,} steps "
        f"({duration(status['seconds'])}); ask for a larger {more} to go on, "
        f"or give another out= to start again\nmodel   {folder.model}"
    )
    return Trained(folder.model, status.get("validation_loss"))


class TrainingSession(NamedTuple):
    """All that a training needs, made and checked before anything is written."""

    lit: LitMusicTransformer
    data: MusicDataModule
    trainer: pl.Trainer
    path: Path | None
    bar: Progress
    known: Run


def assemble(
    config: TrainConfig,
    folder: runs.RunFolder,
    shards: Shards,
    tokenizer: Tokenizer,
    model: MusicTransformer,
    say: Say,
) -> TrainingSession:
    """Module, data, callbacks, loggers and Trainer; ``UserError`` for options that cannot be."""
    lit = LitMusicTransformer(
        model.config.plain(),
        optimizer_options(config, model, say),
        tokenizer.to_config(),
        config.seed,
        model=model,
    )
    data = MusicDataModule(
        shards,
        tokenizer,
        context=model.config.context,
        augment=config.corpus.augment,
        align=math.lcm(*model.config.position.periods),
        seed=config.seed,
        **dataclasses.asdict(config.data),
    )
    share, batches = config.trainer.flags["limit_val_batches"], len(data.val_dataloader())
    if isinstance(share, float) and 0 < share * batches < 1:
        raise ConfigError(
            f"trainer.limit_val_batches={share}: expected at least {1 / batches:.2g}, the share of "
            f"one of {batches} validation batches"
        )
    path = None if config.trainer.fast_dev_run else folder.checkpoint
    limits = of_corpus(shards, tokenizer)

    def save_model(trainer: pl.Trainer) -> None:
        folder.still_there()
        described = {**card(config, shards, lit, trainer), "note_limits": limits}
        bundle.save(folder.model, model, tokenizer, described)

    def sample(seconds: float, seed: int) -> Score:
        tokens = int(seconds * SAMPLE_TOKENS_PER_SECOND) + 100
        request = GenerateConfig(
            seconds=seconds, tokens=tokens, sampling=config.sampling, end="cut"
        )
        loaded = bundle.Bundle(model, tokenizer, {"note_limits": limits}, folder.model)
        steering = [Steering(density=density_of(config.sampling))]
        (piece,) = continue_each(loaded, [NOTHING], request, seeds=[(seed, 0)], steering=steering)
        return piece.score

    bar = Progress()
    told: Say = bar.print if say is print else say
    known = Run(save_model, sample, draw, told, StopRequest(tell=ranks.is_first()), config.seed)
    known.check = folder.still_there
    trainer = trainer_of(config, folder, bar, known, validates=bool(shards.pieces("validation")))
    memory.check(model.config, config.data.batch_size, trainer.strategy.root_device)
    return TrainingSession(lit, data, trainer, path, bar, known)


def train(
    config: TrainConfig,
    folder: runs.RunFolder,
    shards: Shards,
    session: TrainingSession,
    report: Report | None,
    say: Say,
) -> Trained:
    """Fit, and leave the best weights as a model folder."""
    lit, data, trainer, path, bar, known = session
    with known.stop:
        if report is not None and not report.up_to_date:
            say(str(report))
        for line in messages.header(config, shards, lit, trainer, folder.path):
            say(line)
        before = validation_before(config, lit, data, trainer, path, say)
        try:
            fitting.fit(lit, data, trainer, path)
        except (Stopped, StoppedAtOnce) as stop:
            bar.close()
            fitting.stopped(folder, trainer, known, at_once=isinstance(stop, StoppedAtOnce))
    if config.trainer.fast_dev_run:
        say("fast_dev_run: training and validation run through; no run folder was written")
        return Trained(None, fitting.loss(trainer))
    if trainer.is_global_zero:
        fitting.keep_best(folder, lit, trainer, known.save_model)
        for line in messages.summary(config, shards, lit, trainer, folder.path, before):
            say(line)
    return Trained(folder.model, fitting.loss(trainer))


def optimizer_options(config: TrainConfig, model: MusicTransformer, say: Say) -> dict[str, Any]:
    """``config.optim`` with the learning rate decided and the warm-up fitted to the run."""
    optim, steps = dataclasses.asdict(config.optim), config.trainer.max_steps
    if optim["lr"] is None:
        share = 1.0 if config.init is None else FINE_TUNING
        optim["lr"] = share * learning_rate(model.config.width)
    most = max(1, int(MOST_WARMUP * steps))
    if config.trainer.seconds is None and steps > 0 and optim["warmup"] > most:
        warmup = optim["warmup"]
        say(f"note    optim.warmup={warmup} is long for {steps} steps; it ends after {most}")
        optim["warmup"] = most
    return optim


def trainer_of(
    config: TrainConfig, folder: runs.RunFolder, bar: Progress, known: Run, *, validates: bool
) -> pl.Trainer:
    """The Trainer with the callbacks and loggers of the configuration."""
    callbacks = instantiate("callbacks", config.callbacks, folder.path)
    if not any(isinstance(callback, LastCheckpoint) for callback in callbacks):
        callbacks.append(StopBetweenSteps())
    for callback in callbacks:
        if isinstance(callback, RunCallback):
            callback.run = known
    own = any(isinstance(c, pl.callbacks.ProgressBar) for c in callbacks)
    if config.trainer.flags["enable_progress_bar"] and not own:
        callbacks.append(bar)
    if config.optim.ema > 0:
        callbacks.append(Ema(config.optim.ema))
    options = config.trainer
    if not validates:
        options = dataclasses.replace(options, flags=options.flags | {"limit_val_batches": 0})
    loggers: list[Any] | bool = bool(config.logger)  # Lightning's dummy in a fast_dev_run
    if not options.fast_dev_run:
        loggers = instantiate("logger", config.logger, folder.path)
    trainer = build_trainer(options, folder.path, callbacks=callbacks, loggers=loggers)
    ranks.start_deaf_to_ctrl_c(trainer)
    return trainer


def validation_before(
    config: TrainConfig,
    lit: LitMusicTransformer,
    data: MusicDataModule,
    trainer: pl.Trainer,
    path: Path | None,
    say: Say,
) -> float | None:
    """With ``init=`` the validation loss of the model that fine-tuning starts from."""
    if path is not None:
        step = checkpoint.read(path)["global_step"]
        say(f"resume  at step {step:,} from {path}")
        return None
    if config.init is None or trainer.limit_val_batches == 0 or config.trainer.fast_dev_run:
        return None
    trainer.validate(lit, data, verbose=False)
    loss = float(trainer.callback_metrics["val/loss"])
    say(f"before  {loss:.4f} nats/token in validation, before the first step")
    return loss


def draw(score: Score, path: Path) -> None:
    """A piano roll of ``score`` as PNG, where a wing draws them."""
    if wings.place("writers", ".png") is not None:
        formats.write(score, path)
