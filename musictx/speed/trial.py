"""Whether a kernel for GPUs is right on this one, and faster than plain torch: tried once.

On first use a process of its own compiles the kernel, holds output and gradients against plain
torch, and times both: so a kernel that hangs or brings the GPU's context down harms nobody. The
answer is said in one line and remembered by GPU, torch and triton version and by the kernel's
source in ``trials.json`` of the folder of compiled libraries; delete that file to have it tried
again. The process is trying.py. Kernels: ``fused`` in Triton; ``cuda`` in CUDA C++, which takes
over what it can from fused and is held against that.
"""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor

from musictx import files
from musictx.speed.native import build

#: Relative to the norm of what plain torch computes, in bfloat16.
CLOSE = 0.02
TRIAL_SECONDS = 300
KERNELS = ("fused", "cuda")
Pass = Callable[[], Sequence[Tensor]]


@functools.cache
def why_not(kernel: str = "fused") -> str | None:
    """Why the kernel is not taken on this GPU, or ``None``; tried now if never before."""
    folder, key = build.cache_folder(), _key(kernel)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "trials.lock").open("w") as file:
            files.lock(file, wait=True)
            known = remembered()
            if key not in known:
                print("musictx: trying the kernel of attention on this GPU, once", file=sys.stderr)
                known[key] = answer([sys.executable, "-m", "musictx.speed.trying", kernel])
                print(f"musictx: {kernel}: {known[key]['said']}", file=sys.stderr)
                files.write_text(folder / "trials.json", json.dumps(known, indent=1))
    except OSError as error:
        return f"its trial cannot be kept in {folder} ({error.strerror or error})"
    return None if known[key]["taken"] else str(known[key]["said"])


def remembered() -> dict[str, dict[str, object]]:
    """Machine -> {"taken": whether, "said": why, in words}."""
    try:
        known = json.loads((build.cache_folder() / "trials.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def check() -> str:
    """What the trials on this machine have found so far."""
    if not torch.cuda.is_available():
        return "not tried: there is no CUDA GPU"
    known = remembered()
    said = (known.get(_key(one), {}).get("said", "tried when first needed") for one in KERNELS)
    return "; ".join(f"{one}: {answer}" for one, answer in zip(KERNELS, said))


def _key(kernel: str) -> str:
    try:
        triton = metadata.version("triton")
    except metadata.PackageNotFoundError:
        triton = "none"
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    files = sorted((Path(__file__).parent / kernel).glob("*.[pc]*"))
    source = hashlib.sha256(b"\0".join(path.read_bytes() for path in files if path.is_file()))
    versions = f"torch {torch.__version__}, triton {triton}, source {source.hexdigest()[:8]}"
    return f"{kernel}, {gpu}, {versions}"


def answer(command: Sequence[str], seconds: float = TRIAL_SECONDS) -> dict[str, object]:
    """What the process says that tries a kernel, or how it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"taken": False, "said": f"not taken: no answer in {seconds:g} seconds"}
    try:
        found = json.loads(done.stdout.strip().splitlines()[-1])
        return {"taken": bool(found["taken"]), "said": str(found["said"])}
    except (IndexError, KeyError, TypeError, ValueError):
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return {"taken": False, "said": f"not taken: it failed ({reason[:200]})"}


def judged(fast: Pass, plain: Pass, wait: Callable[[], object]) -> dict[str, object]:
    """Whether ``fast`` computes what ``plain`` does, and sooner; ``wait`` for what they began."""
    try:
        for got, want in zip(fast(), plain(), strict=True):
            off = float((got.double() - want.double()).norm() / want.double().norm())
            if not off < CLOSE:  # also NaN
                return {"taken": False, "said": f"not taken: it is wrong here, by {off:.1%}"}
        mine, theirs = _seconds(fast, wait), _seconds(plain, wait)
    except Exception as error:  # whatever a compiler raises
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        return {"taken": False, "said": f"not taken: it failed ({reason})"}
    times = theirs / mine
    if times <= 1.0:
        return {"taken": False, "said": f"not taken: right, but {1 / times:.1f} times as slow"}
    return {"taken": True, "said": f"taken: right, and {times:.1f} times as fast as plain torch"}


def _seconds(act: Pass, wait: Callable[[], object], repeats: int = 5) -> float:
    """The shortest time that ``act`` takes, after a first call."""
    times = []
    for _ in range(repeats + 1):
        wait()
        begin = time.perf_counter()
        act()
        wait()
        times.append(time.perf_counter() - begin)
    return min(times[1:])
