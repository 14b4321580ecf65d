"""``metrics.csv``: Lightning's CSV logger, with a table that a resumed run continues."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from musictx import files


class MetricsTable(CSVLogger):
    """``metrics.csv`` in ``save_dir``: a row for each step with logged values.

    The column ``step`` is the number of finished optimizer steps. If a run is killed, the rows
    after its last checkpoint are replaced when these steps are trained again.
    """

    def __init__(self, save_dir: str | Path, flush_logs_every_n_steps: int = 100) -> None:
        super().__init__(
            save_dir, name="", version="", flush_logs_every_n_steps=flush_logs_every_n_steps
        )
        self.path = Path(save_dir, "metrics.csv")
        self._rows: dict[int, dict[str, Any]] | None = None  # by step

    @property
    def experiment(self) -> Any:
        """This logger. Lightning's writer would delete the table of earlier sessions."""
        return self

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **options: Any) -> None:
        """Do nothing: the hyperparameters are in ``run.yaml`` and the checkpoints."""

    @rank_zero_only
    def log_metrics(  # type: ignore[override]
        self, metrics: Mapping[str, float], step: int | None = None
    ) -> None:
        number = (step or 0) + 1  # Lightning numbers steps from 0
        if self._rows is None:
            self._rows = {n: row for n, row in _read(self.path).items() if n < number}
        row = {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in metrics.items()}
        row.pop("epoch", None)
        self._rows.setdefault(number, {"step": number}).update(row)
        if number % self._flush_logs_every_n_steps == 0:
            self.save()

    @rank_zero_only
    def save(self) -> None:
        if self._rows:
            columns = list(dict.fromkeys(name for row in self._rows.values() for name in row))
            files.write_table(self.path, self._rows.values(), columns)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self.save()


def _read(path: Path) -> dict[int, dict[str, Any]]:
    """The rows of a table by step; empty if the file does not exist."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = [row for row in csv.DictReader(file) if (row.get("step") or "").isdecimal()]
    return {int(row["step"]): {k: v for k, v in row.items() if k and v} for row in rows}
