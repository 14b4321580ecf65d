"""Time and memory of causal relative attention, side by side in one run.

    python -m scripts.bench.attention lengths=512,1024,2048 repeats=9
    python -m scripts.bench.attention device=cuda dtype=bfloat16 tokens=32768 results=results.csv
    python -m scripts.bench.attention rehearse=true                 # tiny, within seconds

Candidates (``only=`` chooses):

    textbook   the skew of Huang et al. (2018), every operation in the dtype of q (L x L)
    reference  attention/reference.py, the specification (L x L)
    chunked    attention/chunked
    native     speed/native, in C++, on the CPU; left out where there is no compiler
    fused      speed/fused, in Triton, on CUDA
    flex       FlexAttention reading relative logits that were computed before, on CUDA (L x L)
    sdpa       torch's own attention WITHOUT the relative term: the limit to compare with

Before anything is timed, output and gradients of each candidate are compared with the specification
in float64. Its error may be 1.5 times that of dense attention in the same dtype, or rounding.
Candidates then take turns; printed are medians, quartiles, ratios of medians to chunked and sdpa,
and peak memory beyond inputs and gradients (on the CPU measured in a process of its own). Dense
candidates are left out where their logits alone would pass ``dense_limit`` MB. Ends with status 1
if anything was not correct.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention import Axis, Terms, attend, why_not
from scripts.bench.common import in_turns, record, spread, wait
from scripts.words import options, several
from scripts.words import run as script

DEFAULTS = {
    "device": "cpu", "dtype": "float32", "lengths": "512,1024,2048", "batch": "1", "tokens": "0",
    "heads": "8", "size": "64", "distances": "0", "repeats": "7", "only": "",
    "dense_limit": "1000", "memory": "true", "threads": "0", "measure": "",
    "results": "",
}  # fmt: skip
TINY = {"lengths": "64,128", "heads": "2", "size": "16", "repeats": "1", "memory": "false"}
DENSE = ("textbook", "reference", "flex")
Candidate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


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


def flex(length: int, device: torch.device) -> Candidate:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i >= j

    mask = create_block_mask(causal, None, None, length, length, device=str(device))
    compiled = torch.compile(flex_attention, dynamic=False)

    def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        product = q @ table.to(q.dtype).transpose(-1, -2)
        scale, last = q.shape[-1] ** -0.5, table.shape[1] - 1

        def moved(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + scale * product[b, h, i, (i - j).clamp(0, last)]

        found: Tensor = compiled(q, k, v, score_mod=moved, block_mask=mask, scale=scale)
        return found

    return run


def by_name(name: str) -> Candidate:
    def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        return attend(q, k, v, terms_of(table), implementation=name)

    return run


def candidates(length: int, given: dict[str, str]) -> dict[str, Candidate]:
    device, dtype = torch.device(given["device"]), getattr(torch, given["dtype"])
    found: dict[str, Candidate] = {"textbook": textbook, "reference": by_name("reference")}
    found["chunked"] = by_name("chunked")
    probe = torch.zeros(1, 1, 1, int(given["size"]), dtype=dtype, device=device)
    if device.type == "cpu":
        reason = why_not("native", terms_of(probe[0]), q=probe)
        if reason:
            print(f"without native: {reason}")
        else:
            found["native"] = by_name("native")
    if device.type == "cuda":
        found["fused"] = by_name("fused")
        found["flex"] = flex(length, device)
    found["sdpa"] = plain
    logits = 4e-6 * int(given["batch"]) * int(given["heads"]) * length**2
    fits = logits <= float(given["dense_limit"])
    only = several(given["only"])
    return {
        name: run
        for name, run in found.items()
        if (fits or name not in DENSE) and (not only or name in only)
    }


def inputs(length: int, given: dict[str, str]) -> tuple[list[Tensor], Tensor]:
    """q, k, v and the table, and the gradient of the output."""
    torch.manual_seed(0)
    options = {"device": given["device"], "dtype": getattr(torch, given["dtype"])}
    heads, size = int(given["heads"]), int(given["size"])
    shape = (int(given["batch"]), heads, length, size)
    tensors = [torch.randn(shape, **options) for _ in range(3)]
    tensors.append(torch.randn(heads, int(given["distances"]) or length, size, **options) * 0.1)
    return [t.requires_grad_() for t in tensors], torch.randn(shape, **options)


def step(run: Candidate, tensors: list[Tensor], upstream: Tensor) -> list[Tensor]:
    out = run(*tensors)
    found = torch.autograd.grad(out, tensors, upstream, allow_unused=True)
    return [
        out.detach(),
        *(torch.zeros_like(t) if g is None else g for t, g in zip(tensors, found)),
    ]


def wrong(length: int, given: dict[str, str]) -> list[str]:
    """Candidates whose output or gradients miss the specification, at ``length`` or at 512."""
    length = min(length, 512)
    tensors, upstream = inputs(length, given)
    exact = step(
        by_name("reference"),
        [t.detach().double().requires_grad_() for t in tensors],
        upstream.double(),
    )
    dense = step(textbook, tensors, upstream)
    found = []
    for name, run in candidates(length, given).items():
        if name == "sdpa":
            continue
        for part, got, own, want in zip(
            ("out", "dq", "dk", "dv", "dtable"), step(run, tensors, upstream), dense, exact
        ):
            error, budget = ((x.double() - want).norm() / want.norm() for x in (got, own))
            allowed = max(1.5 * float(budget), 8 * torch.finfo(got.dtype).eps)
            if not float(error) <= allowed:
                found.append(f"{name}, {part}: error {error:.2e}, allowed {allowed:.2e}")
    return found


def peak_rss(reset: bool) -> float:
    """Highest resident memory in MB, forgetting what was before now if ``reset``; Linux."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


def extra_megabytes(name: str, length: int, given: dict[str, str]) -> float:
    """Peak memory of one step beyond what is held before it, in this process."""
    device = torch.device(given["device"])
    tensors, upstream = inputs(length, given)
    run = candidates(length, given)[name]
    step(run, *inputs(16 if device.type == "cpu" else length, given))  # libraries are there
    if device.type == "cuda":
        wait(device)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step(run, tensors, upstream)
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    before = peak_rss(reset=True)
    step(run, tensors, upstream)
    return peak_rss(reset=False) - before


def memory_of(name: str, length: int, given: dict[str, str]) -> str:
    if given["memory"] != "true":
        return "-"
    if given["device"] != "cpu":
        return f"{extra_megabytes(name, length, given):.0f}"
    words = [f"{k}={v}" for k, v in (given | {"lengths": str(length), "measure": name}).items()]
    command = [sys.executable, "-m", "scripts.bench.attention", *words]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"{json.loads(answer.stdout.splitlines()[-1]):.0f}"


def table(length: int, given: dict[str, str]) -> None:
    device = torch.device(given["device"])
    tensors, upstream = inputs(length, given)
    runs = candidates(length, given)
    passes = {
        "forward": {n: lambda run=run: run(*tensors) for n, run in runs.items()},
        "forward+backward": {
            n: lambda run=run: step(run, tensors, upstream) for n, run in runs.items()
        },
    }
    for which, functions in passes.items():
        with torch.set_grad_enabled(which != "forward"):
            times = in_turns(functions, int(given["repeats"]), device)
        for name, each in times.items():
            low, middle, high = spread(each)
            ratios = " ".join(
                f"{middle / spread(times[to])[1]:8.2f}" if to in times else "       -"
                for to in ("chunked", "sdpa")
            )
            memory = memory_of(name, length, given) if which != "forward" else "-"
            print(
                f"{length:6} {which:17} {name:12} {middle:9.2f} ({low:.2f}-{high:.2f})".ljust(70)
                + f"{ratios} {memory:>8}",
                flush=True,
            )
            shape = {x: given[x] for x in ("batch", "heads", "size", "dtype")}
            what = {"implementation": name, "length": length, "pass": which}
            record(given["results"], device, each, **shape, **what, extra_peak_mb=memory)


def main(words: list[str]) -> int:
    given = options(words, DEFAULTS, TINY)
    if int(given["threads"]):
        torch.set_num_threads(int(given["threads"]))
    lengths = [int(x) for x in several(given["lengths"])]
    if given["measure"]:
        print(json.dumps(extra_megabytes(given["measure"], lengths[0], given)))
        return 0
    print(
        "length pass              candidate    ms (quartiles)".ljust(70) + "x chunked  x sdpa   MB"
    )
    bad = []
    for length in lengths:
        if int(given["tokens"]):
            given["batch"] = str(max(1, int(given["tokens"]) // length))
        bad += wrong(length, given | {"batch": "2"})
        if not bad:
            table(length, given)
    for what in bad:
        print(f"WRONG {what}")
    return 1 if bad else 0


if __name__ == "__main__":
    script(main)
