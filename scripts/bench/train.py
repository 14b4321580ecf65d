"""Speed of ``musictx train`` itself: tokens a second, FLOP utilisation, peak memory.

    python scripts/bench/train.py corpus.shards=FOLDER model=paper trainer.accelerator=gpu
    python scripts/bench/train.py model=tiny trainer.accelerator=cpu    on random music
    python scripts/bench/train.py ... attention=auto,textbook           one after the other
    python scripts/bench/train.py ... steps=40 warm=10 csv=train.csv
    python scripts/bench/train.py rehearse=true                         tiny, on the CPU: a minute

Every other word is one of ``musictx train``. Each run is the command as it is, data, callbacks and
optimizer included; a callback takes the time of every optimizer step after ``warm`` of them.
``textbook`` is the skew of Huang et al. (2018), every operation in the dtype of the model, which a
careful reader of the paper would write.

Utilisation is operations_per_token x tokens a second, over the dense bfloat16 rate of the device's
data sheet where it is known. Training runs in a temporary folder; nothing else is written than
``csv``.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from common import textbook
from torch import nn

from musictx.apps import train
from musictx.compose import compose
from musictx.errors import UserError
from musictx.files import write_table
from musictx.formats import write
from musictx.model import block
from musictx.model.transformer import MusicTransformer
from musictx.notes import NOTE, Score

#: Dense bfloat16 operations a second, from the vendor's data sheets (SXM parts).
PEAKS = {"H100": 989.4e12, "H200": 989.4e12, "A100": 312e12}
COLUMNS = (
    "attention", "model", "device", "precision", "rows", "length", "steps", "tokens_per_second",
    "quartile1", "quartile3", "utilisation", "peak_MB", "operations_per_token", "torch",
)  # fmt: skip
#: What rehearse=true says unless told otherwise.
TINY = (
    *("model=tiny", "model.layers=1", "model.context=64", "trainer=laptop", "data.batch_size=2"),
    *("trainer.accelerator=cpu", "data.num_workers=0"),
)
#: The library's own ``attend``, wherever ``textbook`` has been put in its place.
LIBRARY = block.attend
#: What the last run measured; filled by :class:`Speed`.
MEASURED: dict[str, Any] = {}


class Speed(pl.Callback):
    """Seconds of every optimizer step after ``warm`` of them, into :data:`MEASURED`."""

    def __init__(self, warm: int) -> None:
        self.warm, self.seconds, self.tokens = warm, [], []  # type: ignore[var-annotated]
        self.before, self.seen = 0.0, 0

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: pl.LightningModule, outputs: Any, batch: Any, number: int
    ) -> None:
        self.seen += batch.ids.numel() * trainer.world_size
        if trainer.global_step * trainer.accumulate_grad_batches != number + 1:
            return
        device = module.device
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        now = time.perf_counter()
        if trainer.global_step == self.warm and device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        if trainer.global_step > self.warm:
            self.seconds.append(now - self.before)
            self.tokens.append(self.seen)
        self.before, self.seen = now, 0
        MEASURED.update(
            rates=[n / s for n, s in zip(self.tokens, self.seconds)],
            rows=len(batch.ids),
            length=batch.ids.shape[1],
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
            precision=str(trainer.precision),
            peak_MB=torch.cuda.max_memory_allocated(device) / 2**20
            if device.type == "cuda"
            else float("nan"),
            work=operations_per_token(module.model, batch.ids.shape[1]),
        )


def operations_per_token(model: MusicTransformer, length: int) -> dict[str, float]:
    """Floating-point operations that a training step needs for a token, by what needs them.

        matrices   6 N: two for each weight of a matrix forward, four backward; N counts the
                   linear layers and the output matrix, not embeddings that are looked up, not norms
        content    6 n L d: q k and w v, 4 (L / 2) d forward for each of n layers, twice that
                   backward; causal, so half of the L x L pairs
        relative   3 n L d: q E forward, as much again for each of two gradients

    L tokens to a row, d channels. Softmax, norms, dropout, loss, optimizer and whatever is computed
    a second time in the backward pass are not counted: utilisation is of work that must be done.
    """
    shape = model.config
    matrices = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))
    if shape["tied"]:
        matrices += model.embedding.weight.numel()
    pairs = shape["layers"] * length * shape["width"]
    relative = any(axis.table is not None for axis in model.position.terms(0, reach=length).axes)
    return {"matrices": 6.0 * matrices, "content": 6.0 * pairs, "relative": 3.0 * pairs * relative}


def random_music(folder: Path, pieces: int = 6, notes: int = 600) -> Path:
    """A folder of random MIDI files to train on."""
    folder.mkdir(parents=True)
    for seed in range(pieces):
        random = np.random.default_rng(seed)
        table = np.zeros(notes, NOTE)
        table["start"] = np.cumsum(random.integers(0, 40, notes)) / 100
        table["end"] = table["start"] + random.integers(5, 90, notes) / 100
        table["pitch"] = random.integers(30, 90, notes)
        table["velocity"] = random.integers(1, 128, notes)
        write(Score(notes=table), folder / f"{seed}.mid")
    return folder


def measure(
    attention: str, words: list[str], steps: int, warm: int, folder: Path
) -> dict[str, Any]:
    """One run of ``musictx train`` and what it measured: a line of the table."""
    chosen = "auto" if attention == "textbook" else attention
    given = {word.partition("=")[0] for word in words}
    words = [*words, f"model.attention={chosen}", f"trainer.max_steps={warm + steps}"]
    words += [] if "callbacks" in given else ["callbacks=none", "logger=none"]
    words += [f"out={folder / attention}", "data.validation_windows=1"]
    words += [f"trainer.val_check_interval={warm + steps}"]
    config = compose("train", words)
    config.callbacks = config.callbacks | {"speed": {"_target_": f"{__name__}.Speed", "warm": warm}}
    MEASURED.clear()
    block.attend = textbook if attention == "textbook" else LIBRARY  # type: ignore[assignment]
    try:
        train.run(config)
    finally:
        block.attend = LIBRARY
    found = dict(MEASURED)
    rates, work = found.pop("rates"), sum(found.pop("work").values())
    low, middle, high = statistics.quantiles(rates, n=4) if len(rates) > 1 else rates * 3
    peak = next((rate for part, rate in PEAKS.items() if part in found["device"]), float("nan"))
    return found | {
        "attention": attention,
        "model": config.model.name,
        "steps": len(rates),
        "tokens_per_second": round(middle),
        "quartile1": round(low),
        "quartile3": round(high),
        "utilisation": round(middle * work / peak, 4),
        "operations_per_token": work,
        "torch": torch.__version__,
    }


def main(words: list[str]) -> list[dict[str, Any]]:
    given = {"attention": "auto,textbook", "steps": "20", "warm": "5", "csv": "", "rehearse": ""}
    if "rehearse=true" in words:
        words = [*TINY, "steps=2", "warm=1", *words]
    rest = []
    for word in words:
        name, _, value = word.partition("=")
        if name in given:
            given[name] = value
        else:
            rest.append(word)
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made:
        if not any(word.startswith("corpus") for word in rest):
            rest += [f"corpus.path={random_music(Path(made) / 'midi')}", "corpus.workers=1"]
            rest += [f"corpus.shards={made}/shards"]
        for attention in given["attention"].split(","):
            folder = Path(made) / "runs"
            lines.append(measure(attention, rest, int(given["steps"]), int(given["warm"]), folder))
    for line in lines:
        print(
            f"{line['attention']:9} {line['tokens_per_second']:10,} tokens/s "
            f"({line['quartile1']:,} to {line['quartile3']:,})"
            + ("" if math.isnan(line["peak_MB"]) else f", {line['peak_MB']:.0f} MB")
            + (
                ""
                if math.isnan(line["utilisation"])
                else f", utilisation {line['utilisation']:.1%}"
            )
        )
    if given["csv"]:
        write_table(given["csv"], lines, COLUMNS)
    return lines


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
