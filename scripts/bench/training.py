"""Where a step of training spends a GPU's time, and what other ways to compute it would gain.

    python -m scripts.bench.training shards=DIR results=FILE.csv trace=FOLDER [budget=110]
    python -m scripts.bench.training rehearse=true            # tiny, on the CPU

Trains ``experiment=`` (the piano's: ``maestro/best``, dropout, features and tasks included) on
windows of ``shards=``, drawn before, or on random ids where none are named. A step is that of
``LitMusicTransformer`` with clipping, optimizer and averages, outside of Lightning; one line is by
Lightning. First one step by torch.profiler: the kernels that take longest, and when none ran. Then
steps without a part of the network (what it costs), and with remedies of
``scripts/bench/remedies.py``, alone and together, in turns; ``graph`` is the whole step as one CUDA
graph, ``rows`` twice as many windows. The losses of the first steps must be those of the step as it
is, and its weights must move alike: both are printed, with WRONG where they do not. ``compile``
draws other dropout: by how much that may differ, a second seed of the step as it is shows. What
raises is left out, with a line; nothing new begins after ``budget`` seconds. The table comes last.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from musictx.apps.train import modules
from musictx.attention import api
from musictx.compose import compose
from musictx.data.module import TrainingBatches
from musictx.data.shards import Shards
from musictx.data.windows import Batch
from musictx.model import block
from musictx.tokens.build import build
from musictx.training.callbacks import Ema
from musictx.training.lit import SCALE, LitMusicTransformer, batch_seed
from musictx.training.network import build_model
from musictx.training.optimizer import build_optimizer
from musictx.training.trainer import build_trainer, quiet
from scripts.bench import remedies
from scripts.bench.attention_check import begin, say, seconds, short
from scripts.bench.attention_gpu import at_most
from scripts.bench.common import milliseconds, record, spread
from scripts.words import options, run, several

DEFAULTS = {
    "experiment": "maestro/best", "shards": "", "rows": "32", "turns": "5", "steps": "4",
    "losses": "8", "budget": "110", "only": "", "trace": "", "results": "",
}  # fmt: skip
TINY = {"rows": "2", "turns": "1", "steps": "1", "losses": "2"}
SMALL = ["model.layers=2", "model.width=64", "model.heads=2", "model.feedforward=64",
         "model.context=96", "position.max_distance=32"]  # fmt: skip
LR = 5e-3
#: Name -> remedies, the most telling first; "without ...": without a part of the network.
CASES = {
    "as it is": "",
    "without features": "",
    "products": "products",
    "compile": "products,compile",
    "compile bf16": "products,compile,bf16",
    "graph": "products,graph",
    "features": "products,compile,bf16,features",
    "features graph": "products,compile,bf16,features,graph",
    "compile bf16 rows": "products,compile,bf16,rows",
    "without dropout": "",
    "features graph rows": "products,compile,bf16,features,graph,rows",
}
#: How far a loss may be from that of the step as it is, relative: by rounding in bfloat16, and with
#: other dropout.
ROUNDING, DROPPED = 2e-3, 2e-2
#: The least cosine between what the weights of the layers moved; with other dropout it is any.
ALIKE = 0.8
COMPILE_SECONDS = 40


class Case:
    """A network, its optimizer and averages, and how a step is computed."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench, self.name = bench, name
        self.remedies = several(CASES[name])
        config = bench.config
        features = [
            f for f in config.model.features
            if not (name == "without features" or name == f"without {f['name']}")
        ]  # fmt: skip
        dropout = 0.0 if name == "without dropout" else config.model.dropout
        model = dataclasses.replace(config.model, features=features, dropout=dropout)
        self.model = build_model(dataclasses.replace(config, model=model), bench.tokenizer)
        self.model = self.model.to(bench.device)
        optim = {**dataclasses.asdict(config.optim), "lr": LR}
        self.lit = LitMusicTransformer(self.model.config.plain(), optim, model=self.model)
        self.optimizer = build_optimizer(self.model, optim, fused=bench.gpu)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.first = [p.detach().clone() for p in self.parameters]
        self.means = [p.detach().clone() for p in self.parameters]
        self.batches = bench.batches
        if "rows" in self.remedies:
            pairs = zip(self.batches, self.batches[1:] + self.batches[:1])
            self.batches = [Batch(*map(torch.cat, zip(*pair))) for pair in pairs]
        self.graph: Any = None
        with self.computed():
            if "features" in self.remedies:
                remedies.compile_features(self.model)
            with at_most(COMPILE_SECONDS if self.remedies else 120):
                for number in range(2):
                    self.step(number)
            if "graph" in self.remedies:
                self.capture()
        self.reset()

    def computed(self) -> contextlib.AbstractContextManager[None]:
        return remedies.remedy(*self.remedies)

    @torch.no_grad()
    def reset(self) -> None:
        """Everything as before the first step, in the same memory."""
        for own in (self.parameters, self.means):
            torch._foreach_copy_(own, self.first)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()

    def step(self, number: int, seed: int = 0) -> Tensor:
        """The loss of step ``number``, on the device."""
        batch = self.batches[number % len(self.batches)]
        torch.manual_seed(batch_seed(seed, 0, number))
        if self.graph is None:
            return self.learn(batch)
        for held, new in zip(self.held, batch):
            held.copy_(new)
        self.graph.replay()
        return self.loss.clone()

    def learn(self, batch: Batch) -> Tensor:
        """As Lightning and ``LitMusicTransformer`` do it; ``part`` names parts for the profile."""
        self.optimizer.zero_grad()
        device = self.bench.device.type
        with torch.autocast(device, torch.bfloat16), part("forward"):
            nats, targets = self.lit._score(batch)
        with part("backward"):
            (nats * SCALE).backward()
        with torch.no_grad(), part("clip"):
            gradients = [p.grad for p in self.parameters if p.grad is not None]
            torch._foreach_mul_(gradients, 1 / SCALE / targets.clamp(min=1))
            nn.utils.clip_grad_norm_(self.parameters, 1.0)
        with part("optimizer"):
            self.optimizer.step()
        with torch.no_grad(), part("ema"):
            torch._foreach_lerp_(self.means, self.parameters, 0.005)
        return nats.detach() / targets.clamp(min=1)

    def capture(self) -> None:
        """The whole step as a CUDA graph; without a GPU, as it stands."""
        self.held = Batch(*(x.clone() for x in self.batches[0]))
        if not self.bench.gpu:
            self.graph = Replayed(self)
            return
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

    def losses(self, seed: int = 0) -> list[float]:
        """Of the first steps, and how the layers ``moved``; then everything is as before."""
        with self.computed():
            losses = [self.step(n, seed) for n in range(int(self.bench.given["losses"]))]
        layers = [p for block in self.model.blocks for p in block.parameters()]
        where = {id(p): first for p, first in zip(self.parameters, self.first)}
        self.moved = torch.cat([(p.detach() - where[id(p)]).flatten() for p in layers])
        self.reset()
        return [float(x) for x in losses]

    def turn(self) -> float:
        """Milliseconds a step."""
        steps = int(self.bench.given["steps"])
        with self.computed():
            took = milliseconds(lambda: [self.step(n) for n in range(steps)], self.bench.device)
        return took / steps

    @property
    def tokens(self) -> int:
        return self.batches[0].ids.numel()


class Replayed:
    """Where there is no GPU: the step itself in place of its graph."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def replay(self) -> None:
        self.case.loss = self.case.learn(Batch(*(x.clone() for x in self.case.held)))


class Endless:
    """Batches in turn without end, as Lightning takes them."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return itertools.cycle(self.batches)


@contextlib.contextmanager
def part(name: str) -> Iterator[None]:
    with torch.profiler.record_function(f"part {name}"):
        yield


def named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        with part(name):
            return function(*args, **more)

    return call


class Bench:
    """What was asked for, the batches, and what was measured."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given, rehearsal = given, given["rehearse"] == "true"
        self.gpu = torch.cuda.is_available() and not rehearsal
        self.device = torch.device("cuda" if self.gpu else "cpu")
        if not self.gpu:
            remedies.BACKEND = "aot_eager"
        self.config = compose(
            "train", [f"experiment={given['experiment']}", *(SMALL if rehearsal else [])]
        )
        self.tokenizer = build(**dataclasses.asdict(self.config.tokenizer))
        drawn = self.drawn(int(given["rows"]), 4)
        self.batches = [Batch(*(x.to(self.device).contiguous() for x in b)) for b in drawn]
        self.cases: dict[str, Case] = {}
        self.times: dict[str, list[float]] = {}
        self.notes: dict[str, str] = {}

    def late(self, needed: float = 0.0) -> bool:
        return seconds() + needed > float(self.given["budget"])

    def drawn(self, rows: int, count: int) -> list[Batch]:
        """Batches of windows as training draws them; without shards of random ids."""
        context = self.config.model.context
        if not self.given["shards"]:
            torch.manual_seed(0)
            ids = torch.randint(4, self.tokenizer.size, (count, rows, context + 1))
            pieces = torch.arange(context).expand(rows, -1) // (context // 2)
            return [Batch(each[:, :-1], each[:, 1:], pieces) for each in ids]
        model, shards = build_model(self.config, self.tokenizer), Shards(Path(self.given["shards"]))
        _, data = modules(self.config, model, self.tokenizer, shards, say)
        windows = TrainingBatches(data.rows, rows)
        return [windows.make(number) for number in range(count)]

    # -- the profile

    def profile(self, case: Case) -> None:
        """One step by torch.profiler: parts, kernels, gaps; a trace for chrome://tracing."""
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as profiler

        kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if self.gpu else [])
        with contextlib.ExitStack() as stack:
            stack.enter_context(case.computed())
            for feature in case.model.features:
                for name in ("read", "embed", "score"):
                    method = getattr(feature, name)
                    setattr(feature, name, named(method, f"{feature.name}.{name}"))
            block.attend = named(api.attend, "attend")
            stack.callback(setattr, block, "attend", api.attend)
            case.step(0)
            with profiler(activities=kinds) as profiled:
                took = milliseconds(lambda: case.step(1), self.device)
        for feature in case.model.features:
            for name in ("read", "embed", "score"):
                delattr(feature, name)
        if self.given["trace"]:
            Path(self.given["trace"]).mkdir(parents=True, exist_ok=True)
            name = case.name.replace(" ", "-").replace(",", "")
            profiled.export_chrome_trace(str(Path(self.given["trace"], f"{name}.json.gz")))
        self.tell(case, list(profiled.events()), took)

    def tell(self, case: Case, events: list[Any], took: float) -> None:
        """Prints what of the profile fits on a screen; on a CPU that of its operators."""
        of_gpu = [e for e in events if self.gpu == ("CUDA" in str(e.device_type))]
        labels = ("part ", "Optimizer.", "ProfilerStep")
        parts: dict[str, float] = {}
        kernels: dict[str, list[float]] = {}
        spans = []
        for event in of_gpu:
            span = event.time_range
            if event.name.startswith("part "):
                parts[event.name] = parts.get(event.name, 0.0) + span.elapsed_us() / 1e3
            elif not event.name.startswith(labels):
                kernels.setdefault(event.name, []).append(span.elapsed_us() / 1e3)
                spans.append((span.start, span.end))
        busy, end = 0.0, 0.0
        for start, stop in sorted(spans):
            busy += max(0.0, stop - max(start, end)) / 1e3
            end = max(end, stop)
        say(f"profile of {case.name!r}: {took:.1f} ms with the profiler, the device worked for "
            f"{busy:.1f} of them in {len(spans)} kernels")  # fmt: skip
        longest = sorted(parts.items(), key=lambda item: -item[1])
        print("  parts, ms from the first kernel to the last: "
              + ", ".join(f"{name[5:]} {ms:.2f}" for name, ms in longest))  # fmt: skip
        ordered = sorted(kernels.items(), key=lambda item: -sum(item[1]))
        for name, times in ordered[:18]:
            print(f"  {sum(times):8.2f} ms {len(times):5} x  {name[:110]}", flush=True)

    # -- the cases

    def ready(self, name: str) -> None:
        """Makes a case and compares its losses."""
        begun = time.perf_counter()
        case = Case(self, name)
        say(f"{name}: ready after {time.perf_counter() - begun:.1f} s")
        if not name.startswith("without"):
            losses = case.losses()
            if not self.cases:
                self.reference, self.moved = losses, case.moved
                again = apart(case.losses(), losses)
                alike = float(torch.cosine_similarity(case.moved, self.moved, 0))
                other = apart(case.losses(seed=1), losses)
                self.rounding, self.alike = max(ROUNDING, 3 * again), min(ALIKE, 0.95 * alike)
                say(f"losses {' '.join(f'{x:.4f}' for x in losses)}; the same again: {again:.1e} "
                    f"apart, moved alike {alike:.3f}; other dropout: {other:.1e}")  # fmt: skip
            elif "rows" not in case.remedies:
                far = apart(losses, self.reference)
                most = DROPPED if "compile" in case.remedies else self.rounding
                alike = float(torch.cosine_similarity(case.moved, self.moved, 0))
                wrong = far > most or (alike < self.alike and "compile" not in case.remedies)
                self.notes[name] = (
                    f"losses {far:.0e} apart, layers moved alike {alike:.2f}{' WRONG' * wrong}"
                )
                say(f"{name}: {self.notes[name]}")
        self.cases[name] = case
        self.times[name] = []

    def turns(self, names: list[str], count: int) -> None:
        for turn in range(count + 1):  # the first one warms up
            for name in names if not self.late() else ():
                took = self.cases[name].turn()
                if turn:
                    self.times[name].append(took)

    def lightning(self) -> None:
        """The same step by Lightning's loop, everything included but the loader."""
        import pytorch_lightning as pl

        device, moments = self.device, []
        steps = 4 + int(self.given["turns"]) * int(self.given["steps"])

        class Clock(pl.Callback):
            def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
                if trainer.global_step in (4, steps):
                    moments.append(milliseconds(lambda: None, device) + 1e3 * time.perf_counter())

        flags = {**self.config.trainer.flags, "enable_progress_bar": False}
        settings = dataclasses.replace(
            self.config.trainer, max_steps=steps, max_time=None, flags=flags,
            accelerator="gpu" if self.gpu else "cpu", precision="bf16-mixed",
        )  # fmt: skip
        model = build_model(self.config, self.tokenizer)
        optim = {**dataclasses.asdict(self.config.optim), "lr": LR}
        lit = LitMusicTransformer(model.config.plain(), optim, model=model)
        trainer = build_trainer(settings, callbacks=[Ema(0.995), Clock()], loggers=False)
        with quiet():
            trainer.fit(lit, Endless(self.batches))
        self.times["by Lightning"] = [(moments[1] - moments[0]) / max(1, steps - 4)]

    def attempt(self, name: str, act: Callable[[], object]) -> None:
        """``act``, or a line why not."""
        if self.late(COMPILE_SECONDS / 2 if name.startswith("features") else 0.0):
            return say(f"no time left for {name}")
        try:
            act()
        except Exception as error:
            self.notes[name] = short(error)
            say(f"{name} failed: {short(error)}")

    def measure(self) -> None:
        for name in several(self.given["only"]) or list(CASES):
            self.attempt(name, functools.partial(self.ready, name))
            if "CUDA error" in self.notes.get(name, ""):
                return
            if name not in self.cases:
                continue
            pair = ["as it is", *([] if name == "as it is" else [name])]
            self.attempt(f"turns of {name}", functools.partial(self.turns, pair, 2))
            if name == "as it is":
                self.attempt("profile", lambda: self.profile(self.cases["as it is"]))
                self.attempt("by Lightning", self.lightning)
            if self.gpu and torch.cuda.memory_reserved() > 70e9:  # graphs keep what they use
                self.cases = {n: c for n, c in self.cases.items() if c.graph is None}
                torch.cuda.empty_cache()
        if "compile bf16" in self.cases:
            self.attempt("profile", lambda: self.profile(self.cases["compile bf16"]))
        whole = [n for n in self.cases if not n.startswith("without")]
        self.attempt("turns", lambda: self.turns(whole, int(self.given["turns"]) - 1))

    def table(self) -> None:
        base = statistics.median(self.times.get("as it is") or [1.0])
        rows, context = self.batches[0].ids.shape
        print(f"\n{'':20} {'ms a step':>22} {'tokens/s':>10}   x")
        for name, times in self.times.items():
            if not times:
                continue
            times.sort()
            low, middle, high = spread(times)
            double = 2 if name.endswith("rows") else 1
            rate = double * rows * context / middle * 1e3
            print(
                f"{name:20} {middle:8.2f} ({low:.2f}-{high:.2f})".ljust(46)
                + f"{rate:10,.0f} {base * double / middle:5.2f}  {self.notes.get(name, '')}"
            )
            shape = self.config.model
            record(
                self.given["results"], self.device, times, implementation=f"training, {name}",
                batch=double * rows, heads=shape.heads, length=context, dtype="bf16-mixed",
                size=shape.width // shape.heads, extra_peak_mb="-", **{"pass": "step"},
            )  # fmt: skip
        for name, note in self.notes.items():
            if not self.times.get(name):
                print(f"{name}: {note}")


def apart(losses: list[float], others: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(losses, others))


def main(words: list[str]) -> int:
    begin()
    bench = Bench(options(words, DEFAULTS, TINY))
    name = torch.cuda.get_device_name() if bench.gpu else "no GPU: a rehearsal"
    say(f"{name}, torch {torch.__version__}, batches {tuple(bench.batches[0].ids.shape)}")
    try:
        bench.measure()
    except Exception as error:
        say(f"stopped: {short(error)}")
    bench.table()
    return int(any("WRONG" in note for note in bench.notes.values()))


if __name__ == "__main__":
    run(main)
