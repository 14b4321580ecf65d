"""After a sweep: print and write the table of its runs by validation loss, and remove empty
folders."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback

from musictx.errors import UserError, WriteError
from musictx.files import write_table, write_text

#: The file with one run's row of the table, written by the process of that run.
_RESULT = "sweep-result.json"
_COLUMNS = ("run", "loss", "steps", "model", "options", "error")
#: Folders of the sweeps that Hydra started in this process and that are not reported yet.
_folders: list[Path] = []


class Start(Callback):
    """A callback of Hydra (``conf/hydra/default.yaml``) that records the folder of a sweep."""

    def on_multirun_start(self, config: Any, **kwargs: Any) -> None:
        _folders.append(Path(config.hydra.sweep.dir))


def write_result(settings: Any, result: Any) -> float:
    """Write the ``result`` of a run of a sweep, a ``UserError`` if the run failed. Return the
    validation loss for Hydra's sweeper, NaN without a loss. ``settings`` are Hydra's of the run."""
    words = [override.lstrip("+") for override in settings.overrides.task]
    row: dict[str, Any] = {"run": int(settings.job.num), "options": words, "loss": math.nan}
    if isinstance(result, UserError):
        row |= {"error": str(result), "status": result.status}
    else:
        row |= {"steps": result.steps, "model": result.model and str(result.model)}
        row["loss"] = math.nan if result.validation_loss is None else result.validation_loss
    write_text(Path(settings.runtime.output_dir) / _RESULT, json.dumps(row) + "\n")
    return float(row["loss"])


def report() -> UserError | None:
    """Print the table of the last sweep, best run first, and write ``results.csv``. Remove the
    empty folders of the sweep. Return the error of the first run that failed."""
    if not _folders:
        return None
    folder, rows = _folders.pop(), []
    for path in [*folder.rglob(_RESULT)]:
        rows.append(json.loads(path.read_text(encoding="utf-8")))
        path.unlink()
        with contextlib.suppress(OSError):  # the folder is not empty
            path.parent.rmdir()
    rows.sort(key=lambda row: (math.isnan(row["loss"]), row["loss"], row["run"]))
    failed = sorted((row for row in rows if "error" in row), key=lambda row: row["run"])
    if len(failed) == len(rows):  # no run finished, so no folder stays
        (folder / "multirun.yaml").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            os.removedirs(folder)
    else:
        _print(folder / "results.csv", rows)
    if not failed:
        return None
    kind = WriteError if failed[0]["status"] == WriteError.status else UserError
    return kind(f"{failed[0]['error']} (run {failed[0]['run']} of the sweep)")


def _print(table: Path, rows: list[dict[str, Any]]) -> None:
    """Print and write the table. Print also the mean and standard deviation over runs that differ
    only in their seed."""
    shared = set.intersection(*(set(row["options"]) for row in rows))
    varied = [[word for word in row["options"] if word not in shared] for row in rows]
    write_table(table, [row | {"options": " ".join(row["options"])} for row in rows], _COLUMNS)
    print(f"validation loss, best first ({table}):")
    width = max(len(" ".join(words)) for words in varied)
    for row, words in zip(rows, varied):
        outcome = row.get("error") or f"{row['steps']:,} steps  {row['model'] or ''}"
        print(f"  {row['loss']:.4f}  {' '.join(words):{width}}  {outcome}".rstrip(), flush=True)
    losses: dict[str, list[float]] = {}
    for row, words in zip(rows, varied):
        others = " ".join(word for word in words if not word.startswith("seed="))
        if len(others) < len(" ".join(words)) and math.isfinite(row["loss"]):
            losses.setdefault(others, []).append(row["loss"])
    several = {others: values for others, values in losses.items() if len(values) > 1}
    if several:
        print("mean and standard deviation over seeds:")
    for others, values in several.items():
        mean = f"{statistics.fmean(values):.4f}  {statistics.stdev(values):.4f}"
        print(f"  {mean}  {len(values)} seeds  {others}".rstrip(), flush=True)
