"""Lightning's tips and advertisements, kept from a person who watches a model train."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("pytorch_lightning", "lightning_fabric", "lightning.pytorch", "lightning.fabric")

#: Beginnings of warnings (regular expressions) that concern choices we made on purpose.
_EXPECTED = (
    # Loader processes are the user's choice (trainer.workers); batches are cheap to make.
    r"The '\w+' does not have many workers",
    # The log has its own rows (train/metrics.py).
    r"The number of training batches .* is smaller than the logging interval",
    # A GPU left unused because of trainer.accelerator=cpu is a decision.
    r"GPU available but not used",
    # bf16 and friends: what precision means is said in our own header.
    r"You are using a CUDA device",
    # Lightning passes itself a deprecated argument on some versions of torch.
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Within it Lightning logs errors only and does not warn of what is meant to be so."""
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    try:
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.ERROR)
        with warnings.catch_warnings():
            for message in _EXPECTED:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
