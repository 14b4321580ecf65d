"""After a sweep: print and write a table of its runs, sorted by validation loss, and remove empty
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

#: The file with a run's row of the table, written by the process of that run.
_RESULT = "sweep-result.json"
_COLUMNS = ("run", "loss", "steps", "model", "options", "error")
#: Folders of the sweeps that this process has started and not reported yet.
_folders: list[Path] = []


class Start(Callback):
    """A Hydra callback (``conf/hydra/default.yaml``) that records the folder of a sweep."""

    def on_multirun_start(self, config: Any, **kwargs: Any) -> None:
        _folders.append(Path(config.hydra.sweep.dir))


def write_result(settings: Any, result: Any) -> float:
    """Write the ``result`` of a run, or the ``UserError`` that ended it. Return the validation loss
    for the sweeper, NaN without one. ``settings`` are the run's ``hydra.*``."""
    options = [override.lstrip("+") for override in settings.overrides.task]
    row: dict[str, Any] = {"run": int(settings.job.num), "options": options, "loss": math.nan}
    if isinstance(result, UserError):
        row |= {"error": str(result), "status": result.status}
    else:
        row |= {"steps": result.steps, "model": result.model and str(result.model)}
        row["loss"] = math.nan if result.validation_loss is None else result.validation_loss
    write_text(Path(settings.runtime.output_dir) / _RESULT, json.dumps(row) + "\n")
    return float(row["loss"])


def report() -> UserError | None:
    """Print the table of the last sweep, best run first, and write ``results.csv``. Remove the
    empty folders of the sweep. Return the error of the first run that failed, if any."""
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
        _print_table(folder / "results.csv", rows)
    if not failed:
        return None
    kind = WriteError if failed[0]["status"] == WriteError.status else UserError
    return kind(f"{failed[0]['error']} (run {failed[0]['run']} of the sweep)")


def _print_table(file: Path, rows: list[dict[str, Any]]) -> None:
    """Write the table to ``file`` and print it, with the mean and standard deviation over runs that
    differ only in their seed."""
    common = set.intersection(*(set(row["options"]) for row in rows))
    varied = [[option for option in row["options"] if option not in common] for row in rows]
    write_table(file, [row | {"options": " ".join(row["options"])} for row in rows], _COLUMNS)
    print(f"validation loss, best first ({file}):")
    width = max(len(" ".join(options)) for options in varied)
    for row, options in zip(rows, varied):
        outcome = row.get("error") or f"{row['steps']:,} steps  {row['model'] or ''}"
        print(f"  {row['loss']:.4f}  {' '.join(options):{width}}  {outcome}".rstrip(), flush=True)
    losses: dict[str, list[float]] = {}  # options without the seed -> losses of all seeds
    for row, options in zip(rows, varied):
        others = " ".join(option for option in options if not option.startswith(("seed=", "out=")))
        if any(option.startswith("seed=") for option in options) and math.isfinite(row["loss"]):
            losses.setdefault(others, []).append(row["loss"])
    losses = {others: values for others, values in losses.items() if len(values) > 1}
    if losses:
        print("mean and standard deviation over seeds:")
    for others, values in losses.items():
        numbers = f"{statistics.fmean(values):.4f}  {statistics.stdev(values):.4f}"
        print(f"  {numbers}  {len(values)} seeds  {others}".rstrip(), flush=True)
