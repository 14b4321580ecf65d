"""Tokens a second of generation: in C++, over a growing cache, without any cache.

    python -m scripts.bench.decode [model=paper] [prompt=1024] [tokens=64] [rows=1,16] [device=cpu]
    python -m scripts.bench.decode model=piano prompt=500 rows=1,16
    python -m scripts.bench.decode device=cuda dtype=bfloat16 rows=1,64,256 results=results.csv
    python -m scripts.bench.decode rehearse=true

All draw by the same seeds from the same model, by ``sampling.engine``: a file of conf/model,
untrained, or a model that comes with musictx, whose context the prompt and the tokens must fit.
Prompts are the model's own. Before anything is printed the ids are compared; where the step rounds
keys and values, of models in bytes, and draws other ids, its logits along them are.

Rows continue one prompt with seeds of their own, as the samples of ``musictx generate`` do
(``prompts=own``: each its own prompt). At the end stand the ratios that are asked of the step.

GB/s are the bytes of weights, tables and cache by the time of a step, beside what this machine
reads at most (``bandwidth``, bytes a second; measured on the CPU): small models are read from the
processor's own cache, which is faster.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from musictx import bundle, shipped
from musictx.compose import compose
from musictx.device import choose_device
from musictx.model import MusicTransformer
from musictx.model.rounding import in_bytes
from musictx.sampling import engine
from musictx.sampling.constraints import Constraint
from musictx.tokens.build import build
from musictx.training import network
from scripts.bench.common import ROUNDED, milliseconds, off, record, rounds, spread, wait
from scripts.words import options, run, several

DEFAULTS = {
    "model": "paper", "prompt": "1024", "tokens": "64", "rows": "1", "device": "auto",
    "dtype": "float32", "position": "huang", "caches": "auto",
    "bandwidth": "auto", "results": "", "prompts": "one",
}  # fmt: skip
TINY = {
    "model": "tiny",
    "prompt": "40",
    "tokens": "8",
    "rows": "1,3",
    "device": "cpu",
}
#: (cache, rows) -> milliseconds a step, x recomputed, share of the bandwidth.
Found = dict[tuple[str, int], tuple[float, float, float]]


class NeverEnd(Constraint):
    """Keeps ``eos`` out, so that every row has the full length."""

    def __init__(self, rows: int, vocabulary: int) -> None:
        self.mask = torch.ones(rows, vocabulary, dtype=torch.bool)
        self.mask[:, : engine.CUT + 1] = False

    def allowed(self) -> torch.Tensor:
        return self.mask

    def advance(self, ids: torch.Tensor) -> None: ...

    def done(self) -> torch.Tensor:
        return torch.zeros(len(self.mask), dtype=torch.bool)


def recomputed(
    model: MusicTransformer, ids: torch.Tensor, count: int
) -> tuple[torch.Tensor, list[float]]:
    """Continuation by a full forward pass for each token; ids, and milliseconds of each."""
    times, generators = [], [np.random.default_rng(seed) for seed in range(len(ids))]
    ended = torch.zeros(len(ids), dtype=torch.bool)
    with torch.inference_mode():
        for _ in range(count):
            begin = time.perf_counter()
            logits = engine.forbid(model(ids)[:, -1].double(), None)
            logits[:, engine.EOS] = -torch.inf
            drawn = engine.draw(logits.cpu(), generators, ended)[:, None]
            ids = torch.cat([ids, drawn.to(ids.device)], dim=1)
            wait(ids.device)
            times.append(1e3 * (time.perf_counter() - begin))
    return ids[:, -count:].cpu(), sorted(times)


def cached(
    model: MusicTransformer, ids: torch.Tensor, count: int, cache: str, rows: int
) -> tuple[torch.Tensor, list[float]]:
    """The same by the engine; ``ids`` may be one row for all."""
    steps = engine.generate(
        model,
        ids.cpu(),
        max_tokens=count,
        constraint=NeverEnd(rows, model.config.vocab_size),
        seeds=range(rows),
        cache=cache,
    )
    drawn, times = [next(steps)], []
    for _ in range(count - 1):
        begin = time.perf_counter()
        drawn.append(next(steps))
        times.append(1e3 * (time.perf_counter() - begin))
    return torch.stack(drawn, dim=1), sorted(times)


def read_bytes(model: MusicTransformer, rows: int, position: int) -> int:
    """Bytes of weights, tables and cache that a step must read; some weights are bytes there."""
    size = model.embedding.weight.element_size()
    weights = 0
    for parameter in model.parameters():
        short = parameter.is_cpu and parameter.dim() > 1 and in_bytes(parameter)[1] is not None
        weights += parameter.numel() * (1 if short else size)
    tokens = 2 * model.config.layers * rows * position
    held = 1 if rounds(model) and model.embedding.weight.is_cpu else size
    return weights + held * tokens * model.config.width


def bandwidth(device: torch.device) -> float:
    """Bytes a second that the CPU's threads read from memory; of other devices an H200's."""
    if device.type != "cpu":
        return 4.8e12
    much = torch.ones(2**26)
    return 4e3 * len(much) / min(milliseconds(much.sum, device) for _ in range(10))


def build_model(given: dict[str, str]) -> MusicTransformer:
    if given["model"] in shipped.models():
        return bundle.load(given["model"]).model
    words = [f"model={given['model']}", f"position={given['position']}", "trainer=laptop"]
    model = network.build_model(compose("train", words), build("performance")).eval()
    with torch.no_grad():  # opinions strong enough that rounding decides no choice
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2)
    return model


def main(words: list[str]) -> int:
    given = options(words, DEFAULTS, TINY)
    prompt, tokens = int(given["prompt"]), int(given["tokens"])
    device = choose_device(given["device"])
    model = build_model(given).to(device=device, dtype=getattr(torch, given["dtype"]))
    shape = model.config
    if prompt + tokens > shape.context:
        raise SystemExit(f"prompt + tokens: {prompt + tokens} exceed context {shape.context}")
    most = bandwidth(device) if given["bandwidth"] == "auto" else float(given["bandwidth"])
    caches = several(given["caches"].replace("auto", "growing," + engine.chosen("auto", model)))
    print(f"{given['model']} on {device}, {given['dtype']}, prompt {prompt}, {tokens} tokens, "
          f"{torch.get_num_threads()} threads, reading {most / 1e9:.1f} GB/s")  # fmt: skip
    print("rows  cache          ms a step (quartiles)     tokens/s  x recomputed  "
          "x growing    GB/s")  # fmt: skip
    fast: Found = {}
    for rows in map(int, several(given["rows"])):
        texts = 1 if given["prompts"] == "one" else rows
        begin = torch.full((texts, 1), engine.BOS, device=device)
        own, _ = cached(model, begin, prompt - 1, "auto", texts)
        ids = torch.cat([begin, own.to(device)], dim=1)
        few = min(tokens, 8)  # the slow way costs the same for each token
        wanted, slow = recomputed(model, ids.expand(rows, -1), few)
        found = {"recomputed": slow}
        for cache in caches:
            got, found[cache] = cached(model, ids, tokens, cache, rows)
            same = torch.equal(got[:, :few], wanted) or (
                cache == "native"
                and rounds(model)
                and off(model, torch.cat([ids.expand(rows, -1), got], 1), cache) < ROUNDED
            )
            if not same:
                print(f"WRONG rows={rows} cache={cache}: other ids than recomputed")
                return 1
        by_growing = found.get("growing", slow)
        for name, times in found.items():
            low, middle, high = spread(times)
            rate = read_bytes(model, rows, prompt) / middle * 1e3
            print(
                f"{rows:4}  {name:12} {middle:9.3f} ({low:.3f}-{high:.3f})".ljust(46)
                + f"{1e3 * rows / middle:10.1f} {spread(slow)[1] / middle:13.1f} "
                f"{spread(by_growing)[1] / middle:10.1f} {rate / 1e9:7.1f} ({rate / most:.0%})",
                flush=True,
            )
            what = {"implementation": f"decode {name} {given['model']}", "pass": "step"}
            more = {"batch": rows, "heads": shape.heads, "length": prompt, "extra_peak_mb": "-"}
            size = shape.width // shape.heads
            record(given["results"], device, times, **what, **more, size=size, dtype=given["dtype"])
            if name != "recomputed":
                share = rate / most
                fast[name, rows] = middle, spread(slow)[1] / middle, share
    asked(fast)
    return 0


def asked(fast: Found) -> None:
    """Prints the ratios that the step in C++ is built for, by milliseconds a step."""
    rows = [n for name, n in fast if name == "native"]
    if not rows:
        return
    few, many = min(rows), max(rows)
    one, slow, share = fast["native", few]
    told = [f"{slow:.0f} x recomputed, {share:.0%} of the bandwidth"]
    if many > few:
        rate = many * one / few / fast["native", many][0]
        told.append(f"{many} rows make {rate:.1f} x the tokens of {few}")
    print("asked: " + ", ".join(told))


if __name__ == "__main__":
    run(main)
