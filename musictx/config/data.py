"""How training and validation windows become batches."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import at_least, option


@dataclass
class DataConfig:
    """Batches for training and validation."""

    batch_size: int = option(8, "windows in a batch, on each device")
    num_workers: int = option(0, "processes that prepare batches ahead; 0 = the training process")
    validation_windows: int = option(
        64, "windows of the held-out pieces that a validation measures; 0 = all"
    )

    def __post_init__(self) -> None:
        at_least("data.batch_size", self.batch_size, 1)
        at_least("data.num_workers", self.num_workers, 0)
        at_least("data.validation_windows", self.validation_windows, 0)
