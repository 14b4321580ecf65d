"""Notes a second of whole requests: models side by side, by their fastest step and in plain torch.

    python -m scripts.bench.notes [models=piano,song] [seconds=60] [turns=3] [rehearse=true]

``musictx.generate`` composes pieces of so many seconds by the same seeds, in turns, so that
whatever else the machine does meets all of them. Counted is processor time of one thread, all of
it: network, features, grammar, drawing. Before anything is printed the ids of the first piece, as
far as a window goes, are compared with those of ordinary passes through the model (``growing``),
which are timed once; for models in bytes, whose keys and values the step rounds, the logits are.
"""

from __future__ import annotations

import statistics
import time

import torch

import musictx
from musictx.model import MusicTransformer
from musictx.sampling import engine
from scripts.bench.common import ROUNDED, off, rounds
from scripts.words import options, run, several

DEFAULTS = {"models": "piano,song", "seconds": "60", "turns": "3"}
TINY = {"seconds": "4", "turns": "1"}


def composed(
    bundle: musictx.Bundle, seconds: float, seed: int, cache: str = "auto"
) -> tuple[list[int], float, float]:
    """Ids of a piece, notes a second of processor time, and milliseconds an id."""
    chosen = engine.chosen
    engine.chosen = lambda _, model: chosen(cache, model)
    try:
        begin = time.process_time()
        (piece,) = musictx.generate(bundle, seconds=seconds, seed=seed)
        took = time.process_time() - begin
    finally:
        engine.chosen = chosen
    return piece.ids.tolist(), piece.notes / took, 1e3 * took / len(piece.ids)


@torch.inference_mode()
def close(model: MusicTransformer, ids: list[int]) -> bool:
    """Whether the step rounds keys and values, and is right up to that along ``ids``."""
    return rounds(model) and off(model, torch.tensor([[engine.BOS, *ids]]), "auto") < ROUNDED


def main(words: list[str]) -> int:
    given = options(words, DEFAULTS, TINY)
    seconds, turns = float(given["seconds"]), int(given["turns"])
    torch.set_num_threads(1)
    bundles = {name: musictx.load(name) for name in several(given["models"])}
    found: dict[str, list[tuple[float, float]]] = {}
    for name, bundle in bundles.items():
        composed(bundle, 1, 0)  # what is compiled once
        plain, *slow = composed(bundle, seconds, 0, "growing")
        window = slice(bundle.model.config.context - 1)  # then it slides by other steps
        ids = composed(bundle, seconds, 0)[0][window]
        if ids != plain[window] and not close(bundle.model, ids):
            print(f"WRONG {name}: other ids than by ordinary passes")
            return 1
        found[f"{name} growing"] = [(slow[0], slow[1])]
    for turn in range(turns):
        for name, bundle in bundles.items():
            _, rate, each = composed(bundle, seconds, turn)
            found.setdefault(name, []).append((rate, each))
    rates = {name: statistics.median(rate for rate, _ in rows) for name, rows in found.items()}
    first = rates[next(iter(bundles))]
    print(f"{'model':16} notes/s      x  ms an id   (one thread, processor time, {seconds:g} s)")
    for name in sorted(rates):
        each = statistics.median(each for _, each in found[name])
        print(f"{name:16} {rates[name]:7.1f} {rates[name] / first:6.2f} {each:9.3f}")
    return 0


if __name__ == "__main__":
    run(main)
