"""Tokens a second of generation: over a growing cache, over a ring, and without any cache.

    python scripts/bench/decode.py [model=paper] [prompt=1024] [tokens=64] [rows=1,8] [device=cpu]
    python scripts/bench/decode.py device=cuda dtype=bfloat16 rows=1,64,256 results=results.csv
    python scripts/bench/decode.py rehearse=true

All draw greedily from the same untrained model, by ``sampling.engine``; the ids are compared before
anything is printed. ``model`` is a file of conf/model, whose context the prompt and the tokens must
fit. On CUDA the step over a ring is one recorded graph. ``least`` prints the fewest milliseconds to
a step in which ``bandwidth`` bytes a second can read the weights, the tables and the cache.
"""

from __future__ import annotations

import dataclasses
import sys
import time

import torch
from common import options, record, several, spread, wait

from musictx.compose import compose
from musictx.device import choose_device
from musictx.model import MusicTransformer
from musictx.sampling import engine
from musictx.sampling.processors import Temperature
from musictx.tokens.build import build
from musictx.train import network

VOCABULARY = 392
DEFAULTS = {
    "model": "paper", "prompt": "1024", "tokens": "64", "rows": "1", "device": "auto",
    "dtype": "float32", "position": "huang", "caches": "growing,ring", "bandwidth": "4.8e12",
    "results": "",
}  # fmt: skip
TINY = {"model": "tiny", "prompt": "40", "tokens": "8", "rows": "1,3", "device": "cpu"}


class NeverEnd:
    """Keeps ``eos`` out, so that every row has the full length."""

    def __init__(self, rows: int) -> None:
        self.mask = torch.ones(rows, VOCABULARY, dtype=torch.bool)
        self.mask[:, : engine.CUT + 1] = False

    def allowed(self) -> torch.Tensor:
        return self.mask

    def advance(self, ids: torch.Tensor) -> None: ...

    def done(self) -> torch.Tensor:
        return torch.zeros(len(self.mask), dtype=torch.bool)


def recomputed(
    model: MusicTransformer, ids: torch.Tensor, count: int
) -> tuple[torch.Tensor, list[float]]:
    """Greedy continuation by a full forward pass for each token; ids, and milliseconds of each."""
    times = []
    with torch.inference_mode():
        for _ in range(count):
            begin = time.perf_counter()
            logits = engine.forbid(model(ids)[:, -1].double(), None)
            logits[:, engine.EOS] = -torch.inf
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], dim=1)
            wait(ids.device)
            times.append(1e3 * (time.perf_counter() - begin))
    return ids[:, -count:].cpu(), sorted(times)


def cached(
    model: MusicTransformer, ids: torch.Tensor, count: int, cache: str
) -> tuple[torch.Tensor, list[float]]:
    """The same by the engine."""
    rows = len(ids)
    steps = engine.generate(
        model,
        ids.cpu(),
        rows=rows,
        max_tokens=count,
        processors=[Temperature(0.0)],
        constraint=NeverEnd(rows),
        seeds=[0] * rows,
        cache=cache,
    )
    drawn, times = [next(steps)], []
    for _ in range(count - 1):
        begin = time.perf_counter()
        drawn.append(next(steps))
        times.append(1e3 * (time.perf_counter() - begin))
    return torch.stack(drawn, dim=1), sorted(times)


def least(model: MusicTransformer, rows: int, position: int, bandwidth: float) -> float:
    """Milliseconds in which the bytes that a step must read can be read."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    size = model.embedding.weight.element_size()
    cache = 2 * model.config["layers"] * rows * position * model.config["width"] * size
    return 1e3 * (weights + cache) / bandwidth


def main(words: list[str]) -> int:
    given = options(words, DEFAULTS, TINY)
    prompt, tokens = int(given["prompt"]), int(given["tokens"])
    words = [f"model={given['model']}", f"position={given['position']}", "trainer=laptop"]
    config = compose("train", words)
    shape = dataclasses.asdict(config.model)
    if prompt + tokens > shape["context"]:
        raise SystemExit(f"prompt + tokens: {prompt + tokens} exceed context {shape['context']}")
    device = choose_device(given["device"])
    model = network.build_model(config, build("performance")).eval()
    with torch.no_grad():  # opinions strong enough that rounding decides no choice
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2)
    model = model.to(device=device, dtype=getattr(torch, given["dtype"]))
    exact = given["dtype"] == "float32"
    print(f"{given['model']} on {device}, {given['dtype']}, prompt {prompt}, {tokens} tokens")
    print("rows  cache          ms a step (quartiles)     tokens/s   x recomputed   least ms")
    for rows in map(int, several(given["rows"])):
        ids = torch.randint(4, VOCABULARY, (rows, prompt), device=device)
        few = min(tokens, 8)  # the slow way costs the same for each token
        wanted, slow = recomputed(model, ids, few)
        found = {"recomputed": slow}
        for cache in several(given["caches"]):
            got, found[cache] = cached(model, ids, tokens, cache)
            if exact and not torch.equal(got[:, :few], wanted):
                print(f"WRONG rows={rows} cache={cache}: other ids than recomputed")
                return 1
        for name, times in found.items():
            low, middle, high = spread(times)
            print(
                f"{rows:4}  {name:12} {middle:9.3f} ({low:.3f}-{high:.3f})".ljust(46)
                + f"{1e3 * rows / middle:10.1f} {spread(slow)[1] / middle:13.1f} "
                f"{least(model, rows, prompt, float(given['bandwidth'])):10.3f}",
                flush=True,
            )
            what = {"implementation": f"decode {name} {given['model']}", "pass": "step"}
            more = {"batch": rows, "heads": shape["heads"], "length": prompt, "extra_peak_mb": "-"}
            size = shape["width"] // shape["heads"]
            record(given["results"], device, times, **what, **more, size=size, dtype=given["dtype"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
