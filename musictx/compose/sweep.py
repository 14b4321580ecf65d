"""What a sweep leaves: a table of its runs by validation loss, and no empty folders."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

from musictx.errors import UserError, WriteError
from musictx.files import write_table, write_text

#: One run's line of the table, written by the process that ran it, wherever that was.
_RESULT = "sweep-result.json"
#: Folders of the sweeps that Hydra has begun in this process, and what folders were there before.
_begun: list[tuple[Path, set[str]]] = []


class Start:
    """A callback of Hydra (``conf/hydra/default.yaml``) that notes where a sweep is kept."""

    def on_multirun_start(self, config: Any, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        _begun.append((folder, {inner for inner, _, _ in os.walk(folder)}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):  # Hydra calls them all
            return lambda *args, **kwargs: None
        raise AttributeError(name)


def keep(settings: Any, options: list[str], result: Any) -> float | None:
    """Note the result of the run with Hydra's ``settings``, or the ``UserError`` that ended it;
    returns its validation loss for the sweeper, NaN where it failed."""
    row: dict[str, Any] = {"run": int(settings.job.num), "options": " ".join(options)}
    if isinstance(result, UserError):
        row |= {"loss": math.nan, "error": str(result), "status": result.status}
    else:
        model = getattr(result, "model", None)
        row |= {"loss": getattr(result, "validation_loss", None), "model": model and str(model)}
    write_text(Path(settings.runtime.output_dir) / _RESULT, json.dumps(row) + "\n")
    loss: float | None = row["loss"]
    return loss


def finish() -> None:
    """Print the table of the last sweep, best run first, and write it as ``results.csv``; remove
    the sweep's empty folders. Raises ``UserError`` if a run failed."""
    if not _begun:
        return
    folder, before = _begun.pop()
    rows = []
    for path in folder.rglob(_RESULT):
        rows.append(json.loads(path.read_text(encoding="utf-8")))
        path.unlink()
    for inner, _, _ in sorted(os.walk(folder), reverse=True):  # innermost first
        if inner not in before:
            with contextlib.suppress(OSError):
                os.rmdir(inner)
    scored = [row for row in rows if row["loss"] is not None]
    scored.sort(key=lambda row: (math.isnan(row["loss"]), row["loss"], row["run"]))
    if any(not math.isnan(row["loss"]) for row in scored):
        write_table(folder / "results.csv", scored, ("run", "loss", "model", "options", "error"))
        print(f"validation loss, best first ({folder / 'results.csv'}):")
        width = max(len(row["options"]) for row in scored)
        for row in scored:
            outcome = row.get("error") or row["model"] or ""
            print(f"  {row['loss']:.4f}  {row['options']:{width}}  {outcome}".rstrip(), flush=True)
    failed = [row for row in sorted(rows, key=lambda row: row["run"]) if "error" in row]
    if failed:
        kind = WriteError if failed[0]["status"] == WriteError.status else UserError
        raise kind(f"{failed[0]['error']} (run {failed[0]['run']} of the sweep)")
