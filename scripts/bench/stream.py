"""Measure endless music, for docs/reliability.md: memory, density and hanging notes by the hour.

    python -m scripts.bench.stream [model=piano] [hours=6] [every=0.5] [seed=0]

Reads a stream of events (``musictx.stream``) for ``hours`` of music and prints every ``every``
hours: tokens drawn, notes a second, the longest note, and the memory of the process. Ends with
status 1 if a note ended that never began, began twice, or never ended, or if time decreased.
"""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import torch

import musictx
from scripts.harness import run


def main(model: str = "piano", hours: float = 6, every: float = 0.5, seed: int = 0) -> int:
    torch.set_num_threads(1)
    every, until = 3600 * every, 3600 * hours
    bundle, began = musictx.load(model), time.monotonic()
    sounding: dict[tuple[int, int], float] = {}
    faults, notes, longest, now, reported = 0, 0, 0.0, 0.0, every
    with musictx.stream(bundle, seconds=until, seed=seed) as stream:
        for event in itertools.chain(stream, [None]):  # None: the end
            while reported <= (until if event is None else event.seconds):
                print(
                    f"{reported / 3600:g} h: {stream.drawn:,} tokens, {notes / every:.2f} notes/s, "
                    f"longest note {longest:.1f} s, {len(sounding)} sounding, {memory():.1f} MB, "
                    f"{time.monotonic() - began:.0f} s",
                    flush=True,
                )
                notes, longest, reported = 0, 0.0, reported + every
            if event is None:
                break
            faults, now = faults + (event.seconds < now), event.seconds
            key = event.track, event.pitch
            faults += event.on == (key in sounding)
            if event.on:
                sounding[key], notes = now, notes + 1
            else:
                longest = max(longest, now - sounding.pop(key, now))
    print(f"end at {now:.1f} s: {len(sounding)} sounding, {faults} faults, {memory():.1f} MB")
    return int(bool(faults or sounding))


def memory() -> float:
    """The memory of this process in megabytes (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    run(main)
