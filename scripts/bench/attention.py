"""Time and memory of relative attention, side by side in one run.

    python scripts/bench/attention.py --length 1024 2048 --batch 1 --repeats 9

Candidates, all causal self-attention, forward + backward with gradients of everything:

    textbook   the skew of Huang et al. (2018): a padded copy of Q E^T, reshaped (dense)
    reference  attention/reference.py, the specification (dense)
    chunked    attention/chunked
    native     attention/native, in C++; left out where there is no compiler
    sdpa       torch's own attention WITHOUT the relative term: the limit to compare with

Before anything is timed the candidates must agree in this process, outputs and gradients. The
candidates take turns, so that whatever else the machine does meets all of them; printed are the
median, the quartiles and the ratios of medians to chunked and to sdpa. Peak memory (beyond inputs
and gradients) is measured in a process of its own for each candidate. Dense candidates are left out
where their logits alone would pass ``--dense-limit`` MB. ``--results FILE`` appends what was
measured to a CSV file. A sweep that shows time as L^2 and memory as L:

    python scripts/bench/attention.py --length 512 1024 2048 4096 8192 16384 --repeats 3
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention import native
from musictx.attention.api import attend
from musictx.attention.terms import Axis, Span, Terms
from musictx.errors import UserError

DENSE = ("textbook", "reference")
NAMES = ("textbook", "reference", "chunked", "native", "sdpa")


def textbook(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """Relative global attention as the paper draws it (figure 1, section 3.4.1)."""
    length, distances = q.shape[2], table.shape[1]
    near = table[:, :length].flip(1)
    if length > distances:
        far = table[:, -1:].expand(-1, length - distances, -1)
        near = torch.cat([far, near], dim=1)
    product = F.pad(q @ near.transpose(-1, -2), (1, 0))
    relative = product.reshape(*q.shape[:2], length + 1, length)[:, :, 1:]
    logits = (q @ k.transpose(-1, -2) + relative) * q.shape[-1] ** -0.5
    later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    return logits.masked_fill(later, float("-inf")).softmax(-1) @ v


def candidate(name: str) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    if name == "textbook":
        return textbook

    def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        axes = () if name == "sdpa" else (Axis(table=table, high=table.shape[1] - 1),)
        terms = Terms(scale=q.shape[-1] ** -0.5, axes=axes)
        if name == "native":
            return native.attend(q, k, v, terms)
        span = Span(0, q.shape[2])
        return attend(
            q,
            k,
            v,
            terms,
            query_positions=span,
            key_positions=span,
            implementation=name,
        )

    return run


def inputs(length: int, args: argparse.Namespace) -> tuple[list[Tensor], Tensor]:
    torch.manual_seed(0)
    dtype = getattr(torch, args.dtype)
    shape = (args.batch, args.heads, length, args.size)
    options = {"device": args.device, "dtype": dtype}
    tensors = [torch.randn(shape, **options) for _ in range(3)]
    tensors.append(torch.randn(args.heads, args.table or length, args.size, **options) * 0.1)
    return [t.requires_grad_() for t in tensors], torch.randn(shape, **options)


def step(name: str, tensors: list[Tensor], upstream: Tensor) -> list[Tensor]:
    out = candidate(name)(*tensors)
    wanted = tensors[:3] if name == "sdpa" else tensors
    return [out, *torch.autograd.grad(out, wanted, upstream)]


def native_works() -> bool:
    """Whether it does; if not, the reason is printed. Builds it if need be."""
    try:
        native.library.load()
    except UserError as error:
        print(f"without native: {error}")
        return False
    return True


def wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def check(length: int, args: argparse.Namespace, names: list[str]) -> None:
    """Everything relative agrees with the reference at this length, or at 512 if it is too long."""
    short = length if "reference" in names else 512
    tensors, upstream = inputs(short, args)
    truth = step("reference", tensors, upstream)
    tolerance = 1e-4 if tensors[0].dtype == torch.float32 else 3e-2
    for name in [n for n in names if n not in ("reference", "sdpa")]:
        for index, (got, want) in enumerate(zip(step(name, tensors, upstream), truth)):
            error = (got - want).float().norm() / want.float().norm()
            if not error < tolerance:
                sys.exit(f"{name} disagrees with reference, tensor {index}: {error:.2e}")


def seconds(length: int, args: argparse.Namespace, names: list[str]) -> dict[str, list[float]]:
    tensors, upstream = inputs(length, args)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(args.repeats + 1):
        for name in names:
            wait(args.device)
            begin = time.perf_counter()
            step(name, tensors, upstream)
            wait(args.device)
            if turn:  # the first turn warms up
                times[name].append(time.perf_counter() - begin)
    return times


def peak_megabytes(length: int, args: argparse.Namespace, name: str) -> float:
    """Extra peak memory of one step, measured in a process of its own."""
    command = [sys.executable, __file__, "--measure", name, "--length", str(length)]
    for key in ("batch", "heads", "size", "table", "threads", "device", "dtype"):
        command += [f"--{key}", str(getattr(args, key))]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(answer.stdout))


def measure(args: argparse.Namespace) -> float:
    tensors, upstream = inputs(args.length[0], args)
    small, little = inputs(16, args)
    step(args.measure, small, little)  # libraries and threads are there
    if args.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step(args.measure, tensors, upstream)
        wait(args.device)
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    before = peak_rss()
    step(args.measure, tensors, upstream)
    return peak_rss(reset=False) - before


def peak_rss(reset: bool = True) -> float:
    """Highest resident memory so far in MB, forgetting what was before now if ``reset``.

    From /proc, so Linux only: getrusage would carry over the peak of the parent process.
    """
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


COLUMNS = (
    *("date", "machine", "threads", "torch", "commit", "implementation", "batch", "heads"),
    *("length", "size", "dtype", "pass", "median_ms", "spread_ms", "extra_peak_mb"),
)


def machine(device: str) -> str:
    """What kind of processor did the work."""
    if device.startswith("cuda"):
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


def record(args: argparse.Namespace, row: dict[str, object]) -> None:
    """Appends a row to ``--results``, with the columns' names if the file is new."""
    path = Path(args.results)
    everywhere = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(args.device),
        "torch": torch.__version__,
        "commit": commit(),
        "pass": "forward+backward",
    }
    everywhere |= {name: getattr(args, name) for name in ("threads", "batch", "heads", "size")}
    everywhere |= {"dtype": args.dtype}
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(everywhere | row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--length", type=int, nargs="+", default=[512, 1024, 2048], help="tokens")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--size", type=int, default=64, help="numbers in a head")
    parser.add_argument("--table", type=int, default=0, help="distances; 0 = as many as tokens")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--dense-limit", type=float, default=1000.0, help="MB of logits")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="candidates")
    parser.add_argument("--no-memory", action="store_true", help="time only")
    parser.add_argument("--results", help="CSV file to append to")
    parser.add_argument("--measure", choices=NAMES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.measure:
        print(json.dumps(measure(args)))
        return

    where = torch.cuda.get_device_name() if args.device.startswith("cuda") else args.device
    load = os.getloadavg()[0]
    print(
        f"torch {torch.__version__}, {where}, {args.threads} threads, load {load:.1f}, "
        f"{args.dtype}, batch {args.batch}, heads {args.heads}, head size {args.size}, "
        f"median of {args.repeats}"
    )
    wanted = [n for n in NAMES if n in args.only]
    if "native" in wanted and (args.device != "cpu" or not native_works()):
        wanted.remove("native")
    print("length  candidate    ms (quartiles)           x chunked   x sdpa   extra peak MB")
    for length in args.length:
        logits = 4e-6 * args.batch * args.heads * length**2
        names = [n for n in wanted if n not in DENSE or logits <= args.dense_limit]
        check(length, args, names)
        times = seconds(length, args, names)
        medians = {name: 1e3 * statistics.median(t) for name, t in times.items()}
        for name in names:
            ms = sorted(1e3 * t for t in times[name])
            low, high = ms[len(ms) // 4], ms[-1 - len(ms) // 4]
            memory = "-" if args.no_memory else f"{peak_megabytes(length, args, name):.0f}"
            ratios = [
                f"{medians[name] / medians[to]:9.2f}" if to in medians else "        -"
                for to in ("chunked", "sdpa")
            ]
            print(
                f"{length:6d}  {name:10s} {medians[name]:8.1f} ({low:.1f} - {high:.1f})".ljust(44)
                + f"{' '.join(ratios)} {memory:>14s}",
                flush=True,
            )
            if args.results:
                found = {"implementation": name, "length": length, "extra_peak_mb": memory}
                found |= {"median_ms": f"{medians[name]:.1f}", "spread_ms": f"{low:.1f}-{high:.1f}"}
                record(args, found)


if __name__ == "__main__":
    main()
