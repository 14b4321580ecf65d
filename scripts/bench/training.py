"""How long a step of training takes, and where it spends a GPU's time.

    python -m scripts.bench.training shards=DIR results=FILE.csv trace=FOLDER [budget=110]
    python -m scripts.bench.training rehearse=true            # tiny, on the CPU

Trains ``experiment=`` (the piano's: ``maestro/best``, dropout, features and tasks included) on
windows of ``shards=``, drawn before, or on random ids where none are named. A step is that of
``LitMusicTransformer`` with clipping, optimizer and averages, outside of Lightning. Timed in turns
are, as far as ``only=`` names them:

    as it is
    without features, without dropout    what these cost
    compiled       the layers by torch.compile
    features       the layers and what the features read, embed and score by torch.compile
    graph          the whole step as one CUDA graph
    all            compiled, features, graph
    rows           twice as many windows a step

Then one step by torch.profiler: the kernels that take longest, and when none ran. What raises is
left out, with a line; nothing new begins after ``budget`` seconds. The table comes last; its losses
of the first steps must be alike, but for cases with other data, features or dropout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from musictx.apps.train import modules
from musictx.compose import compose
from musictx.data.draw import TrainingBatches
from musictx.data.shards import Shards
from musictx.data.windows import Batch
from musictx.model.features.base import Feature
from musictx.tokens.build import build
from musictx.training.lit import SCALE, LitMusicTransformer, batch_seed
from musictx.training.network import build_model
from musictx.training.optimizer import build_optimizer
from scripts.bench.common import milliseconds, record, say, seconds, short, spread
from scripts.harness import run

SMALL = ["model.layers=2", "model.width=64", "model.heads=2", "model.feedforward=64",
         "model.context=96", "position.max_distance=32"]  # fmt: skip
LR, KEEP = 5e-3, 0.995
CASES = ("as it is", "without features", "compiled", "graph", "features", "all", "rows",
         "without dropout")  # fmt: skip
#: Batches that are drawn; steps timed at once, and compared.
BATCHES, STEPS = 4, 4


class Case:
    """A network, its optimizer and averages, and how a step is computed."""

    def __init__(self, name: str, config: Any, tokenizer: Any, batches: list[Batch]) -> None:
        self.name, self.batches = name, batches
        self.device = batches[0].ids.device
        features = [] if name == "without features" else config.model.features
        dropout = 0.0 if name == "without dropout" else config.model.dropout
        shape = dataclasses.replace(config.model, features=features, dropout=dropout)
        config = dataclasses.replace(config, model=shape)
        self.model = build_model(config, tokenizer).to(self.device)
        optim = {**dataclasses.asdict(config.optim), "lr": LR}
        self.lit = LitMusicTransformer(self.model.config.plain(), optim, model=self.model)
        self.optimizer = build_optimizer(self.model, optim, fused=self.device.type == "cuda")
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.means = [p.detach().clone() for p in self.parameters]
        if name == "rows":
            pairs = zip(batches, batches[1:] + batches[:1])
            self.batches = [Batch(*map(torch.cat, zip(*pair))) for pair in pairs]
        if name in ("compiled", "features", "all"):
            for block in self.model.blocks:
                compile_method(block, "forward")
        if name in ("features", "all"):
            for feature in self.model.features:
                for method in ("read", "embed", "score"):
                    if getattr(type(feature), method) is not getattr(Feature, method):
                        compile_method(feature, method)
        self.graph: Any = None
        self.losses = [float(self.step(number)) for number in range(STEPS)]
        if name in ("graph", "all") and self.device.type == "cuda":
            self.capture()
        self.times: list[float] = []

    def step(self, number: int) -> Tensor:
        """The loss of step ``number``, on the device."""
        batch = self.batches[number % len(self.batches)]
        torch.manual_seed(batch_seed(0, 0, number))
        if self.graph is None:
            return self.learn(batch)
        for held, new in zip(self.held, batch):
            held.copy_(new)
        self.graph.replay()
        return self.loss

    def learn(self, batch: Batch) -> Tensor:
        """As Lightning and ``LitMusicTransformer`` do it."""
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, torch.bfloat16):
            nats, targets = self.lit._score(batch)
        (nats * SCALE).backward()
        with torch.no_grad():
            gradients = [p.grad for p in self.parameters if p.grad is not None]
            torch._foreach_mul_(gradients, 1 / SCALE / targets.clamp(min=1))
            nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.means, self.parameters, 1 - KEEP)
        return nats.detach() / targets.clamp(min=1)

    def capture(self) -> None:
        """The whole step as a CUDA graph, after steps on another stream."""
        self.held = Batch(*(x.clone() for x in self.batches[0]))
        for group in self.optimizer.param_groups:
            group["capturable"] = True
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.learn(Batch(*(x.clone() for x in self.held)))
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            # Clones: what is remembered of the pieces of earlier batches is made again.
            self.loss = self.learn(Batch(*(x.clone() for x in self.held)))
        self.graph = graph

    def turn(self) -> None:
        took = milliseconds(lambda: [self.step(n) for n in range(STEPS)], self.device)
        self.times.append(took / STEPS)


def compile_method(of: nn.Module, name: str) -> None:
    backend = "inductor" if next(of.parameters()).is_cuda else "aot_eager"  # needs no compiler
    setattr(of, name, torch.compile(getattr(of, name), dynamic=False, backend=backend))


def drawn(config: Any, tokenizer: Any, shards: Path | None, rows: int) -> list[Batch]:
    """Batches of windows as training draws them; without shards of random ids."""
    context = config.model.context
    if shards is None:
        torch.manual_seed(0)
        ids = torch.randint(4, tokenizer.size, (BATCHES, rows, context + 1))
        pieces = torch.arange(context).expand(rows, -1) // (context // 2)
        return [Batch(each[:, :-1], each[:, 1:], pieces) for each in ids]
    _, data = modules(config, build_model(config, tokenizer), tokenizer, Shards(shards), say)
    windows = TrainingBatches(data.rows, rows)
    return [windows.make(number) for number in range(BATCHES)]


def profile(case: Case, trace: Path | None) -> None:
    """Prints the kernels of one step that take longest, and how long any ran."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    gpu = case.device.type == "cuda"
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * gpu
    with profiler(activities=kinds) as profiled:
        took = milliseconds(lambda: case.step(1), case.device)
    if trace:  # for chrome://tracing
        trace.mkdir(parents=True, exist_ok=True)
        profiled.export_chrome_trace(str(trace / "step.json.gz"))
    kernels: dict[str, list[float]] = {}
    busy, end = 0.0, 0.0
    events = [e for e in profiled.events() if gpu == ("CUDA" in str(e.device_type))]
    for event in sorted(events, key=lambda event: event.time_range.start):
        span = event.time_range
        kernels.setdefault(event.name, []).append(span.elapsed_us() / 1e3)
        busy += max(0.0, span.end - max(span.start, end)) / 1e3
        end = max(end, span.end)
    say(f"{took:.1f} ms with the profiler, {busy:.1f} of them in {len(events)} kernels")
    for name, times in sorted(kernels.items(), key=lambda item: -sum(item[1]))[:18]:
        print(f"  {sum(times):8.2f} ms {len(times):5} x  {name[:110]}", flush=True)


def main(
    experiment: str = "maestro/best",
    shards: Path | None = None,
    rows: int = 32,
    turns: int = 5,
    budget: float = 110,
    only: Sequence[str] = CASES,
    trace: Path | None = None,
    results: Path | None = None,
    rehearse: bool = False,
) -> None:
    if rehearse:
        rows, turns = 2, 1
    gpu = torch.cuda.is_available() and not rehearse
    device = torch.device("cuda" if gpu else "cpu")
    config = compose("train", [f"experiment={experiment}", *(SMALL if rehearse else [])])
    tokenizer = build(**dataclasses.asdict(config.tokenizer))
    batches = [
        Batch(*(x.to(device).contiguous() for x in batch))
        for batch in drawn(config, tokenizer, shards, rows)
    ]
    cases: dict[str, Case] = {}

    def attempt(name: str, act: Callable[[], object]) -> None:
        """``act``, or a line why not."""
        try:
            if seconds() > budget:
                raise TimeoutError("no time left")
            act()
            say(name)
        except Exception as error:
            say(f"{name}: {short(error)}")

    def ready(name: str) -> None:
        cases[name] = Case(name, config, tokenizer, batches)

    for name in only:
        attempt(name, lambda name=name: ready(name))
    for _ in range(turns):
        for name, case in cases.items():
            attempt(f"a turn of {name}", case.turn)
    if "as it is" in cases:
        attempt("profile", lambda: profile(cases["as it is"], trace))
    print(f"\n{'':18} {'ms a step':>22} {'tokens/s':>12}  losses of the first steps")
    for name, case in cases.items():
        if not case.times:
            continue
        case.times.sort()
        low, middle, high = spread(case.times)
        count, length = case.batches[0].ids.shape
        losses = " ".join(f"{loss:.4f}" for loss in case.losses)
        line = f"{name:18} {middle:8.2f} ({low:.2f}-{high:.2f})".ljust(42)
        print(f"{line}{count * length / middle * 1e3:12,.0f}  {losses}")
        shape = case.model.config
        record(
            results, device, case.times, implementation=f"training, {name}", batch=count,
            heads=shape.heads, length=length, dtype="bf16-mixed", size=shape.width // shape.heads,
            **{"pass": "step"},
        )  # fmt: skip


if __name__ == "__main__":
    run(main)
