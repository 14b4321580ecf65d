"""Shared by the benchmarks: measuring time, and rows of results.csv."""

from __future__ import annotations

import csv
import datetime
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from musictx.apps.doctor import cpu_name

COLUMNS = (
    *("date", "machine", "threads", "torch", "commit", "implementation", "batch", "heads"),
    *("length", "size", "dtype", "pass", "median_ms", "spread_ms", "extra_peak_mb"),
)


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def wait(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(function: Callable[[], Any], device: torch.device) -> float:
    wait(device)
    begin = time.perf_counter()
    function()
    wait(device)
    return 1e3 * (time.perf_counter() - begin)


def spread(times: list[float]) -> tuple[float, float, float]:
    """(first quartile, median, third quartile) of sorted times."""
    return times[len(times) // 4], statistics.median(times), times[-1 - len(times) // 4]


def commit() -> str:
    """The commit of the code, with + if files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def record(path: Path | None, device: torch.device, times: list[float], **row: Any) -> None:
    """Append a row of :data:`COLUMNS` to the CSV file ``path``, unless it is ``None``."""
    if path is None:
        return
    low, middle, high = spread(times)
    common = {
        "date": datetime.date.today().isoformat(),
        "machine": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "commit": commit(),
        "median_ms": f"{middle:.3f}",
        "spread_ms": f"{low:.3f}-{high:.3f}",
        "extra_peak_mb": "-",
    }
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(common | row)
