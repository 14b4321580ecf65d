"""Ctrl-C and SIGTERM during training: the step is finished and the state saved."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

import pytorch_lightning as pl
import torch


class Stopped(Exception):
    """Training was stopped by a signal."""


class StopSignal(pl.Callback):
    """Within ``with StopSignal() as stop:`` the first SIGINT or SIGTERM asks training to stop:
    :class:`Stopped` is raised before the next step. A second one does what it does elsewhere.

    Outside the main thread signals cannot be caught; then nothing changes. ``report``: say on
    stderr that training will stop.
    """

    def __init__(self, *, report: bool = True) -> None:
        self.report = report
        self.received = 0  # by this process: the signal's number
        self.agreed = 0  # by all processes of this training
        self.steps = 0  # of this session
        self._handlers: dict[int, Any] = {}  # of the time before

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
        if self.report:  # by os.write: print may not be entered again from a signal handler
            with suppress(OSError):
                os.write(2, b"\nstopping after this step ... (Ctrl-C again: at once)\n")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Reinstalls our handlers: Lightning has replaced that of SIGTERM."""
        if not self.received:
            self._install()

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **options: Any) -> None:
        if (args[-1] + 1) % trainer.accumulate_grad_batches == 0:
            self.steps += 1
            self._agree(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._agree(trainer)

    def on_train_batch_start(self, trainer: pl.Trainer, *args: Any) -> None:
        """By now the checkpoint of the last step is written, and its row of the log."""
        if self.agreed:
            raise Stopped

    def _agree(self, trainer: pl.Trainer) -> None:
        """All processes stop after the same step, and for the same signal; else they would wait
        for each other for ever."""
        self.agreed = self.received
        if trainer.world_size > 1:
            number = torch.tensor(float(self.agreed), device=trainer.strategy.root_device)
            # A signal that arrives during the reduction stays in `received` for the next step.
            self.agreed = int(trainer.strategy.reduce(number, reduce_op="max"))
            if self.agreed:
                self.received = self.agreed
