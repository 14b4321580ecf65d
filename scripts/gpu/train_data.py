"""Where train_throughput.py has its tokens from: shards, by the library's own loader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import common  # beside this file; finds musictx
import numpy as np
from torch import Tensor

from musictx.data.module import MusicDataModule
from musictx.data.shards import Shards
from musictx.data.writer import Writer
from musictx.notes import NOTE, Score
from musictx.tokens.build import build


def made_shards(folder: Path, pieces: int, notes: int) -> Path:
    """Shards of random pieces of performance tokens."""
    tokenizer = build("performance")
    with Writer(
        folder, fingerprint=tokenizer.fingerprint, tokenizer_config=tokenizer.to_config(),
        corpus={"name": "random"},
    ) as writer:  # fmt: skip
        for seed in range(pieces):
            random = np.random.default_rng(seed)
            table = np.zeros(notes, NOTE)
            table["start"] = np.cumsum(random.integers(0, 40, notes)) / 100
            table["end"] = table["start"] + random.integers(5, 90, notes) / 100
            table["pitch"] = random.integers(30, 90, notes)
            table["velocity"] = random.integers(1, 128, notes)
            ids = tokenizer.encode(Score(notes=table))
            seconds = float(table["end"].max())
            writer.add(ids, name=f"{seed}", split="train", notes=notes, seconds=seconds)
    return folder


def batches(
    given: dict[str, str], rows: int, length: int, folder: Path
) -> Iterator[dict[str, Tensor]]:
    """Batches of the library's own loader, augmented as in training."""
    shards = Shards(folder)
    tokenizer = build(**shards.tokenizer_config)
    if tokenizer.size > common.VOCABULARY:
        raise SystemExit(
            f"shards={folder}: {tokenizer.name} has {tokenizer.size} ids, the models here know "
            f"{common.VOCABULARY}; expected shards of tokenizer=performance"
        )
    data = MusicDataModule(
        shards, tokenizer, context=length, batch=rows, workers=int(given["workers"])
    )
    for batch in data.train_dataloader():
        yield {"ids": batch.ids, "targets": batch.targets, "piece_ids": batch.piece_ids}
