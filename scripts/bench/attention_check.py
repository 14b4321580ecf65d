"""Whether the kernel of attention in CUDA C++ is right: the first part of attention_gpu.py."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from musictx.speed import fused
from musictx.speed.cuda import compile, driver, kernel
from scripts.bench.attention import step

_begin = time.perf_counter()
BREAK = (1, 3)
#: Kernels that were started.
LAUNCHED: list[str] = []


def begin() -> None:
    """Count :func:`seconds` from now."""
    global _begin
    _begin = time.perf_counter()


def seconds() -> float:
    return time.perf_counter() - _begin


def say(line: str) -> None:
    print(f"[{seconds():5.1f}] {line}", flush=True)


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def variants() -> list[tuple[str, list[str]]]:
    """(kernel, macros) of all that is checked, the most used first."""
    half, brief = torch.float16, torch.bfloat16
    shapes = [(64, brief, 0, 0), (64, half, 0, 0), (64, brief, 1, 1), (64, brief, 1, 0)]
    shapes += [(64, half, 0, 1), *((size, x, 0, 0) for size in (32, 128) for x in (brief, half))]
    wanted: list[tuple[str, list[str]]] = []
    for size, dtype, packed, drop in shapes:
        p = SimpleNamespace(
            size=size, q=torch.empty(0, dtype=dtype), query_codes=packed or None, threshold=drop
        )
        for name in ("forward", "backward", "finish") if size == kernel.WIDTH else ("forward",):
            if (one := (name, kernel.defines(name, p))) not in wanted:
                wanted.append(one)
    broken = [(name, [*flags, f"BREAK_BARREL={n}"]) for name, flags in wanted[:3] for n in BREAK]
    return wanted + broken


def counted(launch: Any) -> Any:
    """``kernel.launch`` that writes down what it started."""

    def counting(name: str, *rest: Any) -> None:
        launch(name, *rest)
        if name != "finish":
            LAUNCHED.append(name)

    return counting


def prepare(bench: Any) -> None:
    """Compile the kernels at the same time, and say what became of them."""
    wanted = variants() if bench.gpu else variants()[:4]

    def architecture(flags: list[str]) -> str:
        if bench.gpu:
            return driver.architecture(0, flags)
        return "sm_90a" if "WGMMA=1" in flags else "sm_90"

    say(f"NVRTC {compile.version()}")
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        codes = [pool.submit(compile.machine_code, k, architecture(d), d) for k, d in wanted]
    for (name, flags), code in zip(wanted, codes):
        if error := code.exception():
            say(f"{name} {flags} does not compile: {short(error)}")
    say(f"{len(wanted)} kernels compiled")
    if bench.gpu:
        shared = {"forward": 800 * 64, "backward": kernel.BACKWARD_SHARED, "finish": 0}
        for name, flags in wanted[:5]:
            try:
                say(f"{name} {flags}: {driver.attributes(name, flags, shared[name], 0)}")
            except RuntimeError as error:
                say(f"{name} cannot be loaded: {short(error)}")


def errors_of(bench: Any, length: int, rows: int, **kind: Any) -> dict[str, float]:
    """Relative errors of the output and of each gradient against float64."""
    batch, dropout, packed = 2, kind.get("dropout", 0.0), kind.get("packed", False)
    *tensors, upstream = bench.inputs(batch, length, rows, **kind)
    pieces = None
    if packed:
        pieces = torch.randint(0, 3, (batch, length), device=bench.device).sort(1)[0]
    more = {"query_pieces": pieces, "key_pieces": pieces, "dropout": dropout}
    run = bench.ours(True, not kind.get("mixed"), **more)
    bench.at = "forward"
    torch.manual_seed(7)
    got = [run(*(x.detach() for x in tensors))]
    bench.wait()
    if kind.get("size", bench.size) in kernel.SIZES["backward"] or kind.get("mixed"):
        bench.at = "" if kind.get("mixed") else "backward"
        torch.manual_seed(7)
        before = len(LAUNCHED)
        got = step(run, tensors, upstream)
        bench.wait()
        wanted = sum(map(bench.has, ("forward", "backward"))) - bool(kind.get("mixed"))
        if len(LAUNCHED) - before != wanted:
            raise RuntimeError(f"left to Triton, {kernel.FAILED}")
    kept = None
    if dropout:
        torch.manual_seed(7)
        shape = (batch, tensors[0].shape[1], length)
        queries, keys = (fused._random(shape, bench.device).long() for _ in range(2))
        kept = keeps(queries, keys, dropout)
    exact = [t.detach().double().requires_grad_() for t in tensors]
    want = step(lambda *x: float64(*x, pieces, kept), exact, upstream.double())
    return {
        name: float((a.double() - b).norm() / b.norm())
        for name, a, b in zip(("out", "dq", "dk", "dv", "dtable"), got, want)
    }


def check(bench: Any) -> bool:
    """Whether everything is right, and planted faults are noticed."""
    half, brief = torch.float16, torch.bfloat16
    cases: list[dict[str, Any]] = [{"length": 130, "rows": 130}, {"length": 300, "rows": 100}]
    if bench.gpu:
        cases += [
            {"length": 2000, "rows": 2000},
            {"length": 1000, "rows": 70},
            {"length": 777, "rows": 1, "heads": 3},
            {"length": 1, "rows": 5},
            {"length": 63, "rows": 500},
        ]
    cases += [{"length": 200, "rows": 90, "dtype": half}]
    cases += [{"length": 200, "rows": 200, "packed": True, "dropout": 0.2}]
    if bench.gpu:
        cases += [
            {"length": 900, "rows": 300, "packed": True},
            {"length": 900, "rows": 900, "dropout": 0.1, "dtype": half},
            *({"length": 500, "rows": 300, "size": n, "dtype": half} for n in (32, 128)),
            *({"length": 500, "rows": 500, "size": n, "dtype": brief} for n in (32, 128)),
            {"length": 1000, "rows": 1000, "mixed": True},
        ]
    good = True
    for case in cases:
        try:
            errors = errors_of(bench, **case)
        except Exception as error:
            say(f"WRONG {case}: {short(error)}")
            good = False
            if bench.gpu and "CUDA" in str(error):
                bench.again_without()
            continue
        most = 2e-3 if case.get("dtype") == half else 1e-2
        zero = {"dtable"} if case["rows"] == 1 else set()  # in exact numbers
        zero |= {"dq", "dk", "dtable"} if case["length"] == 1 else set()
        right = all(e < most for name, e in errors.items() if name not in zero)
        right = right and not kernel.FAILED
        good = good and right
        named = " ".join(f"{name} {e:.1e}" for name, e in errors.items())
        say(f"{'right' if right else 'WRONG'} {case}: {named} {kernel.FAILED or ''}")
    return noticed(bench) and good


def noticed(bench: Any) -> bool:
    """Whether a broken skew is."""
    real, all_seen = kernel.defines, True
    for stage in BREAK if bench.gpu else (2,):
        kernel.defines = lambda *a, stage=stage: [*real(*a), f"BREAK_BARREL={stage}"]
        try:
            errors = errors_of(bench, 300, 300)
            seen = errors["out"] > 0.05 and errors["dtable"] > 0.05
        except Exception as error:
            say(f"planted fault: {short(error)}")
            seen = False
        finally:
            kernel.defines = real
        all_seen = all_seen and seen
        say(f"planted fault {stage}: {'noticed' if seen else 'NOT NOTICED'}")
    return all_seen


def keeps(queries: Tensor, keys: Tensor, dropout: float) -> Tensor:
    """The mask of dropout, (B, H, L, L), times what the kept weights are scaled up by."""
    x = (queries & 0xFFFFFFFF)[..., :, None] ^ (keys & 0xFFFFFFFF)[..., None, :]
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x846CA68B & 0xFFFFFFFF
    threshold = round(dropout * 2**24)
    return (x >> 8 >= threshold).double() / (1 - threshold / 2**24)


def float64(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, pieces: Tensor | None, kept: Tensor | None
) -> Tensor:
    """Dense attention, each cell's row of the table looked up by its distance."""
    places = torch.arange(q.shape[2], device=q.device)
    distance = places[:, None] - places[None, :]
    relative = torch.einsum("bhid,hmd->bhim", q, table)
    rows = distance.clamp(0, table.shape[1] - 1).expand(*q.shape[:2], -1, -1)
    logits = (q @ k.transpose(-1, -2) + relative.gather(-1, rows)) * q.shape[-1] ** -0.5
    hidden = (distance < 0)[None, None]
    if pieces is not None:
        hidden = hidden | (pieces[:, None, :, None] != pieces[:, None, None, :])
    weights = logits.masked_fill(hidden, float("-inf")).softmax(-1)
    return (weights if kept is None else weights * kept) @ v
