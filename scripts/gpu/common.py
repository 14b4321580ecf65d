"""What the scripts of this folder share: options, a budget of seconds, models, times, results.

Needs torch, numpy, PyYAML and this checkout, nothing else of what musictx installs: machines with a
GPU are often bare.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from musictx.config import ModelConfig  # noqa: E402
from musictx.model.transformer import MusicTransformer  # noqa: E402
from musictx.train import network  # noqa: E402

VOCABULARY = 392
#: Sizes for quick=true, on a CPU within seconds.
QUICK = {"layers": 2, "width": 32, "heads": 2, "feedforward": 64, "context": 48}
#: Dense bfloat16 products a second, from the vendor's data sheets (SXM parts).
PEAKS = {"H100": 989.4e12, "H200": 989.4e12, "A100": 312e12}


def options(defaults: dict[str, str], quick: dict[str, str], words: list[str]) -> dict[str, str]:
    """``name=value`` words over ``defaults``; with quick=true ``quick`` stands between the two."""
    common = {"seconds": "540", "out": os.environ.get("OUT") or ".", "commit": "", "quick": "false"}
    given = dict(word.split("=", 1) for word in words if "=" in word)
    known = common | {"device": "cuda"} | defaults
    if wrong := [word for word in words if word.split("=", 1)[0] not in known or "=" not in word]:
        raise SystemExit(f"{wrong[0]}: expected name=value with a name of " + ", ".join(known))
    base = known | (quick | {"device": "cpu"} if given.get("quick") == "true" else {})
    return base | given


def several(text: str) -> list[str]:
    """The parts of ``a,b,c``."""
    return [part for part in text.split(",") if part]


class Session:
    """One run of a script: the clock, what is printed, the rows that are kept.

    Each row has the same columns in every script, so that tables can be put together: where and
    with what it ran, script, case (``name=value`` words), unit, median, quartiles, repeats.
    """

    def __init__(self, script: str, given: dict[str, str]) -> None:
        self.began = time.monotonic()
        self.script, self.given = script, given
        self.seconds = float(given["seconds"])
        self.out = Path(given["out"])
        self.device = torch.device(given["device"])
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise SystemExit("no CUDA GPU here: quick=true runs this on the CPU, tiny")
        self.about = environment(self.device, given["commit"])
        self.rows: list[dict[str, Any]] = []
        self.notes: dict[str, Any] = {"options": given}
        self.wrong: list[str] = []
        self.say(", ".join(f"{key} {value}" for key, value in self.about.items()))

    @property
    def cuda(self) -> bool:
        return self.device.type == "cuda"

    def left(self) -> float:
        """Seconds that remain."""
        return self.seconds - (time.monotonic() - self.began)

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:5.0f} s] {text}", flush=True)

    def check(self, what: str, good: bool, found: str) -> None:
        """One finding about correctness."""
        self.say(f"    {'ok   ' if good else 'WRONG'} {what}: {found}")
        if not good:
            self.wrong.append(f"{what}: {found}")

    def record(self, case: str, unit: str, values: list[float], **more: Any) -> dict[str, Any]:
        """Keep a row; ``more`` goes to the JSON file only."""
        low, middle, high = (float(x) for x in np.percentile(values, (25, 50, 75)))
        row = {"script": self.script, "case": case, "unit": unit, "median": significant(middle)}
        row |= {"quartile1": significant(low), "quartile3": significant(high)}
        row |= {"repeats": len(values)}
        self.rows.append(row | more)
        self.write()  # whatever happens next, this is kept
        return self.rows[-1]

    def write(self) -> None:
        """results.csv and SCRIPT.json in ``out``."""
        self.out.mkdir(parents=True, exist_ok=True)
        everything = {**self.about, **self.notes, "wrong": self.wrong, "rows": self.rows}
        text = json.dumps(everything, indent=1)
        (self.out / f"{self.script}.json").write_text(text, encoding="utf-8")
        columns = ["script", "case", "unit", "median", "quartile1", "quartile3", "repeats"]
        with (self.out / "results.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, [*self.about, *columns], extrasaction="ignore")
            table.writeheader()
            table.writerows(self.about | row for row in self.rows)

    def end(self) -> int:
        """The last words; the exit status."""
        self.write()
        for what in self.wrong:
            print(f"WRONG {what}")
        if not self.wrong:
            print("everything compared was equal or within its budget of error")
        print(f"written: {self.out / 'results.csv'}, {self.out / (self.script + '.json')}")
        return 1 if self.wrong else 0


def significant(x: float) -> float:
    return float(f"{x:.5g}")


def environment(device: torch.device, commit: str) -> dict[str, str]:
    """GPU, driver, versions and commit of this run."""

    def output(*command: str) -> str:
        try:
            return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip()
        except OSError:
            return ""

    try:
        import triton

        version = str(triton.__version__)
    except ImportError:
        version = "none"
    cuda = device.type == "cuda"
    query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "gpu": torch.cuda.get_device_name(device) if cuda else "CPU",
        "driver": output(*query) if cuda else "none",
        "torch": torch.__version__,
        "triton": version,
        "commit": commit or output("git", "rev-parse", "--short", "HEAD") or "unknown",
    }


def model_shape(name: str) -> dict[str, Any]:
    """The sizes in conf/model/NAME.yaml over the defaults of ``ModelConfig``."""
    if name == "quick":
        shape: dict[str, Any] = dict(QUICK)
    else:
        file = ROOT / "conf" / "model" / f"{name}.yaml"
        if not file.exists():
            raise SystemExit(f"model={name}: there is no conf/model/{name}.yaml")
        shape = yaml.safe_load(file.read_text(encoding="utf-8"))
    return network.shape(ModelConfig(**shape))


def build(name: str, *, seed: int = 0, opinions: float = 1.0, **changes: Any) -> MusicTransformer:
    """An untrained model on the CPU; ``opinions`` above 1 make its matrices larger, so that no
    choice of a token hangs on the rounding of a logit."""
    torch.manual_seed(seed)
    model = MusicTransformer(VOCABULARY, **(model_shape(name) | changes))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(opinions)
    return model


def apart(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """|got - wanted| / |wanted|; infinite where a number is missing."""
    difference = (got.double().cpu() - wanted.double().cpu()).norm()
    if not bool(difference.isfinite()):
        return float("inf")
    return float(difference / wanted.double().cpu().norm())


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def wall(function: Callable[[], Any], device: torch.device) -> float:
    """Seconds of one call, the device's work included."""
    synchronize(device)
    start = time.perf_counter()
    function()
    synchronize(device)
    return time.perf_counter() - start


def release(device: torch.device) -> None:
    """Forget compiled code and cached memory between cases."""
    import gc

    torch._dynamo.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> float:
    """Megabytes at most since :func:`release`; NaN on the CPU."""
    return (
        torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else float("nan")
    )


def ceilings(device: torch.device, quick: bool) -> dict[str, float]:
    """What this device does at most, measured: bytes/s of a copy, operations/s of bf16 products."""
    size, mega = (256, 2**20) if quick else (8192, 2**30)
    source = torch.randint(0, 255, (mega,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    a, b = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    product = torch.empty_like(a)
    for _ in range(3):
        target.copy_(source)
        torch.mm(a, b, out=product)
    repeats = 3 if quick else 20
    copies = [wall(lambda: target.copy_(source), device) for _ in range(repeats)]
    products = [wall(lambda: torch.mm(a, b, out=product), device) for _ in range(repeats)]
    return {
        "copy_bytes_per_second": 2 * mega / float(np.median(copies)),
        "bf16_operations_per_second": 2 * size**3 / float(np.median(products)),
    }


def sheet_peak(name: str) -> float | None:
    """bfloat16 operations a second by the data sheet, where it is known."""
    return next((peak for part, peak in PEAKS.items() if part in name), None)
