"""What a corpus costs by its number of pieces, for docs/scale.md.

    python scripts/bench/scale.py [pieces=100000] [files=2000] [seed=0] [rehearse=true]

Each line is measured in a process of its own, whose largest memory it tells: ``musictx prepare`` of
``files`` short MIDI files and of twice as many, opening shards of ``pieces`` pieces and of twice as
many, and what a training step of ``model=tiny`` keeps for each parameter. What the second of two
sizes costs beyond the first is the price of a piece, whatever the rest of the process needs.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch

from musictx import midi
from musictx.config import CorpusConfig
from musictx.data.module import MusicDataModule
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.data.writer import Writer
from musictx.model.transformer import MusicTransformer
from musictx.notes import NOTE, Score
from musictx.tokens.build import build

DEFAULTS = {"pieces": "100000", "files": "2000", "seed": "0"}
TINY = {"pieces": "200", "files": "5"}
TOKENIZER = build(name="performance")


def main() -> None:
    given = {
        k: int(v) for k, v in common.options(sys.argv[1:], DEFAULTS, TINY).items() if k in DEFAULTS
    }
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for name, measure, count in (
            ("prepare", prepared, given["files"]),
            ("opened", opened, given["pieces"]),
        ):
            costs = []
            for times in (1, 2):
                folder = root / f"{name}-{times}"
                (write_files if measure is prepared else write_shards)(
                    folder, times * count, given["seed"]
                )
                costs.append(alone(measure, folder))
            (first, least), (second, most) = costs
            price = 1e3 * (second - first) / count, 1e3 * (most - least) / count
            print(f"{name}: {count:,} pieces {first:.1f} s, {least:.0f} MB;", end=" ")
            print(f"{2 * count:,} {second:.1f} s, {most:.0f} MB:", end=" ")
            print(f"{price[0]:.3f} ms and {price[1]:.2f} KB for a further piece", flush=True)
        size = sum(
            f.stat().st_size for f in (root / "opened-1").iterdir() if f.name != "tokens.bin"
        )
        print(f"table of pieces: {size / given['pieces']:.0f} bytes a piece on disk")
    parameters, held = state()
    print(f"training state: {held / parameters:.1f} bytes a parameter, without activations")


def alone(measure: Callable[[Path], None], folder: Path) -> tuple[float, float]:
    """Seconds of processor time and the largest memory, MB, of ``measure`` in a new process."""
    context = get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=_measured, args=(measure, folder, queue))
    process.start()
    found = queue.get()
    process.join()
    return found


def _measured(measure: Callable[[Path], None], folder: Path, queue: Any) -> None:
    began = time.process_time()
    measure(folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    queue.put((time.process_time() - began, used.ru_maxrss / 1024))


def write_files(folder: Path, count: int, seed: int) -> None:
    folder.mkdir()
    for number in range(count):
        midi.write(tune(np.random.default_rng([seed, number])), folder / f"{number:07}.mid")


def tune(random: np.random.Generator, notes: int = 40) -> Score:
    table = np.zeros(notes, NOTE)
    table["pitch"], table["velocity"] = random.integers(40, 90, notes), 80
    table["start"] = np.arange(notes) * 0.25
    table["end"] = table["start"] + 0.2
    return Score(notes=table)


def prepared(folder: Path) -> None:
    options = CorpusConfig(path=str(folder), workers=1)
    prepare(options, TOKENIZER, folder.with_name(f"{folder.name}-shards"), progress=False)


def write_shards(folder: Path, count: int, seed: int) -> None:
    ids = TOKENIZER.encode(tune(np.random.default_rng(seed)))
    with Writer(
        folder, fingerprint=TOKENIZER.fingerprint, tokenizer_config=TOKENIZER.to_config(),
        corpus={"name": "x"}, vocabulary=TOKENIZER.size,
    ) as out:  # fmt: skip
        for number in range(count):
            split = "validation" if number % 20 == 0 else "train"
            out.add(ids, name=f"a folder/{number:07}.mid", split=split, hash=f"{number:032x}")


def opened(folder: Path) -> None:
    """As each process of a training does."""
    shards = Shards(folder)
    data = MusicDataModule(shards, TOKENIZER, context=512, batch_size=8)
    next(iter(data.train_dataloader()))


def state() -> tuple[int, int]:
    """(parameters, bytes of weights, gradients and Adam's averages) after a step."""
    model = MusicTransformer(
        TOKENIZER.size, layers=2, width=64, heads=2, feedforward=128, context=64
    )
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 8, dtype=torch.int64)).sum().backward()
    optimizer.step()
    own = list(model.parameters())
    kept = [*own, *(p.grad for p in own if p.grad is not None)]
    kept += [v for values in optimizer.state.values() for v in values.values() if v.ndim]
    return sum(p.numel() for p in own), sum(t.numel() * t.element_size() for t in kept)


if __name__ == "__main__":
    main()
