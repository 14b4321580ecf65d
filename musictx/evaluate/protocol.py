"""The rows by which figures for piano performances compare, as a table on disk.

First row: windows of the training length, end to end, remainders included, nothing carried over
(what is published for MAESTRO). Second row: the same windows overlapping, so that each token has at
least three quarters of a window before it, but at the beginning of a piece.
"""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate.nll import Evaluation, evaluate
from musictx.model.transformer import MusicTransformer

#: The parts of a window that overlapping windows advance by.
SLIDE = 4


def end_to_end(
    model: MusicTransformer,
    shards: Shards,
    split: str = "validation",
    *,
    window: int | None = None,
    batch: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """The first row: see the module. ``window`` tokens, by default the model's context; ``batch``
    windows at a time; ``progress(done, all)``."""
    return as_row(evaluate(model, shards, split, window=window, batch=batch, progress=progress))


def sliding(
    model: MusicTransformer,
    shards: Shards,
    split: str = "validation",
    *,
    window: int | None = None,
    batch: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """The second row; it costs :data:`SLIDE` times as much."""
    window = int(model.config["context"]) if window is None else window
    stride = max(1, window // SLIDE)
    ways: dict[str, Any] = {"window": window, "stride": stride}
    return as_row(evaluate(model, shards, split, **ways, batch=batch, progress=progress))


def as_row(measured: Evaluation) -> dict[str, Any]:
    """An evaluation as one row of a table; nats, bits and seconds as in :class:`Evaluation`."""
    names = ("split", "pieces", "tokens", "notes", "window", "stride", "windows")
    numbers = ("nats_per_token", "nats_per_note", "bits_per_second", "accuracy", "nats_per_end")
    overlap = "end to end" if measured.stride == measured.window else "sliding"
    found = measured.to_dict()
    return {
        "protocol": overlap,
        **{name: found[name] for name in numbers},
        **{name: found[name] for name in names},
    }


def write_table(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """``rows`` as a CSV file, whole or not at all; a row may lack columns that others have.

    Raises ``UserError`` if the place cannot be written.
    """
    path = Path(path)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    beside = path.with_name(f".{path.name}.writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        os.replace(beside, path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
    return path
