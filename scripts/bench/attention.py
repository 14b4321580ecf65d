"""Compare time and memory of implementations of causal relative attention.

    python -m scripts.bench.attention lengths=512,1024,2048 repeats=9
    python -m scripts.bench.attention device=cuda dtype=bfloat16 tokens=32768 \
        lengths=2048,4096,512 distances=0,512 dense_limit=4500 results=FILE.csv     # two minutes

Candidates (``only=`` chooses):

    textbook   the skew of Huang et al. (2018), every operation in the dtype of q (L x L)
    reference  attention/reference.py, the specification (L x L), on the CPU
    chunked    speed/chunked, on the CPU
    native     speed/native, in C++, on the CPU; left out where there is no compiler
    triton     speed/fused without speed/cuda, on CUDA
    cuda       speed/fused with speed/cuda, in CUDA C++, on CUDA
    sdpa       torch's attention WITHOUT the relative term: the limit to compare with

``distances`` is the number of rows in the table of distances; 0: as many as tokens. First the
output and gradients of each candidate are compared with the specification in float64, also with
several pieces in a row; the error may be 1.5 times that of dense attention in the same dtype. If it
is larger, the exit status is 1. Then the candidates are timed in turns, so that other work on the
machine affects all of them. On CUDA, events measure the time of the GPU; each measurement begins
with a pause, so that the CPU launches all kernels before it ends.

Prints medians, quartiles, the ratio of medians to sdpa and, on the CPU, the peak memory beyond
inputs and gradients, measured in a separate process. Dense candidates are left out if their logits
alone exceed ``dense_limit`` MB; candidates that raise an exception are reported and left out. For
Nsight Compute: ``only=cuda repeats=0``.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention import Axis, Terms, attend, why_not
from musictx.speed.cuda import kernel
from scripts.bench.common import milliseconds, record, short, spread
from scripts.harness import run

DENSE = ("textbook", "reference")
PASSES = ("forward", "forward+backward")
#: The names of what :func:`step` returns.
TENSORS = ("out", "dq", "dk", "dv", "dtable")
Candidate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Shape:
    """The sizes of an attention; ``rows`` are those of the table of distances."""

    device: str
    dtype: str
    batch: int
    heads: int
    length: int
    size: int
    rows: int

    def inputs(self) -> tuple[list[Tensor], Tensor]:
        """q, k, v and the table, and the gradient of the output."""
        torch.manual_seed(0)
        options = {"device": self.device, "dtype": getattr(torch, self.dtype)}
        shape = (self.batch, self.heads, self.length, self.size)
        tensors = [torch.randn(shape, **options) for _ in range(3)]
        tensors.append(torch.randn(self.heads, self.rows, self.size, **options) * 0.1)
        return [t.requires_grad_() for t in tensors], torch.randn(shape, **options)


def terms_of(table: Tensor) -> Terms:
    return Terms(table.shape[-1] ** -0.5, (Axis(table=table, high=table.shape[1] - 1),))


def textbook(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """The skew of Huang et al. (2018), section 3.4.1, every operation in the dtype of q."""
    length = q.shape[2]
    (axis,) = terms_of(table).axes
    rows = axis.descending(table, length)
    moved = F.pad(q @ rows.transpose(-1, -2), (1, 0)).reshape(*q.shape[:2], length + 1, length)
    logits = (q @ k.transpose(-1, -2) + moved[:, :, 1:]) * q.shape[-1] ** -0.5
    hidden = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    return logits.masked_fill(hidden, float("-inf")).softmax(-1) @ v


def plain(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def ours(name: str, pieces: Tensor | None = None) -> Candidate:
    """An implementation of musictx; the names ``triton`` and ``cuda`` are kernels of ``fused``."""
    fused = name in ("triton", "cuda")

    def attention(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        kernel.enabled = name == "cuda" if fused else None
        by_name = "fused" if fused else name
        marks = {"query_pieces": pieces, "key_pieces": pieces}
        out = attend(q, k, v, terms_of(table), implementation=by_name, **marks)
        if name == "cuda" and kernel.FAILED:
            raise RuntimeError(f"left to Triton: {kernel.FAILED}")
        return out

    return attention


def candidates(shape: Shape, only: Sequence[str], dense_limit: float) -> dict[str, Candidate]:
    every: dict[str, Candidate] = {"textbook": textbook}
    if shape.device == "cuda":
        every |= {name: ours(name) for name in ("triton", "cuda")}
    else:
        every |= {name: ours(name) for name in ("reference", "chunked")}
        probe = torch.zeros(1, 1, 1, shape.size, dtype=getattr(torch, shape.dtype))
        if reason := why_not("native", terms_of(probe[0]), q=probe):
            print(f"without native: {reason}")
        else:
            every["native"] = ours("native")
    every["sdpa"] = plain
    fits = 4e-6 * shape.batch * shape.heads * shape.length**2 <= dense_limit
    return {
        name: candidate
        for name, candidate in every.items()
        if (fits or name not in DENSE) and (not only or name in only)
    }


def step(attention: Candidate, tensors: list[Tensor], upstream: Tensor) -> list[Tensor]:
    """The output, and the gradients of q, k, v and table."""
    out = attention(*tensors)
    gradients = torch.autograd.grad(out, tensors, upstream, allow_unused=True)
    wholes = (torch.zeros_like(t) if g is None else g for t, g in zip(tensors, gradients))
    return [out.detach(), *wholes]


def find_errors(shape: Shape, runs: dict[str, Candidate]) -> list[str]:
    """Compare outputs and gradients with the specification, with at most 512 tokens; return the
    errors that are too large.

    Implementations of musictx are compared with several pieces in a row, too. Candidates that raise
    an exception are removed from ``runs``.
    """
    length = min(shape.length, 512)
    shape = replace(shape, batch=2, length=length, rows=min(shape.rows, length))
    tensors, upstream = shape.inputs()
    doubles = [t.detach().double().requires_grad_() for t in tensors]
    dense = step(textbook, tensors, upstream)
    packed = torch.randint(0, 3, (2, length), device=shape.device).sort(1)[0]
    allowed: list[float] = []
    errors = []
    for pieces in (None, packed):
        exact = step(ours("reference", pieces), doubles, upstream.double())
        eps = 8 * torch.finfo(dense[0].dtype).eps
        allowed = allowed or [max(1.5 * relative_error(x, y), eps) for x, y in zip(dense, exact)]
        for name in [*runs]:
            if name == "sdpa" or (pieces is not None and name == "textbook"):
                continue
            candidate = textbook if name == "textbook" else ours(name, pieces)
            try:
                outputs = step(candidate, tensors, upstream)
            except Exception as failure:
                print(f"without {name}: {short(failure)}")
                del runs[name]
                continue
            for part, x, y, most in zip(TENSORS, outputs, exact, allowed):
                error = relative_error(x, y)
                if not error <= most:  # also if it is nan
                    errors.append(f"{name}, {part}: error {error:.2e}, allowed {most:.2e}")
    return errors


def relative_error(x: Tensor, exact: Tensor) -> float:
    return float((x.double() - exact).norm() / exact.norm())


def in_turns(
    functions: dict[str, Callable[[], object]], repeats: int, device: torch.device
) -> dict[str, list[float]]:
    """The sorted milliseconds of each function, called ``repeats`` times in turns after a warm-up.
    Functions that raise an exception are left out."""
    times_of: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(repeats + 1):
        for name in list(times_of):
            try:
                took = milliseconds_of(functions[name], device)
            except Exception as error:
                print(f"without {name}: {short(error)}")
                del times_of[name]
                continue
            if turn:
                times_of[name].append(took)
    return {name: sorted(times) for name, times in times_of.items() if times}


def milliseconds_of(function: Callable[[], object], device: torch.device) -> float:
    if device.type != "cuda":
        return milliseconds(function, device)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(3_000_000)
    first.record()
    function()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last)


def extra_megabytes(name: str, shape: Shape) -> float:
    """The peak memory of one step beyond the memory of this process before it (Linux)."""
    tensors, upstream = shape.inputs()
    attention = candidates(shape, [name], float("inf"))[name]
    step(attention, *replace(shape, length=16).inputs())  # loads libraries
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak_memory()
    step(attention, tensors, upstream)
    return peak_memory() - before


def peak_memory() -> float:
    """Highest resident memory in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


def memory_of(name: str, shape: Shape) -> str:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return f"{pool.submit(extra_megabytes, name, shape).result():.0f}"


def main(  # noqa: PLR0913 - the words of the script
    device: str = "cpu",
    dtype: str = "float32",
    lengths: Sequence[int] = (512, 1024, 2048),
    distances: Sequence[int] = (0,),
    batch: int = 1,
    tokens: int = 0,
    heads: int = 8,
    size: int = 64,
    repeats: int = 9,
    only: Sequence[str] = (),
    dense_limit: float = 1000,
    memory: bool = True,
    threads: int = 0,
    results: Path | None = None,
) -> int:
    memory = memory and device == "cpu"
    torch.set_num_threads(threads or torch.get_num_threads())
    print("length rows pass              candidate    ms (quartiles)".ljust(74) + "x sdpa     MB")
    for length, rows in [(n, rows or n) for rows in distances for n in lengths]:
        count = max(1, tokens // length) if tokens else batch
        shape = Shape(device, dtype, count, heads, length, size, rows)
        runs = candidates(shape, only, dense_limit)
        if errors := find_errors(shape, runs):
            print(*(f"WRONG {error}" for error in errors), sep="\n")
            return 1
        tensors, upstream = shape.inputs()
        for which in PASSES:
            functions: dict[str, Callable[[], object]]
            functions = {name: partial(run, *tensors) for name, run in runs.items()}
            if which != "forward":
                functions = {n: partial(step, run, tensors, upstream) for n, run in runs.items()}
            with torch.set_grad_enabled(which != "forward"):
                times = in_turns(functions, repeats, torch.device(device))
            for name, each in times.items():
                low, middle, high = spread(each)
                ratio = f"{middle / spread(times['sdpa'])[1]:6.2f}" if "sdpa" in times else " -"
                extra = memory_of(name, shape) if memory and which != "forward" else "-"
                print(
                    f"{length:6} {rows:4} {which:17} {name:12} {middle:9.3f} "
                    f"({low:.3f}-{high:.3f})".ljust(74)
                    + f"{ratio} {extra:>6}",
                    flush=True,
                )
                named = which + ("" if rows == length else f", {rows} distances")
                record(
                    results, torch.device(device), each, implementation=name, batch=count,
                    heads=heads, length=length, size=size, dtype=dtype, extra_peak_mb=extra,
                    **{"pass": named},
                )  # fmt: skip
    return 0


if __name__ == "__main__":
    run(main)
