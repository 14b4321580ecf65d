"""Lightning's tips and advertisements, kept from a person who watches a model train."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("pytorch_lightning", "lightning_fabric", "lightning.pytorch", "lightning.fabric")
#: What these say was asked for by an option: trainer.profiler, trainer.enable_model_summary.
_ASKED_FOR = (
    "pytorch_lightning.profilers.profiler",
    "pytorch_lightning.callbacks.model_summary",
)

#: Beginnings of warnings (regular expressions) that concern choices we made on purpose.
_EXPECTED = (
    # Loader processes are the user's choice (data.num_workers); batches are cheap to make.
    r"The '\w+' does not have many workers",
    # Short epochs are asked for (limit_train_batches, overfit_batches).
    r"The number of training batches .* is smaller than the logging interval",
    # The data module says where to go on; the loader need not.
    r"You're resuming from a checkpoint that ended before the epoch ended",
    # last.ckpt and best.ckpt are replaced, in a folder that also holds the rest of the run.
    r"Checkpoint directory .* exists and is not empty",
    # What is logged at the end of a validation is summed over all devices already.
    r"It is recommended to use .*sync_dist=True",
    # A resumed run may have other callbacks, and averages that the checkpoint does not know.
    r"Be aware that when using .ckpt_path., callbacks used to create the checkpoint",
    # Lightning calls the scheduler once when it restores it.
    r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`",
    # A GPU left unused because of trainer.accelerator=cpu is a decision.
    r"GPU available but not used",
    # bf16 and friends: what precision means is said in our own header.
    r"You are using a CUDA device",
    # float16 on a CPU becomes bfloat16; our own header says so.
    r"You passed `Trainer\(accelerator='cpu', precision='16-mixed'\)`",
    # Lightning passes itself a deprecated argument on some versions of torch.
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Within it Lightning logs errors and what was asked for, and does not warn of what is meant to
    be so."""
    before = {name: logging.getLogger(name).level for name in (*_LOGGERS, *_ASKED_FOR)}
    try:
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.ERROR)
        for name in _ASKED_FOR:
            logging.getLogger(name).setLevel(logging.INFO)
        with warnings.catch_warnings():
            for message in _EXPECTED:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
