"""``musictx doctor``: print this machine's software, its hardware, and the implementations that are
used on it, with reasons; test attention."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import torch

from musictx import attention, bundle, registry, shipped
from musictx.apps.results import print_line
from musictx.attention import api
from musictx.attention.job import Job, Setting
from musictx.attention.terms import Axis, Span, Terms
from musictx.commands import NoOptions
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.sampling import engine
from musictx.tokens.vocab import BOS
from musictx.training.trainer import precision

#: The duration of the composing in the self-test, seconds.
SECONDS = 5.0
#: The largest allowed relative error of attention.
MAX_ERROR = {torch.float32: 0.01, torch.bfloat16: 0.02}


def run(config: NoOptions) -> None:
    """Print the report. Raises ``UserError`` if the self-test fails."""
    device = bundle.choose_device("auto")
    piano = bundle.load(shipped.models()["piano"], device=str(device)).model
    checks = [(name, registry.load(path)()) for name, path in sorted(registry.CHECKS.items())]
    for title, text in (*_machine(), *checks, *_implementations(device, piano)):
        print_line(f"{title:<11} {text}")
    for dtype, max_error in MAX_ERROR.items():
        if not all(error < max_error for error in _errors(device, dtype)):  # also for NaN
            raise UserError(
                f"self-test: attention on this machine is wrong in {dtype}; use "
                "model.attention=reference, and report this output"
            )
    print_line(f"{'self-test':<11} attention and its gradients are correct")
    print_line(f"{'':<11} {_composing_speed(piano)}")


def _machine() -> Iterator[tuple[str, str]]:
    versions = (f"{name} {metadata.version(name)}" for name in ("torch", "numpy"))
    yield "software", f"Python {platform.python_version()}, {', '.join(versions)}, in {sys.prefix}"
    yield "system", f"{platform.system()} {platform.release()}, {platform.machine()}"
    widest = torch.backends.cpu.get_cpu_capability()
    yield "CPU", f"{cpu_name()}; torch uses {widest} and {torch.get_num_threads()} threads"
    gpus = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    mps = torch.backends.mps.is_available()
    yield "GPU", ", ".join(gpus) or ("Apple GPU (MPS), untested by the authors" if mps else "none")


def cpu_name() -> str:
    """Return the name of the processor or, if it is unknown, of its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _implementations(device: torch.device, piano: MusicTransformer) -> Iterator[tuple[str, str]]:
    yield "device", f"{device.type}: the default of device="
    yield "precision", f"{precision('fast', 'auto')}: trainer.precision=fast, the fastest here"
    q = torch.zeros(1, 1, 8, 64, device=device)
    terms, span = Terms(0.125, (Axis(torch.zeros(1, 8, 64, device=device), high=7),)), Span(0, 8)
    implementation = api.choose("auto", Job.of(terms, Setting((span,), (span,)), q))
    yield "attention", f"{implementation}: model.attention=auto, with relative positions"
    for name in registry.ATTENTION:
        if name not in (implementation, "decode"):
            reason = api.why_not(name, terms, q=q) or "auto prefers another"
            yield "", f"not {name}: {reason}"
    yield "step", f"{engine.cache_name('auto', piano)}: how the model piano computes its next token"


def _errors(device: torch.device, dtype: torch.dtype) -> list[float]:
    """Return the relative errors of the output and gradients of attention with
    ``implementation=auto`` in ``dtype``, compared with the reference in float32."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, 2, 200, 64)] * 3 + [(2, 200, 64)]  # q, k, v, and a table of relative positions
    inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    results = []
    for implementation, precise in (("auto", dtype), ("reference", torch.float32)):
        leaves = [x.to(device, dtype).to(precise).requires_grad_() for x in inputs]
        q, k, v, table = leaves
        terms = Terms(0.125, (Axis(table, high=199),))
        out = attention.attend(q, k, v, terms, implementation=implementation)
        gradients = torch.autograd.grad(out.float().square().sum(), leaves)
        results.append([x.detach().float() for x in (out, *gradients)])
    return [float((actual - right).norm() / right.norm()) for actual, right in zip(*results)]


def _composing_speed(piano: MusicTransformer) -> str:
    """Compose for :data:`SECONDS` with the model piano; describe the speed."""
    begin, seconds, count = time.perf_counter(), 0.0, 0
    for _ in engine.generate(piano, [BOS], max_tokens=10**6, seeds=[0]):
        count += 1
        seconds = time.perf_counter() - begin
        if seconds > SECONDS:
            break
    return f"{count} tokens of piano music in {seconds:.1f} s: {count / seconds:.0f} per second"
