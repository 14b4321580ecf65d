"""Whether the kernel of attention in CUDA C++ is right: the first part of attention_gpu.py."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from torch import Tensor

from musictx.speed import fused
from musictx.speed.cuda import compile, driver, kernel
from scripts.bench.attention import step

BEGIN = time.perf_counter()
BREAK = (1, 3)
FORWARD_BLOCKS = 0
#: Further macros of the backward kernels.
MORE: tuple[str, ...] = ()
BACKWARD = ("backward", *kernel.OVERLAPPED_SHARED)
#: Variants of the backward pass: (file, macros).
VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "now": ("", ()),
    "now32": ("", ("TOKENS_AT_ONCE=32768",)),
    "overlapped": ("overlapped", ("TOKENS_AT_ONCE=32768",)),
    "balanced": ("balanced", ("TOKENS_AT_ONCE=32768",)),
    "balanced16": ("balanced", ("TOKENS_AT_ONCE=16384",)),
    "spread": ("balanced", ()),
    "whole": ("balanced", ("TOKENS_AT_ONCE=32768", "WHOLE=1")),
    "no_sums": ("balanced", ("TOKENS_AT_ONCE=32768", "NO_SUMS=1")),  # wrong: to see what they take
}
#: Kernels that were started.
LAUNCHED: list[str] = []


def seconds() -> float:
    return time.perf_counter() - BEGIN


def say(line: str) -> None:
    print(f"[{seconds():5.1f}] {line}", flush=True)


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def variants() -> list[tuple[str, list[str]]]:
    """(kernel, macros) of all that is checked, the most used first."""
    shapes = [(64, 0, 0, 0), (64, 1, 0, 0), (64, 0, 1, 1), (64, 0, 1, 0), (64, 1, 0, 1)]
    shapes += [(size, half, 0, 0) for size in (32, 128) for half in (0, 1)]
    found = []
    for size, half, packed, drop in shapes:
        flags = [f"HEAD={size}", f"FLOAT16={half}", f"PACKED={packed}", f"DROP={drop}"]
        for name in ("forward", "backward"):
            if size in kernel.SIZES[name]:
                two = name == "forward" and not (packed or drop) and size <= 64
                for wgmma in (0, 1) if size == 64 else (0,):
                    more = [f"WGMMA={wgmma}", f"MIN_BLOCKS={2 if two else 1}"]
                    found.append((name, [*flags, *more]))
    broken = [(name, [*flags, f"BREAK_BARREL={n}"]) for name, flags in found[:4] for n in BREAK]
    found.append(("forward", [*found[1][1][:-1], "MIN_BLOCKS=1"]))
    return found + broken


def backward_variants() -> list[tuple[str, list[str]]]:
    """The same of the variants of the backward pass, and of what they need."""
    found: list[tuple[str, list[str]]] = []
    for half, packed, drop in ((0, 0, 0), (1, 0, 0), (0, 1, 1)):
        flags = ["HEAD=64", f"FLOAT16={half}", f"PACKED={packed}", f"DROP={drop}", "WGMMA=1"]
        found.append(("forward", [*flags, f"MIN_BLOCKS={1 if packed else 2}"]))
        for name, (file, more) in VARIANTS.items():
            if packed and name not in ("overlapped", "balanced"):
                continue
            if half and name not in ("overlapped", "balanced"):
                continue
            turned = ["TURNED=1"] if file else []
            found.append((file or "backward", [*flags, "MIN_BLOCKS=1", *turned, *more]))
    return [*found, ("finish", ["HEAD=64", "FLOAT16=0"]), ("finish", ["HEAD=64", "FLOAT16=1"])]


def with_blocks(defines: Any) -> Any:
    """``kernel.defines`` with FORWARD_BLOCKS blocks to a multiprocessor, if that is not 0."""

    def changed(name: str, p: Any) -> list[str]:
        found: list[str] = defines(name, p)
        if FORWARD_BLOCKS and name == "forward":
            found[-1] = f"MIN_BLOCKS={FORWARD_BLOCKS}"
        if name in BACKWARD:
            found += MORE
        return found

    return changed


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
    if bench.given["backward"] == "true":
        wanted = backward_variants()

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
        for name, flags in wanted[:4] if bench.given["backward"] != "true" else wanted[:9]:
            shared = 800 * 64 if name == "forward" else 1600 * 64 + 98304
            shared = kernel.OVERLAPPED_SHARED.get(name, shared)
            try:
                say(f"{name} {flags[4:]}: {driver.attributes(name, flags, shared, 0)}")
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
    variant = kind.get("variant", "now")
    run = bench.ours(True, not kind.get("mixed"), kind.get("wgmma", False), variant=variant, **more)
    bench.at = variant if "variant" in kind else "wgmma" if kind.get("wgmma") else "forward"
    torch.manual_seed(7)
    got = [run(*(x.detach() for x in tensors))]
    bench.wait()
    if kind.get("size", bench.size) in kernel.SIZES["backward"] or kind.get("mixed"):
        if not kind.get("wgmma"):
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
    with_groups = [case | {"wgmma": True} for case in cases if case.get("size", 64) == 64]
    good = True
    for case in (*cases, *(with_groups if bench.has("wgmma") else [])):
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


def check_variants(bench: Any) -> bool:
    """Whether the variants of the backward pass are right; those that are not are left out."""
    half = torch.float16
    cases: list[dict[str, Any]] = [{"length": 300, "rows": 100}, {"length": 130, "rows": 130}]
    if bench.gpu:
        cases += [
            {"length": 2000, "rows": 2000},
            {"length": 1001, "rows": 70, "heads": 3},
            {"length": 63, "rows": 500},
            {"length": 777, "rows": 301, "dtype": half},
            {"length": 900, "rows": 300, "packed": True, "dropout": 0.1},
        ]
    good = True
    for name in VARIANTS:
        if name == "whole" and bench.has("balanced"):
            bench.leave_out(name)
        if not bench.has(name) or name == "no_sums":
            continue
        for number, case in enumerate(cases):
            if number > 4 and name not in ("overlapped", "balanced"):
                continue
            try:
                errors = errors_of(bench, **case, wgmma=True, variant=name)
            except Exception as error:
                errors = {"out": float("inf")}
                say(f"WRONG {name} {case}: {short(error)}")
                if bench.gpu and "CUDA" in str(error):
                    bench.again_without()
            most = 2e-3 if case.get("dtype") == half else 1e-2
            right = all(e < most for e in errors.values()) and not kernel.FAILED
            if not right:
                bench.leave_out(name)
            named = " ".join(f"{what} {e:.1e}" for what, e in errors.items())
            say(f"{'right' if right else 'WRONG'} {name} {case}: {named} {kernel.FAILED or ''}")
            good = good and right
    return good


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
