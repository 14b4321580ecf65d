"""What the benchmarks share: clocks, and rows of results.csv."""

from __future__ import annotations

import csv
import datetime
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from musictx.model import MusicTransformer
from musictx.model.rounding import in_bytes
from musictx.sampling import engine

COLUMNS = (
    *("date", "machine", "threads", "torch", "commit", "implementation", "batch", "heads"),
    *("length", "size", "dtype", "pass", "median_ms", "spread_ms", "extra_peak_mb"),
)


#: The step in C++ rounds keys and values of models in bytes: so far may its logits be from those of
#: a pass, relative to their norm, where the ids that are drawn differ.
ROUNDED = 0.03


def off(model: MusicTransformer, ids: torch.Tensor, cache: str) -> float:
    """How far logits along ``ids`` (rows, n), id after id, are from those of one pass, relative to
    their norm."""
    rows, length = ids.shape
    music = engine.Decoder(
        model, ids[:, :1].cpu(), rows=rows, capacity=length, longest=length, cache=cache
    )
    found = [music.logits]
    for each in ids.cpu().T[1:]:
        music.append(each)
        music.step()
        found.append(music.logits)
    want = model(ids).cpu().double()
    return float((torch.stack(found, 1) - want).norm() / want.norm())


def rounds(model: MusicTransformer) -> bool:
    """Whether the step in C++ rounds its keys and values."""
    return in_bytes(model.embedding.weight)[1] is not None


def wait(device: torch.device) -> None:
    """Until the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(function: Callable[[], Any], device: torch.device) -> float:
    wait(device)
    begin = time.perf_counter()
    function()
    wait(device)
    return 1e3 * (time.perf_counter() - begin)


def in_turns(
    functions: dict[str, Callable[[], Any]], repeats: int, device: torch.device
) -> dict[str, list[float]]:
    """Milliseconds of each, ``repeats`` times in turns, so that whatever else the machine does
    meets all of them; a first turn warms up. Sorted."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(repeats + 1):
        for name, function in functions.items():
            took = milliseconds(function, device)
            if turn:
                found[name].append(took)
    return {name: sorted(times) for name, times in found.items()}


def spread(times: list[float]) -> tuple[float, float, float]:
    """(first quartile, median, third quartile) of sorted times."""
    return times[len(times) // 4], statistics.median(times), times[-1 - len(times) // 4]


def machine(device: torch.device) -> str:
    """What kind of processor did the work."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def commit() -> str:
    """The commit of the code, with + where files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def record(path: str, device: torch.device, times: list[float], **row: Any) -> None:
    """Append a row of :data:`COLUMNS` to the CSV file ``path``; nothing if it is empty."""
    if not path:
        return
    low, middle, high = spread(times)
    everywhere = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "commit": commit(),
        "median_ms": f"{middle:.3f}",
        "spread_ms": f"{low:.3f}-{high:.3f}",
    }
    new = not Path(path).exists()
    with Path(path).open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(everywhere | row)
