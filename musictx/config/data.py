"""How training and validation windows become batches."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from musictx.config.checks import at_least, option, require


@dataclass
class DataConfig:
    """Batches for training and validation."""

    batch_size: int = option(8, "windows in a batch, on each device")
    num_workers: int = option(0, "processes that prepare batches ahead; 0 = the training process")
    validation_windows: int = option(
        64, "windows of the held-out pieces that a validation measures; 0 = all"
    )

    growing_windows: list[list[int]] = option(
        [],
        "[[batches,tokens],...]: until so many batches have been trained on, windows have so many "
        "tokens, and a batch as many more of them; afterwards model.context",
    )

    def __post_init__(self) -> None:
        pairs = self.growing_windows
        require(
            all(len(pair) == 2 and min(pair) >= 1 for pair in pairs)
            and all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(pairs)),
            "data.growing_windows",
            pairs,
            "pairs of batches and tokens that both grow, such as [[2000,256],[8000,512]]",
        )
        at_least("data.batch_size", self.batch_size, 1)
        at_least("data.num_workers", self.num_workers, 0)
        at_least("data.validation_windows", self.validation_windows, 0)
