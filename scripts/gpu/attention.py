"""The fused attention kernel on a GPU, in one command: correctness, then tuning, then the table.

    python scripts/gpu/attention.py                         # all of it within 540 seconds
    python scripts/gpu/attention.py seconds=300 sizes=64 out=folder commit=abc123
    python scripts/gpu/attention.py rehearse=true           # on the CPU, tiny, interpreted

1. Correctness against float64: float32, bfloat16, float16; both plans; clipped distances, other
   numbers of queries than keys, packed pieces, local blocks, dropout, shared tables, biases, tables
   of values, the queries' biases of Transformer-XL, attention that is not causal, deterministic
   mode. Budget for 16 bits: 1.5 times the error of dense attention in that dtype.
2. Tuning: each pass by itself over plans, tiles, warps and stages (compiled in parallel first).
3. The table: the best configuration, the best of each plan and the deterministic mode against
   scaled-dot-product attention without the relative term (flash, cuDNN), the textbook skew, and
   FlexAttention reading precomputed relative logits. H = 8, batch x length = 32768 tokens.

Times are of CUDA graphs (no launch gaps), candidates in turns, medians and quartiles. Written are
results.csv (a row for each time) and attention.json (everything) in ``out`` (default $OUT or .).
Needs torch, triton, numpy and this checkout; ends with status 1 if anything was not correct.
"""

from __future__ import annotations

import csv
import itertools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attention_cases as cases  # beside this file; sets the interpreter before Triton is imported
import numpy as np
import torch
import triton
from attention_cases import HALF, HEADS, LENGTHS, OPTIONS, REHEARSE, ROOT, SIZES, TOKENS
from torch import Tensor
from torch.nn.attention import SDPBackend

from musictx.attention.fused.config import Config, Tile, choose

BEGAN = time.monotonic()
SECONDS = float(OPTIONS.get("seconds", "540"))
SMALL = [Tile(16, 16, 4, 1, "gather"), Tile(16, 16, 4, 1, "panel")]
ROWS: list[dict[str, Any]] = []


def left() -> float:
    """Seconds that remain."""
    return SECONDS - (time.monotonic() - BEGAN)


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:5.0f} s] {text}", flush=True)


def environment() -> dict[str, str]:
    def output(*command: str) -> str:
        try:
            return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip()
        except OSError:
            return ""

    query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "gpu": "CPU, interpreted" if REHEARSE else torch.cuda.get_device_name(),
        "driver": "" if REHEARSE else output(*query),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "commit": OPTIONS.get("commit") or output("git", "rev-parse", "--short", "HEAD"),
    }


# ---------------------------------------------------------------- in parallel


def in_parallel(function: Callable[[Any], Any], tasks: list[Any], seconds: float) -> dict[Any, Any]:
    """Answers by task, each from a process of its own (a fault of the GPU ends a process); tasks
    that are not ready in time have none. Compiling is what takes the time, hence in parallel."""
    if REHEARSE:
        return {task: function(task) for task in tasks}
    until = time.monotonic() + seconds
    context = multiprocessing.get_context("spawn")
    workers = max(1, min(12, (os.cpu_count() or 2) - 2, len(tasks)))
    found = {}
    with context.Pool(workers, maxtasksperchild=1) as pool:
        pending = [(task, pool.apply_async(function, (task,))) for task in tasks]
        for task, answer in pending:
            try:
                found[task] = answer.get(timeout=max(0.1, until - time.monotonic()))
            except multiprocessing.TimeoutError:
                continue
    return found


# ---------------------------------------------------------------- time and memory


def graphed(function: Callable[[], Any]) -> Callable[[], Any]:
    """The function as a CUDA graph, replayed without launch gaps; on the CPU as it is."""
    if REHEARSE:
        return function
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept_alive = function()

    def replay(kept_alive: Any = kept_alive) -> None:
        graph.replay()

    return replay


def once(function: Callable[[], Any]) -> float:
    """Milliseconds of one call."""
    if REHEARSE:
        start = time.perf_counter()
        function()
        return (time.perf_counter() - start) * 1e3
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    function()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop))


def times(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Milliseconds of each call, the functions in turns."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(1 if REHEARSE else repeats):
        for name, function in functions.items():
            found[name].append(once(function))
    return found


def both(run: Callable[..., Tensor], made: list[Tensor]) -> Callable[[], Any]:
    """Forward and backward."""

    def step() -> Any:
        out = run(*made[:4])
        return torch.autograd.grad(out, made[:4], made[4], allow_unused=True)

    return step


def ahead(run: Callable[..., Tensor], made: list[Tensor]) -> Callable[[], Any]:
    """Forward alone."""

    def step() -> Any:
        with torch.no_grad():
            return run(*made[:4])

    return step


def peak(function: Callable[[], Any]) -> float:
    """Megabytes at most, inputs included."""
    if REHEARSE:
        return float("nan")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**20


# ---------------------------------------------------------------- tuning


def alternatives(size: int) -> dict[str, list[Tile]]:
    """Tiles to try for each pass."""
    if REHEARSE:
        return {"forward": SMALL, "query": SMALL, "key": SMALL}
    default = choose("", HALF, size)
    grid = {
        "forward": [
            Tile(64, 64, 4, 3, "panel"), Tile(64, 64, 4, 2, "panel"), Tile(128, 64, 8, 3, "panel"),
            Tile(128, 64, 4, 3, "panel"), Tile(128, 64, 8, 2, "panel"),
            Tile(128, 128, 8, 2, "panel"), Tile(64, 128, 4, 2, "panel"),
            Tile(64, 64, 4, 3), Tile(64, 64, 4, 2), Tile(128, 128, 8, 2),
        ],
        "query": [
            Tile(64, 64, 4, 2, "panel"), Tile(64, 64, 4, 1, "panel"), Tile(64, 64, 8, 2, "panel"),
            Tile(128, 64, 8, 2, "panel"), Tile(64, 64, 4, 3, "panel"), Tile(64, 32, 4, 2, "panel"),
            Tile(64, 64, 4, 2), Tile(64, 64, 8, 2),
        ],
        "key": [
            Tile(64, 64, 4, 2), Tile(64, 64, 4, 1), Tile(64, 64, 8, 2), Tile(64, 64, 4, 3),
            Tile(64, 64, 4, 2, "panel"), Tile(64, 128, 8, 2, "panel"), Tile(64, 64, 8, 2, "panel"),
        ],
    }  # fmt: skip
    for name, tiles in grid.items():
        if getattr(default, name) not in tiles:
            tiles.insert(0, getattr(default, name))
    return grid


def with_tile(config: Config, name: str, tile: Tile) -> Config:
    passes = {"forward": config.forward, "query": config.query, "key": config.key} | {name: tile}
    return Config(**passes, segment=config.segment, programs=config.programs)


def compile_one(task: tuple[int, str, bool]) -> str:
    """Run a configuration once, so that its kernels are in the cache on disk; what went wrong."""
    size, text, deterministic = task
    try:
        made = cases.inputs(TOKENS // LENGTHS[1], LENGTHS[1], size, HALF)
        both(cases.ours(Config.parse(text), deterministic), made)()
        torch.cuda.synchronize()
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:160]}"


def tune(size: int) -> dict[str, Config]:
    """The best configuration, and the best of each plan, by times at the second length."""
    default = SMALL_CONFIG if REHEARSE else choose("", HALF, size)
    grid = alternatives(size)
    candidates = {
        (name, tile): with_tile(default, name, tile)
        for name, tiles in grid.items()
        for tile in tiles
    }
    failed: dict[str, str] = {}
    if not REHEARSE:
        tasks = [(size, str(config), False) for config in candidates.values()]
        tasks.append((size, str(default), True))
        answers = in_parallel(compile_one, tasks, max(20.0, min(150.0, left() / 3)))
        failed = {task[1]: answer for task, answer in answers.items() if answer}
        failed |= {t[1]: "not compiled in time" for t in tasks if t not in answers and not t[2]}
        say(f"    compiled {len(tasks)} configurations, {len(failed)} cannot run")
    length = LENGTHS[1]
    made = cases.inputs(TOKENS // length, length, size, HALF)
    best: dict[tuple[str, str], tuple[float, Tile]] = {}
    for (name, tile), config in candidates.items():
        if str(config) in failed or left() < 0.25 * SECONDS:
            continue
        step = (ahead if name == "forward" else both)(cases.ours(config), made)
        try:
            taken = statistics.median(times({"": graphed(step)}, 15)[""])
        except Exception as error:
            failed[str(config)] = f"{type(error).__name__}: {str(error)[:160]}"
            continue
        record(size, length, "tune " + name, str(tile), [taken], {})
        say(
            f"    {name:8} {tile!s:22} {taken:7.3f} ms"
            + ("" if name == "forward" else " with forward")
        )
        for plan in (tile.plan, "best"):
            if (name, plan) not in best or taken < best[name, plan][0]:
                best[name, plan] = (taken, tile)
    for text, why in failed.items():
        say(f"    {text}: {why}")
    found = {}
    for plan in ("best", "panel", "gather"):
        tiles = {n: best[n, plan][1] for n in ("forward", "query", "key") if (n, plan) in best}
        if len(tiles) == 3:
            found[plan] = Config(**tiles, segment=default.segment, programs=default.programs)
    if "best" in found and not REHEARSE:
        found["best"] = tune_panels(found["best"], made)
    return found or {"best": default}


def tune_panels(config: Config, made: list[Tensor]) -> Config:
    """Length of a segment and programs for each multiprocessor, for the best tiles."""
    best, lowest = config, float("inf")
    for segment, programs in itertools.product((512, 1024), (1, 2, 3)):
        if left() < 0.2 * SECONDS:
            break
        candidate = Config(config.forward, config.query, config.key, segment, programs)
        try:
            step = graphed(both(cases.ours(candidate), made))
            taken = statistics.median(times({"": step}, 15)[""])
        except Exception as error:
            say(f"    {candidate}: {type(error).__name__}: {str(error)[:160]}")
            continue
        say(f"    segment {segment}, {programs} programs: {taken:.3f} ms")
        if taken < lowest:
            best, lowest = candidate, taken
    return best


SMALL_CONFIG = Config(SMALL[1], SMALL[1], SMALL[0], 32)


# ---------------------------------------------------------------- the table


def record(
    size: int, length: int, what: str, who: str, taken: list[float], more: dict[str, Any]
) -> None:
    low, middle, high = np.percentile(taken, (25, 50, 75))
    row = {"what": what, "who": who, "dtype": str(HALF).removeprefix("torch."), "D": size}
    row |= {"H": HEADS, "length": length, "batch": TOKENS // length}
    row |= {"median_ms": round(middle, 4), "quartile1_ms": round(low, 4)}
    ROWS.append(row | {"quartile3_ms": round(high, 4), "repeats": len(taken)} | more)


def candidates(length: int, configs: dict[str, Config]) -> dict[str, Callable[..., Tensor]]:
    """Who is compared at this length."""
    found: dict[str, Callable[..., Tensor]] = {"ours": cases.ours(configs["best"])}
    for plan in ("panel", "gather"):
        if plan in configs:
            found[plan] = cases.ours(configs[plan])
    found["deterministic"] = cases.ours(configs["best"], deterministic=True)
    if REHEARSE:
        return found | {"textbook": cases.textbook}
    found["sdpa flash"] = cases.plain(SDPBackend.FLASH_ATTENTION)
    found["sdpa cudnn"] = cases.plain(SDPBackend.CUDNN_ATTENTION)
    found["textbook"] = cases.textbook
    if length == LENGTHS[1] and left() > 120:  # it takes long to compile
        found["flex"] = cases.flex(length)
    return found


def compare(size: int, length: int, configs: dict[str, Config]) -> None:
    """One length: times, memory, rows of the table."""
    made = cases.inputs(TOKENS // length, length, size, HALF)
    runs = candidates(length, configs)
    for what, make in (("forward", ahead), ("forward+backward", both)):
        steps, megabytes = {}, {}
        for name, run in runs.items():
            if left() < 10:
                return
            try:
                step = make(run, made)
                step()  # compiles
                megabytes[name] = peak(step)
                steps[name] = step
            except Exception as error:
                say(f"    {name} {what} L={length}: {type(error).__name__}: {str(error)[:160]}")
        for name, step in list(steps.items()):  # graphs hold memory: after all peaks are known
            try:
                steps[name] = graphed(step)
            except Exception as error:
                del steps[name]
                say(f"    {name} {what} L={length}, graph: {type(error).__name__}")
        for name, taken in times(steps, 30).items():
            record(size, length, what, name, taken, {"peak_MB": round(megabytes[name], 1)})
        steps.clear()
        if not REHEARSE:
            torch.cuda.empty_cache()


def summary() -> None:
    """The short table, last."""
    print(
        f"\n{'D':>3} {'L':>5} {'what':16} {'who':14} {'ms':>9} {'quartiles':>17} {'/flash':>7} MB"
    )
    base = {
        (r["D"], r["length"], r["what"]): r["median_ms"] for r in ROWS if r["who"] == "sdpa flash"
    }
    for r in ROWS:
        if r["what"].startswith("tune"):
            continue
        flash = base.get((r["D"], r["length"], r["what"]))
        ratio = f"{r['median_ms'] / flash:7.2f}" if flash else f"{'-':>7}"
        spread = f"{r['quartile1_ms']:.3f}-{r['quartile3_ms']:.3f}"
        print(
            f"{r['D']:3} {r['length']:5} {r['what']:16} {r['who']:14} {r['median_ms']:9.3f} "
            f"{spread:>17} {ratio} {r['peak_MB']:.0f}"
        )


def write(out: Path, about: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**about, "rows": ROWS}, indent=1)
    (out / "attention.json").write_text(text, encoding="utf-8")
    if not ROWS:
        return
    constant = {key: about[key] for key in ("gpu", "driver", "torch", "triton", "commit")}
    names = list(dict.fromkeys(key for row in ROWS for key in row))
    with (out / "results.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [*constant, *names])
        table.writeheader()
        table.writerows(constant | row for row in ROWS)


def interpreter_of_today() -> None:
    """Triton 3.6's interpreter under numpy 2.4: int() of an array of one element is gone."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: np.asarray(self.handle.data).item())

    interpreter._patch_lang_tensor = patched


def main() -> int:
    if REHEARSE:
        interpreter_of_today()
        torch.set_num_threads(1)
    elif not torch.cuda.is_available():
        print("no CUDA GPU here: rehearse=true runs this on the CPU, tiny and interpreted")
        return 2
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(0)
    about: dict[str, Any] = dict(environment())
    out = Path(OPTIONS.get("out") or os.environ.get("OUT") or ".")
    say(", ".join(f"{key} {value}" for key, value in about.items()))
    if REHEARSE:
        say("rehearsal: bfloat16, CUDA graphs, memory, SDPA and FlexAttention need a GPU: left out")

    wrong: dict[str, dict[str, str]] = {}
    gap = cases.agrees_with_the_specification()
    if gap > 1e-12:
        wrong["dense attention of this script"] = {"specification": f"error {gap:.1e}"}
    tasks = cases.all_cases()
    answers = in_parallel(cases.correctness, tasks, 0.35 * SECONDS)
    about["correctness"] = [[*task, *answers.get(task, ("not run",))] for task in tasks]
    for task in tasks:
        if task not in answers:
            say(f"    not checked in time: {task}")
            continue
        error, budget, why = answers[task]
        size, dtype, tile_name, case = task
        if why:
            where = wrong.setdefault(f"{dtype} D={size} {tile_name}", {})
            where[case] = f"{why}: error {error:.1e}, budget {budget:.1e}"
        elif case in ("plain", "all"):
            say(f"    {dtype:8} D={size:<3} {tile_name:19} {case:5} {error:.1e} of {budget:.1e}")
    say(f"correctness: {len(answers)} of {len(tasks)} cases run, {len(wrong)} kernels wrong")
    about["wrong"] = wrong
    for where, failures in wrong.items():
        for case, why in failures.items():
            say(f"WRONG {where} {case}: {why}")

    about["configs"] = {}
    for size in SIZES:
        if left() < (0.1 if size == SIZES[0] else 0.3) * SECONDS:
            say(f"no time left for D={size}")
            continue
        say(f"tuning D={size}")
        configs = tune(size)
        about["configs"][size] = {plan: str(config) for plan, config in configs.items()}
        for plan, config in configs.items():
            say(f"    {plan}: {config}")
        for length in LENGTHS:
            if left() > 15:
                say(f"comparing D={size} L={length}")
                compare(size, length, configs)
                write(out, about)
    write(out, about)
    summary()
    print("NOT CORRECT, see above" if wrong else "everything was within its budget of error")
    print(f"written: {out / 'results.csv'}, {out / 'attention.json'}; {-left() + SECONDS:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
