"""How long, on what, how often to look."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import at_least, one_of, option, require


@dataclass
class TrainerConfig:
    """How long, on what, how often to look."""

    steps: int = option(2000, "optimizer steps")
    minutes: float | None = option(None, "stop by the clock instead, schedule fitted to it")
    batch: int = option(8, "windows a step and device")
    accumulate: int = option(1, "batches added up before each step")
    validate_every: int = option(200, "steps between validations, checkpoints and samples")
    validation_windows: int = option(64, "windows of validation data used each time; 0 = all")
    precision: str = option("auto", "auto (bf16 on GPUs that have it), 32 or bf16")
    accelerator: str = option("auto", "auto, cpu, gpu, mps, ... as Lightning names them")
    devices: str = option("auto", "how many devices: auto or a number")
    strategy: str = option("auto", "Lightning strategy: auto, ddp, fsdp, ...")
    workers: int = option(0, "data-loader processes")
    sample_seconds: float = option(10.0, "length of the sample at each checkpoint; 0 = none")
    tensorboard: bool = option(True, "log for TensorBoard too if it is installed")

    def __post_init__(self) -> None:
        at_least("trainer.steps", self.steps, 1)
        if self.minutes is not None:
            require(self.minutes > 0, "trainer.minutes", self.minutes, "a positive number")
        at_least("trainer.batch", self.batch, 1)
        at_least("trainer.accumulate", self.accumulate, 1)
        at_least("trainer.validate_every", self.validate_every, 1)
        at_least("trainer.validation_windows", self.validation_windows, 0)
        one_of("trainer.precision", self.precision, ("auto", "32", "bf16"))
        at_least("trainer.workers", self.workers, 0)
        at_least("trainer.sample_seconds", self.sample_seconds, 0)
