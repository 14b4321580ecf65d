"""Folders that are there whole or not at all."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path


def swap(new: Path, folder: Path) -> None:
    """Put the folder ``new`` where ``folder`` is; an old one goes only when the new one stands."""
    if not folder.exists():
        new.rename(folder)
        return
    old = folder.parent / f".{folder.name}.old-{uuid.uuid4().hex[:8]}"
    folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
