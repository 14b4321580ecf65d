"""The kernel of attention in CUDA C++ on a GPU: whether it is right, then how long it takes.

    python -m scripts.bench.attention_gpu results=attention.csv [budget=120]
    python -m scripts.bench.attention_gpu rehearse=true             # no GPU: emulated, tiny
    ncu --set full -k regex:relative_ python -m scripts.bench.attention_gpu profile=true

Output and gradients are held against float64, also with planted faults, which must be noticed. Then
candidates take turns, 8 heads of 64 in bfloat16, ``tokens`` in all, the most telling shapes first:

    cuda       speed/cuda, forward and backward
    mixed      speed/cuda forward, speed/fused backward
    triton     speed/fused alone
    sdpa       torch's own attention WITHOUT the relative term: the limit to compare with
    skew       the skew of Huang et al. (2018), operation by operation; compiled: by torch.compile
    flex       FlexAttention reading relative logits computed before

Times are those of the GPU, by events, behind a pause in which the CPU gets ahead ("wall": by the
clock, one call at a time). What raises is reported in a line and left out, a kernel that hangs or
harms the GPU's context in the checks too (``without``); nothing new begins after ``budget``
seconds. A short table comes last. Status 1 if something was wrong. ``profile``: one step alone, for
Nsight Compute.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from musictx.attention import Axis, Terms
from musictx.attention.setting import Setting
from musictx.attention.terms import Span
from musictx.speed import fused
from musictx.speed.cuda import kernel
from scripts.bench import attention_check
from scripts.bench.attention import flex, plain, step, textbook
from scripts.bench.attention_check import begin, say, seconds, short
from scripts.bench.common import record, spread
from scripts.words import options
from scripts.words import run as script

DEFAULTS = {
    "budget": "120",
    "results": "",
    "tokens": "32768",
    "repeats": "15",
    "profile": "false",
    "without": "",
}
TINY = {"tokens": "256", "repeats": "1"}
COMPILE_SECONDS = 20
HANG_SECONDS = 60
Run = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Times = dict[tuple[int, str, str], dict[str, float]]
_SKEW_COMPILED: list[Any] = []


@contextmanager
def at_most(limit: float) -> Iterator[None]:
    """TimeoutError after so many seconds."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {limit:.0f} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit, 1.0)  # again: compilers swallow exceptions
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Bench:
    """The device, what was asked for, and what was measured."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given = given
        self.gpu = torch.cuda.is_available() and given["rehearse"] != "true"
        self.device = torch.device("cuda" if self.gpu else "cpu")
        self.times: Times = {}
        self.heads, self.size = (8, 64) if self.gpu else (1, 64)
        self.at = "forward"  # the kernel that is being checked

    def late(self) -> bool:
        return seconds() > float(self.given["budget"])

    def again_without(self) -> None:
        """From the start, without the kernel that harmed this process."""
        without = ",".join(x for x in (self.given["without"], self.at) if x)
        say(f"{self.at} brought this process down: again without {without}")
        left = float(self.given["budget"]) - seconds()
        given = self.given | {"without": without, "budget": f"{max(30.0, left):.0f}"}
        words = [f"{name}={value}" for name, value in given.items()]
        os.execv(sys.executable, [sys.executable, "-m", "scripts.bench.attention_gpu", *words])

    # -- candidates

    def ours(self, forward: bool, backward: bool, **more: Any) -> Run:
        def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
            kernel.chosen = True
            kernel.FAILED.clear()
            kernel.SIZES.update(
                forward=(32, 64, 128) if forward and self.has("forward") else (),
                backward=(32, 64) if backward and self.has("backward") else (),
            )
            terms = Terms(q.shape[-1] ** -0.5, (Axis(table=table, high=table.shape[1] - 1),))
            span = (Span(0, q.shape[2]),)
            return fused.attend(q, k, v, terms, Setting(span, span, True, **more))

        return run

    def candidates(self, length: int, comparisons: bool) -> dict[str, Run]:
        if not comparisons:
            return {
                "sdpa": plain,
                "cuda": self.ours(True, True),
                "mixed": self.ours(True, False),
                "triton": self.ours(False, False),
            }
        found: dict[str, Run] = {"sdpa": plain, "cuda": self.ours(True, True)}
        if length <= 4096:
            found["skew"] = textbook
            found["flex"] = flex(length, self.device)
            if not _SKEW_COMPILED:
                _SKEW_COMPILED.append(torch.compile(textbook, dynamic=False))
            found["compiled"] = _SKEW_COMPILED[0]
        return found

    def inputs(self, batch: int, length: int, rows: int, **kind: Any) -> list[Tensor]:
        """q, k, v, table, and the gradient of the output."""
        torch.manual_seed(length + rows)
        heads, size = kind.get("heads", self.heads), kind.get("size", self.size)
        dtype = kind.get("dtype", torch.bfloat16)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, device=self.device).to(dtype)

        shape = (batch, heads, length, size)
        tensors = [normal(*shape) for _ in range(3)] + [normal(heads, rows, size)]
        return [*(t.requires_grad_() for t in tensors), normal(*shape)]

    def has(self, name: str) -> bool:
        return name not in self.given["without"].split(",")

    # -- times

    def group(self, length: int, rows: int, which: str, comparisons: bool = False) -> None:
        """Times of candidates in turns at one shape."""
        batch = max(1, int(self.given["tokens"]) // length)
        *tensors, upstream = self.inputs(batch, length, rows)
        ready: dict[str, Callable[[], object]] = {}
        for name, run in self.candidates(length, comparisons).items():
            if self.late():
                break

            def act(run: Run = run) -> object:
                if which.startswith("forward+"):
                    return step(run, tensors, upstream)
                with torch.no_grad():
                    return run(*tensors)

            try:
                with at_most(COMPILE_SECONDS if comparisons else 60):
                    before = len(attention_check.LAUNCHED)
                    act()
                    self.wait()
                if name == "cuda":
                    kernels = ("forward", "backward")[: 2 if "+" in which else 1]
                    wanted = sum(map(self.has, kernels))
                    if len(attention_check.LAUNCHED) - before != wanted:
                        raise RuntimeError(f"left to Triton, {kernel.FAILED}")
                ready[name] = act
            except Exception as error:
                say(f"without {name} at {length}: {short(error)}")
        found: dict[str, list[float]] = {name: [] for name in ready}
        for turn in range(int(self.given["repeats"]) + 1):
            for name, act in ready.items():
                took = self.took(act, which)
                if turn:
                    found[name].append(took)
        words = []
        for name, each in found.items():
            if not each:
                continue
            each.sort()
            key = (length, "all" if rows == length else str(rows), which)
            self.times.setdefault(key, {}).setdefault(name, statistics.median(each))
            low, middle, high = spread(each)
            words.append(f"{name} {middle:.3f} ({low:.3f}-{high:.3f})")
        say(f"L={length} rows={rows} {which}: " + ", ".join(words))
        named = which + ("" if rows == length else f", {rows} distances")
        for name, each in found.items():
            if each:
                record(
                    self.given["results"], self.device, each, implementation=name, batch=batch,
                    heads=self.heads, length=length, size=self.size, dtype="bfloat16",
                    **{"pass": named}, extra_peak_mb="-",
                )  # fmt: skip

    def wait(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()

    def took(self, act: Callable[[], object], which: str) -> float:
        """Milliseconds."""
        if not self.gpu or which.endswith("wall"):
            self.wait()
            begin = time.perf_counter()
            act()
            self.wait()
            return 1e3 * (time.perf_counter() - begin)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(3_000_000)
        first.record()
        act()
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last)

    def measure(self) -> None:
        lengths = (2048, 4096, 1024, 8192, 512) if self.gpu else (128, 64)
        clipped = 512 if self.gpu else 16
        plan: list[tuple[int, int, str, bool]] = []
        for length in lengths[:2]:
            plan += [
                (length, length, "forward", False),
                (length, length, "forward+backward", False),
            ]
        for length in lengths[:2]:
            for which in ("forward", "forward+backward"):
                plan.append((length, clipped, which, False))
        for length in lengths[:2]:
            plan.append((length, length, "forward", True))
        plan += [
            (lengths[0], lengths[0], f"{x}, wall", False) for x in ("forward", "forward+backward")
        ]
        for length in lengths[2:]:
            plan += [
                (length, length, "forward", False),
                (length, length, "forward+backward", False),
            ]
        plan += [(lengths[0], lengths[0], "forward+backward", True)]
        plan += [(x, clipped, "forward+backward", False) for x in lengths[2:] if x > clipped]
        for length, rows, which, comparisons in plan:
            if self.late():
                say(f"no time left for {length}, {rows} rows, {which}")
                continue
            try:
                self.group(length, rows, which, comparisons)
            except Exception as error:
                say(f"L={length} rows={rows} {which}: {short(error)}")
                if self.gpu and "CUDA error" in str(error):
                    return

    def table(self) -> None:
        """The short table: milliseconds, and times as long as sdpa."""
        names = ("sdpa", "cuda", "mixed", "triton", "skew", "compiled", "flex")
        heading = "".join(f"{name:>9}" for name in names)
        print("\nlength rows pass".ljust(32) + heading + "  cuda/sdpa")
        for (length, rows, which), found in self.times.items():
            cells = "".join(f"{found[n]:9.3f}" if n in found else "        -" for n in names)
            both = "cuda" in found and "sdpa" in found
            ratio = f"{found['cuda'] / found['sdpa']:11.2f}" if both else ""
            print(f"{length:5} {rows:>5} {which}".ljust(31) + cells + ratio, flush=True)


def main(words: list[str]) -> int:
    begin()
    given = options(words, DEFAULTS, TINY)
    bench = Bench(given)
    if bench.gpu:
        say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    else:
        from tests.speed import emulated

        kernel.launch = emulated.launcher()
        say("no GPU: a rehearsal")
    if given["profile"] == "true":
        *tensors, upstream = bench.inputs(*((16, 2048, 2048) if bench.gpu else (1, 64, 64)))
        step(bench.ours(True, True), tensors, upstream)
        bench.wait()
        return 0
    kernel.launch = attention_check.counted(kernel.launch)
    try:
        attention_check.prepare(bench)
    except Exception as error:
        say(f"not compiled ahead: {short(error)}")
    watch = threading.Timer(HANG_SECONDS, bench.again_without)
    watch.daemon = True
    if bench.gpu:
        watch.start()
    good = attention_check.check(bench)
    watch.cancel()
    if kernel.FAILED:
        say(f"not started: {kernel.FAILED}")
    bench.measure()
    bench.table()
    print("all right" if good else "SOMETHING IS WRONG (above)", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    script(main)
