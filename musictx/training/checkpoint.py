"""Write checkpoints atomically, and read them without executing code."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins.io import TorchCheckpointIO

from musictx import files
from musictx.errors import UserError, WriteError, reason


class AtomicCheckpoints(TorchCheckpointIO):
    """Like Lightning's class, but the temporary file is in the folder of the checkpoint. Lightning
    uses the system's temporary folder. If that is on another file system, the file is copied, and a
    process that is killed meanwhile leaves an incomplete checkpoint."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Raises ``WriteError`` if the disk is full."""
        try:
            with files.atomic(path) as part, part.open("wb") as file:
                torch.save(checkpoint, file)
        except RuntimeError as error:  # torch raises it for a full disk
            cause = error.__context__
            why = cause.strerror if isinstance(cause, OSError) else reason(error)
            raise WriteError(f"{path}: cannot be written: {why}") from error

    def load_checkpoint(
        self, path: str | Path, map_location: Any = "cpu", weights_only: bool | None = None
    ) -> dict[str, Any]:
        return read(path)


def read(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint of a run into CPU memory, without executing code in it (``weights_only``).

    Raises ``UserError`` if the file is missing, damaged or not such a checkpoint.
    """
    why = "its contents are not those of a checkpoint"
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(checkpoint["state_dict"], dict) and checkpoint["global_step"] >= 0:
            return dict(checkpoint)
    except pickle.UnpicklingError:
        why = "it contains objects other than tensors and plain values"
    except Exception as error:  # torch raises many kinds of exceptions for a damaged pickle
        why = reason(error)
    raise UserError(
        f"{path}: not a checkpoint of musictx train ({why}); delete it, or give another out="
    )
