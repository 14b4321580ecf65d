"""What a sweep leaves: a table of its runs by validation loss, and no empty folders."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
from pathlib import Path
from typing import Any

from musictx.errors import UserError, WriteError
from musictx.files import write_table, write_text

#: One run's line of the table, written by the process that ran it, wherever that was.
_RESULT = "sweep-result.json"
#: Folders of the sweeps that Hydra has begun in this process.
_begun: list[Path] = []


class Start:
    """A callback of Hydra (``conf/hydra/default.yaml``) that notes where a sweep is kept."""

    def on_multirun_start(self, config: Any, **kwargs: Any) -> None:
        _begun.append(Path(config.hydra.sweep.dir))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):  # Hydra calls them all
            return lambda *args, **kwargs: None
        raise AttributeError(name)


def keep(settings: Any, options: list[str], result: Any) -> float | None:
    """Note the result of the run with Hydra's ``settings``, or the ``UserError`` that ended it;
    returns its validation loss for the sweeper, NaN where it failed."""
    words = [option.lstrip("+") for option in options]
    row: dict[str, Any] = {"run": int(settings.job.num), "options": words}
    if isinstance(result, UserError):
        row |= {"loss": math.nan, "error": str(result), "status": result.status}
    else:
        model = getattr(result, "model", None)
        row |= {"loss": getattr(result, "validation_loss", None), "model": model and str(model)}
        row["steps"] = getattr(result, "steps", None)
    write_text(Path(settings.runtime.output_dir) / _RESULT, json.dumps(row) + "\n")
    loss: float | None = row["loss"]
    return loss


def finish() -> None:
    """Print the table of the last sweep, best run first, and write it as ``results.csv``; remove
    the sweep's empty folders. Raises ``UserError`` if a run failed."""
    if not _begun:
        return
    folder = _begun.pop()
    rows = []
    for path in [*folder.rglob(_RESULT)]:
        rows.append(json.loads(path.read_text(encoding="utf-8")))
        path.unlink()
        with contextlib.suppress(OSError):  # the run has files in it
            path.parent.rmdir()
    if all("error" in row for row in rows):  # nothing was done: nothing is left
        (folder / "multirun.yaml").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            os.removedirs(folder)
    every = [row["options"] for row in rows]
    for row in rows:  # words that all runs share are left out
        row["varied"] = [one for one in row["options"] if not all(one in o for o in every)]
        row["options"] = " ".join(row["options"])
    scored = [row for row in rows if row["loss"] is not None]
    scored.sort(key=lambda row: (math.isnan(row["loss"]), row["loss"], row["run"]))
    if any(not math.isnan(row["loss"]) for row in scored):
        write_table(
            folder / "results.csv", scored, ("run", "loss", "steps", "model", "options", "error")
        )
        print(f"validation loss, best first ({folder / 'results.csv'}):")
        width = max(len(" ".join(row["varied"])) for row in scored)
        for row in scored:
            outcome = row.get("error") or f"{row['steps']:,} steps  {row['model'] or ''}"
            line = f"  {row['loss']:.4f}  {' '.join(row['varied']):{width}}  {outcome}"
            print(line.rstrip(), flush=True)
        _print_seeds(scored)
    failed = [row for row in sorted(rows, key=lambda row: row["run"]) if "error" in row]
    if failed:
        kind = WriteError if failed[0]["status"] == WriteError.status else UserError
        raise kind(f"{failed[0]['error']} (run {failed[0]['run']} of the sweep)")


def _print_seeds(rows: list[dict[str, Any]]) -> None:
    """Mean and standard deviation over the runs that differ in their seed alone."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        others = " ".join(word for word in row["varied"] if not word.startswith("seed="))
        if math.isfinite(row["loss"]):
            groups.setdefault(others, []).append(row["loss"])
    several = {others: losses for others, losses in groups.items() if len(losses) > 1}
    if any(word.startswith("seed=") for word in rows[0]["varied"]) and several:
        print("mean and standard deviation over seeds:")
        for others, losses in several.items():
            mean = f"{statistics.fmean(losses):.4f}  {statistics.stdev(losses):.4f}"
            print(f"  {mean}  {len(losses)} seeds  {others}".rstrip(), flush=True)
