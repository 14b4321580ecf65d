"""A training state as one file that is there whole or not at all."""

from __future__ import annotations

import os
import pickle
import shutil
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from musictx.errors import UserError

#: Raised by one whenever an older musictx could no longer read a new checkpoint.
FORMAT = 1


def write(path: str | Path, state: Mapping[str, Any]) -> Path:
    """Save ``state`` (tensors, numbers, text, lists and dicts of them) at ``path``.

    Written beside under a hidden name, forced to the disk and renamed: a kill at any moment leaves
    the old file or the new one. Raises ``UserError`` if the place cannot be written.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.writing")
    try:
        with beside.open("wb") as file:
            torch.save({"format": FORMAT, **state}, file)
            file.flush()
            os.fsync(file.fileno())
        _put(beside, path)
    except (OSError, RuntimeError) as error:  # torch turns a full disk into a RuntimeError
        raise UserError(f"{path}: cannot write the checkpoint: {error}") from error
    finally:
        beside.unlink(missing_ok=True)
    return path


def copy(path: str | Path, to: str | Path) -> Path:
    """Make ``to`` the same checkpoint as ``path``, whole or not at all."""
    path, to = Path(path), Path(to)
    beside = to.with_name(f".{to.name}.writing")
    try:
        beside.unlink(missing_ok=True)
        try:
            os.link(
                path, beside
            )  # no second copy on the disk; checkpoints are replaced, not edited
        except OSError:
            shutil.copyfile(path, beside)
        _put(beside, to)
    except OSError as error:
        raise UserError(f"{to}: cannot write the checkpoint: {error}") from error
    finally:
        beside.unlink(missing_ok=True)
    return to


def read(path: str | Path) -> dict[str, Any]:
    """What :func:`write` saved, on the CPU; nothing in the file can run (``weights_only``).

    Raises ``UserError`` for a file that is missing, damaged or of a newer format.
    """
    path = Path(path)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected pickle protocol")  # no file of ours
            state = torch.load(path, map_location="cpu", weights_only=True)
        version = state["format"]
    except (
        OSError,
        RuntimeError,
        EOFError,
        KeyError,
        TypeError,
        ValueError,
        pickle.UnpicklingError,
        zipfile.BadZipFile,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path}: not a checkpoint of musictx train ({reason}); "
            "delete it, or start again with fresh=true"
        ) from None
    if version > FORMAT:
        raise UserError(
            f"{path}: a checkpoint of format {version}, this musictx reads up to {FORMAT}; "
            "install a newer one, or start again with fresh=true"
        )
    return state


def _put(beside: Path, path: Path) -> None:
    os.replace(beside, path)
    if os.name == "posix":  # the rename itself must reach the disk too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
