"""A tiny training. ``python -m tests.apps.train_driver NUMBER WORD ...`` is ``musictx train``, but
is killed in the middle of writing checkpoint NUMBER."""

import itertools
import os
import signal
import sys
from pathlib import Path

import torch

from musictx import cli
from musictx.config import TrainConfig
from musictx.hydra_config import compose
from musictx.training import checkpoint

CHECKOUT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(CHECKOUT)}
#: 12 steps with dropout, averaging and accumulation; a validation every five steps.
USUAL = """corpus.workers=1 corpus.augment.transpose=2 data.batch_size=2 data.validation_windows=4
init=null model.layers=1 model.width=16 model.heads=2 model.feedforward=32 model.context=32
model.dropout=0.2 optim.ema=0.9 optim.lr=0.003 optim.warmup=2 callbacks.samples.seconds=0
trainer.max_steps=12 trainer.accumulate_grad_batches=2 trainer.val_check_interval=10
trainer.log_every_n_steps=1 trainer.accelerator=cpu trainer.devices=1"""


def words(root: Path, run: str | Path, *more: str) -> list[str]:
    """Those of ``musictx train`` on ``root/midi`` in ``root/run``."""
    usual = [f"corpus.path={root}/midi", f"corpus.shards={root}/shards", f"out={root / run}"]
    given = dict(word.split("=", 1) for word in [*usual, *USUAL.split(), *more])
    return [f"{name}={value}" for name, value in given.items()]


def config(root: Path, run: str | Path, *more: str) -> TrainConfig:
    return compose(words(root, run, *more))


if __name__ == "__main__":
    last, *typed = sys.argv[1:]
    save, number = torch.save, itertools.count(1)

    def killed(state, file):
        if next(number) == int(last):
            file.write(b"half a checkpoint")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        save(state, file)

    checkpoint.torch.save = killed
    sys.exit(cli.main(["train", *typed]))
