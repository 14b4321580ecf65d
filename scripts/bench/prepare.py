"""Compare the speed of tokenizing MIDI files with musictx and with MidiTok.

    python -m scripts.bench.prepare FOLDER [files=30] [repeats=3] [seed=0]

Draws ``files`` of FOLDER by ``seed``. Reads and encodes them in turns, ``repeats`` times, with
musictx as ``musictx prepare`` does (notes, pedals, content hash, ids) and with MidiTok's REMI, in
one process. Times are processor time, so that other work on the machine matters little. First it
checks that musictx reads the same notes as symusic, MidiTok's reader, except in damaged files.
Needs MidiTok.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import miditok
import numpy as np
import symusic

from musictx import formats
from musictx.config import CorpusConfig
from musictx.data.corpora import Folder, read_file
from musictx.data.encode import encode_item
from musictx.errors import UserError
from musictx.tokens.build import build
from scripts.harness import run


def main(*folder: str, files: int = 30, repeats: int = 3, seed: int = 0) -> None:
    if len(folder) != 1:
        raise UserError("FOLDER: missing, expected a folder with MIDI files")
    items = list(Folder(folder[0]).items())
    random.Random(seed).shuffle(items)
    items = items[:files]
    compared = sum(same_notes(item.source) for item in items)
    print(f"{len(items)} files, {sum(i.size for i in items) / 1e6:.1f} MB; the notes of ", end="")
    print(f"{compared} are those that symusic reads, the others were damaged and repaired")

    tokenizer, remi = build(name="performance"), miditok.REMI()
    encode = partial(
        encode_item,
        read=read_file,
        config=json.dumps(tokenizer.to_config(), sort_keys=True),
        corpus=CorpusConfig(),
    )
    ways: dict[str, Callable[[], object]] = {
        "musictx": lambda: [encode(item) for item in items],
        "MidiTok REMI": lambda: [remi(item.source) for item in items],
        "symusic, reading only": lambda: [symusic.Score(item.source) for item in items],
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):
        for name, work in ways.items():
            rates[name].append(len(items) / seconds(work))
    # The first time is a warm-up.
    median = {name: statistics.median(values[1:]) for name, values in rates.items()}
    for name, rate in median.items():
        print(f"{name:<22} {rate:8.1f} files/s")
    print(f"musictx / MidiTok REMI  {median['musictx'] / median['MidiTok REMI']:7.1f}")


def seconds(work: Callable[[], object]) -> float:
    """Processor time of ``work``."""
    started = time.process_time()
    work()
    return time.process_time() - started


def same_notes(path: str) -> bool:
    """Whether symusic reads the same notes: start and end (float32 in symusic) within 2 ms, pitch
    and velocity. Raises ``AssertionError`` if not, unless the file was repaired."""
    repairs: Counter[str] = Counter()
    ours = formats.read(path, repairs=repairs).notes
    theirs = [
        (note.start, note.start + note.duration, note.pitch, note.velocity)
        for track in symusic.Score(path, ttype="Second").tracks
        for note in track.notes
    ]
    read = np.stack([ours[name].astype(float) for name in ("start", "end", "pitch", "velocity")], 1)
    other = np.array(theirs, float).reshape(-1, 4)
    read, other = (table[np.lexsort(table.T[[1, 3, 0, 2]])] for table in (read, other))
    same = read.shape == other.shape and bool(np.abs(read - other).max(initial=0.0) < 2e-3)
    if not same and not repairs:
        raise AssertionError(f"{path}: {len(read)} notes, symusic reads {len(other)}")
    return same


if __name__ == "__main__":
    run(main)
