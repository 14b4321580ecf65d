"""Ctrl-C and SIGTERM during training: finish the step and save the state."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

import pytorch_lightning as pl
import torch

from musictx.training.progress import ends_step
from musictx.training.ranks import is_first


class Stopped(Exception):
    """Training was stopped by a signal."""


class StopSignal(pl.Callback):
    """Within ``with StopSignal():`` the first SIGINT or SIGTERM stops training. A second one has
    its usual effect, such as KeyboardInterrupt.

    1. The signal handler sets ``received``.
    2. After the step all processes agree on a signal (``agreed``), and ``LastCheckpoint`` saves.
    3. Before the next step :class:`Stopped` is raised.

    Lightning itself would stop between the batches of one step, and without a checkpoint. If
    training is not in the main thread, this callback does nothing: Python could not catch signals.
    """

    def __init__(self) -> None:
        self.received = 0  # number of the signal that this process has received
        self.agreed = 0  # number of the signal for which all processes stop
        self.started = False  # whether a checkpoint, if any, has been restored
        self._handlers: dict[int, Any] = {}  # signal -> its original handler

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            self._handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
        self._install()
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()
        self._handlers = {}

    def _install(self) -> None:
        for number in self._handlers:
            signal.signal(number, self._receive)

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()
        if is_first():  # os.write, since print is not reentrant in a signal handler
            with suppress(OSError):
                os.write(2, b"\nstopping after this step ... (Ctrl-C again: at once)\n")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Install the handlers again, since Lightning has replaced that of SIGTERM."""
        self.started = True
        if not self.received:
            self._install()

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **options: Any) -> None:
        if ends_step(trainer, batch_idx=args[-1]):
            self._agree(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._agree(trainer)

    def on_train_batch_start(self, trainer: pl.Trainer, *args: Any) -> None:
        """Stop only here, when the checkpoint and the log of the last step are written."""
        if self.agreed:
            raise Stopped

    def _agree(self, trainer: pl.Trainer) -> None:
        """Make all processes stop after the same step, for the same signal. Otherwise a process
        would wait for one that has stopped."""
        self.agreed = self.received
        if trainer.world_size > 1:
            number = torch.tensor(float(self.agreed), device=trainer.strategy.root_device)
            # A signal that arrives during the reduction stays in `received` for the next step.
            self.agreed = int(trainer.strategy.reduce(number, reduce_op="max"))
            if self.agreed:
                self.received = self.agreed
