"""``musictx train``: train a model on a corpus; the same command resumes a stopped run."""

from __future__ import annotations

import dataclasses
import shutil
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, NoReturn

from musictx import bundle, files
from musictx.config import TrainConfig
from musictx.data.prepare import prepare
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.shipped import model_folder
from musictx.tokens.build import build as build_tokenizer
from musictx.tokens.tokenizer import Tokenizer
from musictx.training import ranks, report, run_folder
from musictx.training.callbacks import averaged
from musictx.training.network import build_model, freeze, model_from_init
from musictx.training.progress import duration
from musictx.training.ranks import print_once
from musictx.training.run import Run
from musictx.training.run_folder import RunFolder
from musictx.training.signals import Stopped
from musictx.training.trainer import quiet


class Trained(NamedTuple):
    """The result of training.

    model            the model folder; None after ``fast_dev_run``
    validation_loss  the lowest one, in nats per token; None if it was not measured
    steps            the number of optimizer steps, earlier runs of the command included
    """

    model: Path | None
    validation_loss: float | None
    steps: int


def run(config: TrainConfig) -> Trained:
    """Train a model with the options ``config``.

    Prepares the corpus if necessary. Resumes if the run folder has a checkpoint; returns at once if
    the run is finished. Raises ``UserError`` for impossible options, mostly before training, and
    ``WriteError`` for a full disk, after which the same command resumes. Ctrl-C saves a checkpoint
    and prints its path; then ``KeyboardInterrupt`` is raised.

    With several processes (DDP) each of them calls this function; only the first writes and prints.
    If a launcher (torchrun, SLURM) starts them, run ``musictx prepare`` first.
    """
    is_first, is_trial = ranks.is_first(), bool(config.trainer.fast_dev_run)
    with quiet(), ExitStack() as stack:
        # 1. Configuration, network and corpus
        config = dataclasses.replace(config, trainer=ranks.from_environment(config.trainer))
        files.check_writable(Path(config.out or "runs"), "out")
        tokenizer, model = make_network(config)
        prepared = prepare(config.corpus, tokenizer)
        if not prepared.up_to_date:
            print_once(str(prepared))
        shards = prepared.shards

        # 2. The run folder: new, to resume, or finished
        fingerprints = run_folder.hash_inputs(config, shards, tokenizer)
        path = run_folder.choose_path(config, shards.corpus["name"], fingerprints)
        if is_trial:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory()), path.name)
        folder = RunFolder(path)
        if is_first:
            stack.enter_context(run_folder.exclusive_lock(folder.path / run_folder.LOCK))
            folder.check(config, fingerprints)
        was_new, state = folder.is_new, folder.state(config)
        if state.is_finished:
            print_once(
                f"already trained: {path} has {state.step:,} steps ({duration(state.seconds)}); "
                f"to continue, give out={path} and a larger trainer.max_steps or "
                f"trainer.max_time; to start again, another out=\nmodel   {folder.model}"
            )
            return Trained(folder.model, state.validation_loss, state.step)
        if state.step:
            print_once(f"resume  at step {state.step:,} from {folder.last}")

        # 3. LightningModule, data module, callbacks and Trainer
        training = Run(config, folder, shards, tokenizer, model)
        trainer = training.trainer
        if is_first:
            folder.begin(config, fingerprints)
        print_once(report.header(training))

        # 4. Training
        stack.callback(ranks.destroy_process_group)
        initial_loss = None
        try:
            with training.stop:
                if config.init is not None and not state.step and not is_trial:
                    initial_loss = training.validate_initial_model()
                training.fit(folder.last if state.step else None)
        except Stopped:
            exit_after_signal(training)
        except UserError:
            # Lightning refused an option before the first step.
            if is_first and was_new and trainer.global_step == 0:
                shutil.rmtree(folder.path, ignore_errors=True)
            raise

        # 5. The model folder
        if is_trial:
            print_once("fast_dev_run: training and validation work; no run folder was written")
            return Trained(None, training.validation_loss(), trainer.global_step)
        if trainer.is_global_zero:
            training.save_best_model()
            print_once(report.summary(training, initial_loss))
        return Trained(folder.model, training.validation_loss(), trainer.global_step)


def make_network(config: TrainConfig) -> tuple[Tokenizer, MusicTransformer]:
    """Return the tokenizer and the network to train. With ``init=FOLDER`` they come from this model
    folder instead of the options of tokenizer, model and position scheme."""
    if config.init is not None:
        loaded = bundle.load(model_folder(config.init, option="init"))
        tokenizer, model, added = model_from_init(loaded, config)
        changes = f"; added to it: {', '.join(added)}" if added else ""
        if config.freeze:
            freeze(model, config.freeze)
            changes += f"; the first {config.freeze} of {len(model.blocks)} layers are frozen"
        print_once(
            f"init    {loaded.folder}: its weights, and its tokenizer, model and position "
            f"settings instead of those given here{changes}"
        )
        return tokenizer, model
    tokenizer = build_tokenizer(**dataclasses.asdict(config.tokenizer))
    return tokenizer, build_model(config, tokenizer)


def exit_after_signal(training: Run) -> NoReturn:
    """Print the path of the checkpoint, and exit with the usual status of the signal: 130 for
    Ctrl-C, 143 for SIGTERM. Processes that Lightning started exit with 0, since Lightning would
    kill the first process otherwise."""
    stop = training.stop
    if training.trainer.is_global_zero:
        if stop.agreed and not training.folder.model.is_dir():
            with averaged(training.trainer):
                training.save_model()
        print_once(report.stopped(training))
    if training.trainer.local_rank:
        raise SystemExit(0)
    if stop.received == signal.SIGTERM:
        raise SystemExit(128 + signal.SIGTERM)
    raise KeyboardInterrupt
