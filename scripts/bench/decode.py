"""Measure the speed of generation: in C++, with a growing cache, and without a cache.

    python -m scripts.bench.decode [model=paper] [prompt=1024] [tokens=64] [rows=1,16] [device=cpu]
    python -m scripts.bench.decode model=piano prompt=500 rows=1,16
    python -m scripts.bench.decode device=cuda dtype=bfloat16 rows=1,64,256 results=results.csv

``model`` is an untrained model of conf/model or an included model; prompt and tokens must fit its
context. The prompt is drawn from the model, and each row continues it with its own seed, as the
samples of ``musictx generate`` do. First the ids are compared with those of generation without a
cache. The step in C++ rounds keys and values of models with weights in bytes; if it draws other
ids, the logits are compared instead. Prints medians of single steps, including sampling.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from musictx import bundle, shipped
from musictx.errors import UserError
from musictx.hydra_config import compose
from musictx.model import MusicTransformer
from musictx.sampling import engine
from musictx.speed.packed import quantise_if_exact
from musictx.tokens.build import build
from musictx.training import network
from scripts.bench.common import record, spread, wait
from scripts.harness import run

#: The largest error of the logits of a step with rounded keys and values, relative to their norm.
MAX_ERROR = 0.03
#: Tokens that are drawn without a cache: each takes about the same time.
UNCACHED_TOKENS = 8


def never_end(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """A processor that forbids ``eos``, so that every row has the full length."""
    return logits.index_fill(-1, torch.tensor(engine.EOS), -torch.inf)


def uncached(
    model: MusicTransformer, ids: torch.Tensor, count: int
) -> tuple[torch.Tensor, list[float]]:
    """Continue by a full forward pass for each token; return the ids, and the milliseconds of
    each."""
    times, generators = [], [np.random.default_rng(seed) for seed in range(len(ids))]
    ended = torch.zeros(len(ids), dtype=torch.bool)
    with torch.inference_mode():
        for _ in range(count):
            begin = time.perf_counter()
            logits = never_end(ids, engine.without_specials(model(ids)[:, -1].cpu().double()))
            drawn = engine.draw(logits, generators, ended)[:, None]
            ids = torch.cat([ids, drawn.to(ids.device)], dim=1)
            wait(ids.device)
            times.append(1e3 * (time.perf_counter() - begin))
    return ids[:, -count:].cpu(), sorted(times)


def cached(
    model: MusicTransformer, ids: torch.Tensor, count: int, cache: str, rows: int
) -> tuple[torch.Tensor, list[float]]:
    """Continue by the engine; ``ids`` is the prompt of all rows."""
    options = {"processors": [never_end], "seeds": range(rows), "cache": cache}
    steps = engine.generate(model, ids.cpu(), max_tokens=count, **options)
    drawn, times = [next(steps)], []
    for _ in range(count - 1):
        begin = time.perf_counter()
        drawn.append(next(steps))
        times.append(1e3 * (time.perf_counter() - begin))
    return torch.stack(drawn, dim=1), sorted(times)


def rounds(model: MusicTransformer) -> bool:
    """Whether the step in C++ rounds its keys and values."""
    weights = model.embedding.weight
    return weights.is_cpu and quantise_if_exact(weights)[1] is not None


def error_along(model: MusicTransformer, ids: torch.Tensor, cache: str) -> float:
    """The error of the logits of single steps along ``ids`` (rows, n), relative to the norm of the
    logits of one forward pass."""
    rows, length = ids.shape
    decoder = engine.Decoder(
        model, ids[:, :1].cpu(), rows=rows, capacity=length, longest=length, cache=cache
    )
    logits = [decoder.logits]
    for column in ids.cpu().T[1:]:
        decoder.append(column)
        decoder.step()
        logits.append(decoder.logits)
    expected = model(ids).cpu().double()
    return float((torch.stack(logits, 1) - expected).norm() / expected.norm())


def build_model(name: str, position: str) -> MusicTransformer:
    if name in shipped.models():
        return bundle.load(name).model
    words = [f"model={name}", f"position={position}", "trainer=laptop"]
    model = network.build_model(compose(words), build("performance")).eval()
    with torch.no_grad():  # large logits, so that rounding does not change the ids
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2)
    return model


def main(
    model: str = "paper",
    prompt: int = 1024,
    tokens: int = 64,
    rows: Sequence[int] = (1,),
    device: str = "auto",
    dtype: str = "float32",
    position: str = "huang",
    caches: Sequence[str] = (),
    results: Path | None = None,
) -> int:
    place = bundle.choose_device(device)
    net = build_model(model, position).to(device=place, dtype=getattr(torch, dtype))
    shape = net.config
    if prompt + tokens > shape.context:
        raise UserError(f"prompt + tokens: {prompt + tokens} exceed context {shape.context}")
    print(f"{model} on {place}, {dtype}, prompt {prompt}, {tokens} tokens, "
          f"{torch.get_num_threads()} threads")  # fmt: skip
    print("rows  cache          ms a step (quartiles)     tokens/s  x recomputed  x growing")
    begin = torch.full((1, 1), engine.BOS, device=place)
    opening, _ = cached(net, begin, prompt - 1, "auto", 1)
    given = torch.cat([begin, opening.to(place)], dim=1)
    for count in rows:
        expected, slow = uncached(net, given.expand(count, -1), min(tokens, UNCACHED_TOKENS))
        times = {"recomputed": slow}
        for cache in caches or dict.fromkeys(("growing", engine.cache_name("auto", net))):
            drawn, times[cache] = cached(net, given, tokens, cache, count)
            same = torch.equal(drawn[:, : expected.shape[1]], expected)
            if not same and cache == "native" and rounds(net):
                whole = torch.cat([given.expand(count, -1), drawn.to(place)], 1)
                same = error_along(net, whole, cache) < MAX_ERROR
            if not same:
                print(f"WRONG rows={count} cache={cache}: other ids than recomputed")
                return 1
        growing = spread(times.get("growing", slow))[1]
        for name, each in times.items():
            low, middle, high = spread(each)
            print(
                f"{count:4}  {name:12} {middle:9.3f} ({low:.3f}-{high:.3f})".ljust(46)
                + f"{1e3 * count / middle:10.1f} {spread(slow)[1] / middle:13.1f} "
                f"{growing / middle:10.1f}",
                flush=True,
            )
            record(
                results, place, each, implementation=f"decode {name} {model}", batch=count,
                heads=shape.heads, length=prompt, size=shape.width // shape.heads, dtype=dtype,
                **{"pass": "step"},
            )  # fmt: skip
    return 0


if __name__ == "__main__":
    run(main)
