"""How well a model does what its controls ask for: rank correlation of asked and heard.

    python -m scripts.reproduce.steering [model=piano] [samples=64] [seconds=20] [guidance=1]
        [seed=0] [controls=density,loudness,register,polyphony]

For each control, ``samples`` free pieces are asked for at eight values, spread over its levels; the
value of what comes out is measured as it was in training (``musictx.tokens.controls.measured``).
Prints, by control, the mean heard at each value, and Spearman's rank correlation over all pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

import musictx
from musictx.errors import UserError
from musictx.tokens.controls import CONTROLS, measured
from scripts.harness import run

#: Values asked for of each control.
VALUES = 8


def values(name: str) -> list[float]:
    """Eight values from the second-lowest level of a control to the highest but one."""
    edges = CONTROLS[name].edges
    middles = [(a * b) ** 0.5 for a, b in pairwise(edges)]
    chosen = np.linspace(0, len(middles) - 1, VALUES)
    return [float(x) for x in np.interp(chosen, np.arange(len(middles)), middles)]


def ranks(numbers: np.ndarray) -> np.ndarray:
    """1 for the smallest; equal numbers share the mean of their ranks."""
    _, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[which]


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's: the correlation of ranks."""
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def heard(
    name: str, model: str, samples: int, seconds: float, guidance: float, seed: int
) -> Iterator[tuple[float, float]]:
    """(asked, heard) of each piece."""
    for number, value in enumerate(values(name)):
        pieces = musictx.generate(
            model,
            seconds=seconds,
            samples=max(1, samples // VALUES),
            seed=seed * 1000 + number,
            guidance=guidance,
            **{name: value},
        )
        for piece in pieces:
            found = measured(piece.score.notes, seconds).get(name)
            if found is not None:
                yield value, found


def main(
    model: str = "piano",
    samples: int = 64,
    seconds: float = 20,
    guidance: float = 1,
    seed: int = 0,
    controls: Sequence[str] = tuple(CONTROLS),
) -> dict[str, float]:
    results = {}
    for name in controls:
        if name not in CONTROLS:
            raise UserError(f"controls={name}: expected some of " + ", ".join(CONTROLS))
        asked, found = np.array(list(heard(name, model, samples, seconds, guidance, seed))).T
        results[name] = rank_correlation(asked, found)
        print(f"{name} ({CONTROLS[name].unit})")
        print("  asked " + "".join(f"{value:7.1f}" for value in np.unique(asked)))
        print("  heard " + "".join(f"{found[asked == v].mean():7.1f}" for v in np.unique(asked)))
        print(f"  rank correlation {results[name]:.3f} over {len(asked)} pieces", flush=True)
    return {name: round(value, 3) for name, value in results.items()}


if __name__ == "__main__":
    run(main)
