"""``metrics.csv``: Lightning's CSV logger for runs that are stopped and go on."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from musictx import files


class MetricsTable(CSVLogger):
    """``metrics.csv`` in ``save_dir``: one row for each step at which something was logged.

    ``step`` counts optimizer steps done. As with Lightning's logger, the rows are written every
    ``flush_logs_every_n_steps``; here also with each checkpoint, and when training ends or fails. A
    row that is logged again, because a run was killed and went on from an earlier checkpoint,
    replaces the one that stands there and all after it.
    """

    def __init__(self, save_dir: str | Path, flush_logs_every_n_steps: int = 100) -> None:
        super().__init__(
            save_dir, name="", version="", flush_logs_every_n_steps=flush_logs_every_n_steps
        )
        self.path = Path(save_dir, "metrics.csv")
        self._rows: list[dict[str, Any]] | None = None

    @property
    def experiment(self) -> Any:
        """Nothing of Lightning's: its writer would delete what an earlier session logged."""
        return self

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **options: Any) -> None:
        """Nothing: ``run.yaml`` and the checkpoints hold them."""

    @rank_zero_only
    def log_metrics(  # type: ignore[override]
        self, metrics: Mapping[str, float], step: int | None = None
    ) -> None:
        done = (step or 0) + 1  # Lightning numbers steps from 0
        if self._rows is None:
            self._rows = _read(self.path)
        while self._rows and int(self._rows[-1]["step"]) > done:
            self._rows.pop()
        same = bool(self._rows) and int(self._rows[-1]["step"]) == done
        row = {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in metrics.items()}
        row.pop("epoch", None)
        if not same:
            self._rows.append({"step": done})
        elif row.keys() <= self._rows[-1].keys():  # logged before, by a session that was killed
            self._rows[-1] = {"step": done}
        self._rows[-1] |= row
        if done % self._flush_logs_every_n_steps == 0:
            self.save()

    @rank_zero_only
    def save(self) -> None:
        if self._rows:
            columns = list(dict.fromkeys(name for row in self._rows for name in row))
            files.write_table(self.path, self._rows, columns)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self.save()


def _read(path: Path) -> list[dict[str, Any]]:
    """The rows that are whole; nothing for a file that is not there."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        reader = csv.DictReader(file)
        rows = list(reader) if "step" in (reader.fieldnames or []) else []
    whole = [
        row for row in rows if (row["step"] or "").isdecimal() and None not in (*row, *row.values())
    ]
    return [{k: v for k, v in row.items() if k and v} for row in whole]
