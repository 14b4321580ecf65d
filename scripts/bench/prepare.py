"""How fast a folder of MIDI becomes shards, and how fast shards become training batches.

    python scripts/bench/prepare.py FOLDER [--workers 1 2] [--contexts 512 2048] [--seconds 2]

Prints files a second for each number of worker processes (wall clock, processes started anew) and
million tokens a second and process of training batches, without augmentation, transposed only, and
with the default augmentation (processor time). Writes nothing outside a temporary folder.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from musictx.config import AugmentConfig, CorpusConfig
from musictx.data.module import MusicDataModule
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.tokens.build import build

AUGMENTATIONS = {
    "none": AugmentConfig(transpose=0, stretch=[1.0], velocity=0),
    "transpose": AugmentConfig(stretch=[1.0]),
    "default": AugmentConfig(),
    "default and velocity": AugmentConfig(velocity=8),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--contexts", type=int, nargs="+", default=[512, 2048])
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="for each measurement of batches"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = build(name="performance")
    with tempfile.TemporaryDirectory() as temporary:
        for workers in options.workers:
            out = Path(temporary, str(workers))
            started = time.perf_counter()
            report = prepare(CorpusConfig(path=options.folder, workers=workers), tokenizer, out)
            seconds = time.perf_counter() - started
            print(f"{workers} workers: {report.found / seconds:8.1f} files/s in {seconds:.1f} s")
        print(report)
        shards = Shards(out)
        for context in options.contexts:
            for name, augment in AUGMENTATIONS.items():
                module = MusicDataModule(
                    shards,
                    tokenizer,
                    context=context,
                    batch=max(1, 16384 // context),
                    augment=augment,
                )
                batches = iter(module.train_dataloader())
                next(batches)
                tokens = 0
                started = time.process_time()
                while (spent := time.process_time() - started) < options.seconds:
                    tokens += int((next(batches).targets != -100).sum())
                rate = tokens / spent / 1e6
                print(f"context {context:5}, {name:<20} {rate:7.2f} million scored tokens/s")


if __name__ == "__main__":
    main()
