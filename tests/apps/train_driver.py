"""A tiny training as its own process: ``python -m tests.apps.train_driver FOLDER KEY=VALUE ...``.

``die=N`` ends the process by SIGKILL in the middle of writing checkpoint number N. The exit status
is what ``musictx train`` gives.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch

from musictx import midi
from musictx.config import (
    AugmentConfig,
    CorpusConfig,
    DataConfig,
    ModelConfig,
    OptimConfig,
    TrainConfig,
    TrainerConfig,
)
from musictx.config.trainer import PASSED_ON
from musictx.notes import NOTE, Score

CHECKOUT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def driver(root: Path, *words: str) -> list[str]:
    """The command of a training in ``root``."""
    return [sys.executable, "-m", "tests.apps.train_driver", str(root), *words]


def tune(seed: int, notes: int = 60) -> Score:
    """A melody that wanders over a scale in eighths; different for each seed."""
    rng = np.random.default_rng(seed)
    table = np.zeros(notes, NOTE)
    scale = np.array([60, 62, 64, 65, 67, 69, 71, 72])
    table["pitch"] = scale[np.abs(np.cumsum(rng.integers(-1, 2, notes))) % 8]
    table["start"] = np.arange(notes) * 0.25
    table["end"] = table["start"] + 0.2
    table["velocity"] = rng.integers(50, 100, notes)
    return Score(notes=table)


def write_corpus(folder: Path, pieces: int = 6) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(pieces):
        midi.write(tune(i), folder / f"tune {i}.mid")
    return folder


def config(root: Path, run: str, **options) -> TrainConfig:
    """A training of 12 steps on ``root/midi`` in ``root/run``: dropout, averaging, accumulation."""
    optim = {k: options.pop(k) for k in ("lr", "ema") if k in options}
    flags = [*TrainerConfig.__dataclass_fields__, *PASSED_ON]
    trainer = {k: options.pop(k) for k in list(options) if k in flags}
    model = {k: options.pop(k) for k in ("layers", "context", "dropout") if k in options}
    data = {k: options.pop(k) for k in list(options) if k in DataConfig.__dataclass_fields__}
    corpus = {k: options.pop(k) for k in ("path", "shards", "validation") if k in options}
    shape = {"layers": 1, "width": 16, "heads": 2, "feedforward": 32, "context": 32}
    tiny = {
        "max_steps": 12,
        "accumulate_grad_batches": 2,
        "val_check_interval": 10,  # five steps
        "log_every_n_steps": 1,
        "accelerator": "cpu",
        "devices": "1",
    }
    samples = {
        "_target_": "musictx.training.callbacks.Samples",
        "seconds": options.pop("seconds", 0),
    }
    kept = {
        name: {"_target_": f"musictx.training.callbacks.{name.title()}Checkpoint"}
        for name in ("best", "last")
    }
    table = {"_target_": "musictx.training.loggers.MetricsTable", "save_dir": "{run_folder}"}
    return TrainConfig(
        corpus=CorpusConfig(
            **{"path": str(root / "midi"), "shards": str(root / "shards")} | corpus,
            workers=1,
            augment=AugmentConfig(transpose=2),
        ),
        model=ModelConfig(**shape | {"dropout": 0.2} | model),
        data=DataConfig(**{"batch_size": 2, "validation_windows": 4} | data),
        optim=OptimConfig(**{"ema": 0.9, "lr": 3e-3} | optim, warmup=2),
        trainer=TrainerConfig.of(**tiny | trainer),
        callbacks={"samples": samples, **kept, **options.pop("callbacks", {})},
        logger=options.pop("logger", {"csv": table}),
        out=str(root / run),
        **options,
    )


def die_in_checkpoint(number: int) -> None:
    from musictx.training import checkpoint

    original = torch.save
    written = 0

    def save(state, file):
        nonlocal written
        written += 1
        if written == number:
            file.write(b"half a checkpoint")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        original(state, file)

    checkpoint.torch.save = save


def main() -> int:
    from musictx.apps import train

    torch.set_num_threads(1)
    options = dict(word.split("=") for word in sys.argv[2:])
    if "die" in options:
        die_in_checkpoint(int(options.pop("die")))
    run = options.pop("run")
    try:
        text = {"devices", "strategy"}
        typed = {k: v if k in text else int(v) for k, v in options.items()}
        if "dropout" in typed or "devices" in typed:
            typed.setdefault("accumulate_grad_batches", 1)
        train.run(config(Path(sys.argv[1]), run, **typed))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
