"""Lightning checkpoints that are there whole or not at all, and that cannot run anything."""

from __future__ import annotations

import pickle
import pickletools
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.plugins.io import CheckpointIO

from musictx import files
from musictx.errors import UserError, WriteError

#: Characters of the name of a class in a checkpoint, and bytes of what it holds beside tensors.
LONGEST_NAME, LARGEST_INDEX = 1000, 64_000_000
#: What a checkpoint of a training must have, and as what.
PARTS: dict[str, type] = {
    "state_dict": dict,
    "optimizer_states": list,
    "lr_schedulers": list,
    "loops": dict,
    "callbacks": dict,
    "global_step": int,
    "pytorch-lightning_version": str,
}


class AtomicCheckpoints(CheckpointIO):
    """How Lightning writes and reads checkpoints here: beside and renamed, ``weights_only``."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Raises ``WriteError`` where there is no space, or no folder any more."""
        try:
            with files.atomic(path) as beside, beside.open("wb") as file:
                torch.save(checkpoint, file)
        except RuntimeError as error:  # what torch makes of a full disk
            cause = error.__context__
            reason = cause.strerror if isinstance(cause, OSError) else str(error).splitlines()[0]
            raise WriteError(f"{path}: cannot be written: {reason}") from error

    def load_checkpoint(
        self, path: str | Path, map_location: Any = "cpu", weights_only: bool | None = None
    ) -> dict[str, Any]:
        return read(path)

    def remove_checkpoint(self, path: str | Path) -> None:
        Path(path).unlink(missing_ok=True)


def read(path: str | Path) -> dict[str, Any]:
    """A checkpoint of a training, on the CPU; nothing in the file can run (``weights_only``).

    Raises ``UserError`` for a file that is missing, damaged or something else.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected pickle protocol")  # no file of ours
            _check_names(path)
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise _refused(path, "it holds objects other than tensors and plain values") from None
    except Exception as error:  # a damaged pickle makes torch's reader raise all kinds of them
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _refused(path, reason) from None
    if not isinstance(checkpoint, dict):
        raise _refused(path, f"it holds a {type(checkpoint).__name__}")
    for name, kind in PARTS.items():
        if not isinstance(checkpoint.get(name), kind):
            raise _refused(path, f"{name} is missing or no {kind.__name__}")
    if not checkpoint["optimizer_states"]:
        raise _refused(path, "it holds no state of an optimizer")
    for name, state in checkpoint["callbacks"].items():
        if not isinstance(state, dict) or not state:  # Lightning writes none that is empty
            raise _refused(path, f"callbacks holds no state of {name}")
    if checkpoint["global_step"] < 0:
        raise _refused(path, f"global_step is {checkpoint['global_step']}")
    return checkpoint


def _check_names(path: str | Path) -> None:
    """``UnpicklingError`` for a class with an absurd name: torch takes the square of its length to
    say that it is not allowed. What else is wrong torch finds itself."""
    with zipfile.ZipFile(path) as archive:
        index = [one for one in archive.infolist() if one.filename.endswith("/data.pkl")]
        if any(one.file_size > LARGEST_INDEX for one in index):
            raise pickle.UnpicklingError
        data = archive.read(index[0]) if index else b""
    with suppress(ValueError):
        for code, value, _ in pickletools.genops(data):
            if code.name == "GLOBAL" and len(str(value)) > LONGEST_NAME:
                raise pickle.UnpicklingError


def _refused(path: str | Path, reason: str) -> UserError:
    return UserError(
        f"{path}: not a checkpoint of musictx train ({reason}); delete it, or give another out="
    )
