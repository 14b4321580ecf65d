"""The options of batches: how windows of the corpus are combined for training."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from musictx.config.checks import Options, option

#: The tasks for which training windows can be arranged.
TASKS = ("infill", "accompany", "vary", "steer")


@dataclass
class DataConfig(Options, prefix="data"):
    """Batches for training and validation."""

    batch_size: int = option(8, "windows in a batch, on each device", low=1, high=65_536)
    num_workers: int = option(
        0, "processes that prepare batches ahead; 0 = the training process", low=0, high=1024
    )
    validation_windows: int = option(
        64, "windows of held-out pieces measured at each validation; 0 = all", low=0
    )
    growing_windows: list[list[int]] = option(
        [],
        "[[batches,tokens],...]: up to that many batches, train on windows of that many tokens, "
        "with proportionally more in a batch; afterwards of model.context",
    )
    tasks: dict[str, float] = option(
        {},
        "tokenizer.controls=true: shares of the training windows arranged as tasks, such as "
        "{infill: 0.2, accompany: 0.2, steer: 0.1}, for notes tokens vary; the others stay plain",
        low=0,
    )
    melody: str = option(
        "skyline",
        "in windows of the task accompany, the melody: skyline (the highest notes, or those above "
        "or below a pitch) or the part with this program number",
        pattern=(r"skyline|1[01]\d|12[0-7]|\d\d?", "skyline, or a program from 0 to 127"),
    )

    def check(self) -> None:
        are_shares = set(self.tasks) <= set(TASKS) and sum(self.tasks.values()) <= 1
        self.require("tasks", are_shares, f"shares of {', '.join(TASKS)} that add up to 1 at most")
        pairs, expected = self.growing_windows, "pairs of batches and tokens that both grow"
        are_growing = all(len(pair) == 2 and min(pair) >= 1 for pair in pairs) and all(
            a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(pairs)
        )
        self.require("growing_windows", are_growing, f"{expected}, such as [[2000,256],[8000,512]]")
