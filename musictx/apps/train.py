"""``musictx train``: a corpus -> a model folder, resumable at any step."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import shlex
import signal
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.rank_zero import rank_zero_only
from torch import nn

from musictx import __version__, bundle
from musictx.attention.native.build import compiler
from musictx.config import TrainConfig
from musictx.data.module import MusicDataModule
from musictx.data.prepare import prepare
from musictx.data.report import Report
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate.note_limits import habits
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling.music import continue_music
from musictx.tokens.build import build as build_tokenizer
from musictx.tokens.vocab import Tokenizer
from musictx.train import checkpoint, runs
from musictx.train.callbacks import BEST, Checkpoints, Samples, averaged
from musictx.train.card import card, protocol
from musictx.train.lit import Epochs, Training
from musictx.train.metrics import CsvLog, Metrics
from musictx.train.network import build_model
from musictx.train.progress import Progress, compact, duration
from musictx.train.quiet import quiet_lightning
from musictx.train.schedule import learning_rate
from musictx.train.stopping import Stopped, StoppedAtOnce, StopRequest
from musictx.train.trainer import build_trainer, describe_device

#: What fine-tuning takes of the usual learning rate.
FINE_TUNING = 0.2
#: A warm-up longer than this share of the steps would leave too little to train at full rate.
MOST_WARMUP = 0.2
#: More parameters than this for each token to train on: the model will know them by heart.
MOST_PARAMETERS_PER_TOKEN = 20
#: Pieces from which the habits of a corpus are read.
MOST_PIECES = 100
#: Tokens for each second of a sample; more means that time has stopped passing.
SAMPLE_TOKENS_PER_SECOND = 60


def run(config: TrainConfig) -> Path:
    """Train as ``config`` says and return the model folder.

    Prepares the corpus if need be. A run folder with a checkpoint is gone on with, one that is
    finished is returned at once. ``UserError`` for whatever cannot be, before anything heavy
    starts where that can be seen. On Ctrl-C the state is saved, told, and ``KeyboardInterrupt``
    raised.

    With several processes (DDP) each runs this; only the first writes and prints. When a launcher
    outside (torchrun, SLURM) starts them all at once, run ``musictx prepare`` before.
    """
    with quiet_lightning():
        return _Run(config).run()


class _Run:
    """The steps of one call of :func:`run`, in their order, and what they share."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.first = not getattr(rank_zero_only, "rank", 0)
        self.say: Callable[[str], None] = print if self.first else (lambda text: None)

    def run(self) -> Path:
        config = self.config
        runs.check_writable(Path(config.out or "runs").expanduser())
        self.trainer = build_trainer(config.trainer)
        self.tokenizer, self.model = self._model()
        report = prepare(config.corpus, self.tokenizer)
        self.shards = Shards(report.folder)
        self.applied_to = self._applied_to()
        self.folder = runs.RunFolder(runs.choose(config, self._label(report), self.applied_to))
        if self.first:
            self.folder.begin(config, self.applied_to, fresh=config.fresh, musictx=__version__)
        if (done := self._finished_before()) is not None:
            return done
        self.training = self._training()
        resumed = self._restore()
        self._header(report, resumed)
        self._fit(resumed)
        return self._finish()

    # -------------------------------------------------------------------------------- beginning

    def _model(self) -> tuple[Tokenizer, MusicTransformer]:
        """New ones, or those of ``init=FOLDER``: its tokenizer, shape and position scheme count."""
        config = self.config
        if config.init is not None:
            start = bundle.load(config.init)
            model = start.model.requires_grad_(True).train()
            self.say(
                f"init    {start.folder}: its weights, and its tokenizer, model and position "
                "settings instead of those given here"
            )
            return start.tokenizer, model
        tokenizer = build_tokenizer(**dataclasses.asdict(config.tokenizer))
        return tokenizer, build_model(config, tokenizer)

    def _applied_to(self) -> dict[str, str]:
        """What a run is made of beside its settings: it must be the same to go on."""
        pieces = [(p.name, p.hash, p.split, p.tokens) for p in self.shards.pieces()]
        made_of = {
            "corpus": hashlib.sha256(repr(pieces).encode()).hexdigest()[:16],
            "vocabulary": self.tokenizer.fingerprint,
        }
        if self.config.init is not None:
            weights = bundle.locate(self.config.init) / "model.safetensors"
            with weights.open("rb") as file:
                made_of["init model"] = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        return made_of

    def _label(self, report: Report) -> str:
        path = self.config.corpus.path
        if self.config.corpus.name == "folder" and path is not None:
            return Path(path).expanduser().resolve().name
        return self.config.corpus.name

    def _finished_before(self) -> Path | None:
        """The model folder, if this run has already done all that is asked."""
        config, status = self.config, self.folder.status()
        if not status.get("finished") or not (self.folder.model / "model.safetensors").is_file():
            return None
        if config.trainer.minutes is not None:
            enough = status.get("seconds", 0.0) >= 60 * config.trainer.minutes
        else:
            enough = status.get("step", 0) >= config.trainer.steps
        if not enough:
            return None
        more = "trainer.steps" if config.trainer.minutes is None else "trainer.minutes"
        self.say(
            f"already trained: {self.folder.path} has {status['step']:,} steps "
            f"({duration(status['seconds'])}); ask for a larger {more} to go on, "
            f"or fresh=true to start again\nmodel   {self.folder.model}"
        )
        return self.folder.model

    def _training(self) -> Training:
        config = self.config
        optim = dataclasses.asdict(config.optim)
        if optim["lr"] is None:
            share = 1.0 if config.init is None else FINE_TUNING
            optim["lr"] = share * learning_rate(self.model.config["width"])
        if config.trainer.minutes is None:
            most = max(1, int(MOST_WARMUP * config.trainer.steps))
            if optim["warmup"] > most:
                self.say(
                    f"note    optim.warmup={optim['warmup']} is long for "
                    f"{config.trainer.steps} steps; it ends after {most}"
                )
                optim["warmup"] = most
        return Training(
            self.model,
            optim=optim,
            steps=config.trainer.steps,
            minutes=config.trainer.minutes,
            accumulate=config.trainer.accumulate,
            seed=config.seed,
        )

    def _restore(self) -> bool:
        last = self.folder.checkpoint
        if last is None:
            return False
        state = checkpoint.read(last)
        try:
            self.training.restore(state)
        except (RuntimeError, KeyError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"{last}: not of this model ({reason}); start again with fresh=true"
            ) from None
        return True

    def _header(self, report: Report, resumed: bool) -> None:
        config, shards, training = self.config, self.shards, self.training
        if not report.up_to_date:
            self.say(str(report))
        train, held_out = shards.totals("train"), shards.totals("validation")
        parameters = sum(p.numel() for p in self.model.parameters())
        shape = self.model.config
        device = describe_device(self.trainer)
        length = (
            f"{training.steps:,} steps"
            if training.minutes is None
            else f"{training.minutes:g} minutes"
        )
        trainer = config.trainer
        rows = trainer.batch * trainer.accumulate * self.trainer.world_size
        self.say(f"corpus  {shards.corpus['name']}: {train}; {held_out.pieces:,} pieces held out")
        self.say(
            f"model   {parameters:,} parameters: {shape['layers']} layers, width {shape['width']}, "
            f"context {shape['context']} tokens, positions {shape['position']['name']}"
        )
        self.say(
            f"train   {length} of {rows} x {shape['context']} tokens on {device}, "
            f"learning rate {training.optim['lr']:.2g}"
        )
        self.say(f"run     {self.folder.path}")
        if training.minutes is not None:
            self.say("note    ends by the clock: the same command will not give the same weights")
        if parameters > MOST_PARAMETERS_PER_TOKEN * train.tokens and config.init is None:
            self.say(
                f"note    {train.tokens:,} tokens are few for {parameters:,} parameters: it will "
                "learn them by heart; init=FOLDER (fine-tuning) or a smaller model does better"
            )
        if not resumed and self._native_would_do():
            self.say(
                "note    there is a C++ compiler: model.attention=native takes less time; so does "
                "trainer.precision=bf16 with it, if the CPU multiplies bfloat16"
            )
        if resumed:
            self.say(f"resume  at step {training.step:,}, after {duration(training.seconds)}")

    def _native_would_do(self) -> bool:
        """Whether attention was left to choice on a CPU that could have the compiled one."""
        if self.config.model.attention != "auto" or self.trainer.strategy.root_device.type != "cpu":
            return False
        try:
            compiler()
            self.model.check_attention("native")
        except UserError:
            return False
        return True

    # --------------------------------------------------------------------------------- training

    def _fit(self, resumed: bool) -> None:
        config, training, trainer = self.config, self.training, self.trainer
        if training.finished:
            return
        progress = Progress()
        say = progress.say
        data = MusicDataModule(
            self.shards,
            self.tokenizer,
            context=self.model.config["context"],
            batch=config.trainer.batch,
            augment=config.corpus.augment,
            seed=config.seed,
            validation_windows=config.trainer.validation_windows,
            workers=config.trainer.workers,
            accumulate=config.trainer.accumulate,
        )
        with StopRequest(tell=self.first) as request:
            callbacks: list[pl.Callback] = [
                Metrics(config.trainer.validate_every),
                progress,
                Checkpoints(
                    self.folder.path,
                    validate_every=config.trainer.validate_every,
                    request=request,
                    save_model=self._save_model,
                    say=say,
                ),
            ]
            if config.trainer.sample_seconds > 0:
                callbacks.append(
                    Samples(
                        self.folder.path / "samples",
                        self._sample,
                        draw,
                        seconds=config.trainer.sample_seconds,
                        seed=config.seed,
                        request=request,
                        say=say,
                    )
                )
            trainer.callbacks.extend(callbacks)  # type: ignore[attr-defined]
            if self.first:
                trainer.loggers = self._loggers()
            if not self.shards.pieces("validation"):
                trainer.limit_val_batches = 0
            try:
                trainer.fit(
                    training,
                    datamodule=Epochs(data, training, every=config.trainer.validate_every),
                )
            except (Stopped, StoppedAtOnce) as stop:
                progress.close()
                self._stopped(request, at_once=isinstance(stop, StoppedAtOnce))

    def _loggers(self) -> list[Any]:
        step = self.training.step
        loggers: list[Any] = [CsvLog(self.folder.path / "metrics.csv", keep_to=step)]
        if self.config.trainer.tensorboard and importlib.util.find_spec("tensorboard"):
            from pytorch_lightning.loggers import TensorBoardLogger

            loggers.append(
                TensorBoardLogger(
                    self.folder.path, name="", version="tensorboard", purge_step=step + 1
                )
            )
        return loggers

    def _sample(self, model: nn.Module, seconds: float, seed: int) -> Score:
        assert isinstance(model, MusicTransformer)
        (sample,) = continue_music(
            model,
            self.tokenizer,
            seconds=seconds,
            tokens=int(seconds * SAMPLE_TOKENS_PER_SECOND) + 100,
            sampling=self.config.sampling,
            habits=self._habits,
            seed=seed,
        )
        return sample.score

    @cached_property
    def _habits(self) -> dict[str, float | int]:
        """What up to :data:`MOST_PIECES` pieces of the corpus, evenly spread, do with notes."""
        pieces = self.shards.pieces("train")
        some = pieces[:: max(1, len(pieces) // MOST_PIECES)]
        return habits(self.tokenizer.decode(self.shards.tokens(p.number)) for p in some)

    # ----------------------------------------------------------------------------------- ending

    def _save_model(self, model: nn.Module, training: Training) -> None:
        assert isinstance(model, MusicTransformer)
        described = card(self.config, self.shards, training, self.trainer)
        described["habits"] = dict(self._habits)
        bundle.save(self.folder.model, model, self.tokenizer, described)

    def _stopped(self, request: StopRequest, *, at_once: bool) -> None:
        """Say where things are, and end the program as the signal asked."""
        training, last = self.training, self.folder.checkpoint
        if self.first:
            if last is None:
                self.say(f"stopped at step {training.step:,}, before the first checkpoint")
            else:
                step = checkpoint.read(last)["step"] if at_once else training.step
                self.say(f"stopped; the state at step {step:,} is in {last}")
                self.say("go on with the same command")
            if not at_once and not self.folder.model.is_dir():
                with averaged(training):
                    self._save_model(self.model, training)
            if self.folder.model.is_dir():
                best = training.best
                quality = (
                    "not validated yet"
                    if best is None
                    else f"validation {best['nll']:.4f} at step {best['step']:,}"
                )
                self.say(f"model so far: {self.folder.model} ({quality})")
        if request.signal == signal.SIGTERM or not self.first:
            raise SystemExit(128 + (request.signal or signal.SIGINT))
        raise KeyboardInterrupt

    def _finish(self) -> Path:
        """The model folder of the best checkpoint, the status, and a summary."""
        training, folder = self.training, self.folder
        if not self.first:
            return folder.model
        state = checkpoint.read(folder.path / BEST)
        self.model.load_state_dict(state["model"], strict=True)
        if state["ema"] is not None:
            with torch.no_grad():
                for name, p in self.model.named_parameters():
                    p.copy_(state["ema"]["mean"][name])
        self.model.cpu()
        self._save_model(self.model, training)
        folder.write_status(
            finished=True, step=training.step, seconds=training.seconds, best=training.best
        )
        self.say(
            f"trained {training.step:,} steps on {compact(training.tokens)} tokens "
            f"in {duration(training.seconds)}"
        )
        if training.best is not None:
            context = self.model.config["context"]
            windows = protocol(self.shards, context, self.config.trainer.validation_windows)
            self.say(
                f"best    {training.best['nll']:.4f} nats/token in validation, "
                f"at step {training.best['step']:,} ({windows})"
            )
        model = shlex.quote(str(folder.model))
        self.say(f"model   {folder.model}")
        if self.config.trainer.sample_seconds > 0:
            self.say(f"samples {folder.path / 'samples'}")
        self.say(f"try     musictx generate model={model} render=true")
        self.say(f"        musictx evaluate model={model}")
        return folder.model


def draw(score: Score, path: Path) -> None:
    """A piano roll of ``score`` as PNG."""
    from musictx.render import pianoroll

    pianoroll.draw(score, path)
