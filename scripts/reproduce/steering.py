"""How well a model follows its controls: rank correlation of requested and measured.

    python -m scripts.reproduce.steering [model=piano] [samples=64] [seconds=20] [seed=0]

For each control, generates ``samples`` free pieces at eight requested values, spread over its
levels, and measures the value of each piece as in training (``musictx.tokens.controls.measured``).
Prints for each control the mean measured value at each requested value, and Spearman's rank
correlation over all pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

import musictx
from musictx.tokens.controls import CONTROLS, measure_controls
from scripts.harness import run

#: Values requested of each control.
VALUES = 8


def values(name: str) -> list[float]:
    """Eight values from the second-lowest to the second-highest level of a control."""
    middles = [(a * b) ** 0.5 for a, b in pairwise(CONTROLS[name])]
    chosen = np.linspace(0, len(middles) - 1, VALUES)
    return [float(x) for x in np.interp(chosen, np.arange(len(middles)), middles)]


def ranks(numbers: np.ndarray) -> np.ndarray:
    """1 for the smallest; equal numbers share the mean of their ranks."""
    _, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[which]


def requests(
    name: str, model: str, samples: int, seconds: float, seed: int
) -> Iterator[tuple[float, float]]:
    """(requested, measured) of each piece."""
    for number, value in enumerate(values(name)):
        pieces = musictx.generate(
            model,
            seconds=seconds,
            samples=max(1, samples // VALUES),
            seed=seed * 1000 + number,
            end="cut",  # a close has fewer notes
            **{name: value},
        )
        for piece in pieces:
            result = measure_controls(piece.score.notes, seconds).get(name)
            if result is not None:
                yield value, result


def main(
    model: str = "piano", samples: int = 64, seconds: float = 20, seed: int = 0
) -> dict[str, float]:
    results = {}
    for name in CONTROLS:
        pairs = list(requests(name, model, samples, seconds, seed))
        requested, values_measured = np.array(pairs).T
        results[name] = float(np.corrcoef(ranks(requested), ranks(values_measured))[0, 1])
        print(name)
        levels = np.unique(requested)
        means = (values_measured[requested == level].mean() for level in levels)
        print("  requested " + "".join(f"{level:7.1f}" for level in levels))
        print("  measured  " + "".join(f"{mean:7.1f}" for mean in means))
        print(f"  rank correlation {results[name]:.3f} over {len(requested)} pieces", flush=True)
    return {name: round(value, 3) for name, value in results.items()}


if __name__ == "__main__":
    run(main)
