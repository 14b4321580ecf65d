"""Checkpoints that are written whole or not at all, and read without running anything."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins.io import TorchCheckpointIO

from musictx import files
from musictx.errors import UserError, WriteError, reason


class AtomicCheckpoints(TorchCheckpointIO):
    """Lightning's, but the temporary file is in the folder of the checkpoint. Lightning's is in the
    system's folder for such files; if that is another file system it is copied, byte by byte, and a
    process killed meanwhile leaves half a checkpoint."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """``WriteError`` where there is no space."""
        try:
            with files.atomic(path) as part, part.open("wb") as file:
                torch.save(checkpoint, file)
        except RuntimeError as error:  # what torch makes of a full disk
            cause = error.__context__
            why = cause.strerror if isinstance(cause, OSError) else reason(error)
            raise WriteError(f"{path}: cannot be written: {why}") from error

    def load_checkpoint(
        self, path: str | Path, map_location: Any = "cpu", weights_only: bool | None = None
    ) -> dict[str, Any]:
        return read(path)


def read(path: str | Path) -> dict[str, Any]:
    """A checkpoint of a training, on the CPU; nothing in the file can run (``weights_only``).

    Raises ``UserError`` for a file that is missing, damaged or something else.
    """
    why = "it holds something else"
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(checkpoint["state_dict"], dict) and checkpoint["global_step"] >= 0:
            return dict(checkpoint)
    except pickle.UnpicklingError:
        why = "it holds objects other than tensors and plain values"
    except Exception as error:  # a damaged pickle makes torch's reader raise all kinds of them
        why = reason(error)
    raise UserError(
        f"{path}: not a checkpoint of musictx train ({why}); delete it, or give another out="
    )
