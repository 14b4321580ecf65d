"""Tokens a second of generation: in C++, over a growing cache, without any cache.

    python -m scripts.bench.decode [model=paper] [prompt=1024] [tokens=64] [rows=1,16] [device=cpu]
    python -m scripts.bench.decode model=piano prompt=500 rows=1,16
    python -m scripts.bench.decode device=cuda dtype=bfloat16 rows=1,64,256 results=results.csv

All draw by the same seeds from the same model, by ``sampling.engine``: a file of conf/model,
untrained, or a model that comes with musictx, whose context the prompt and the tokens must fit.
The prompt is the model's music, and rows continue it with a seed each, as the samples of
``musictx generate`` do. Before anything is printed the ids are compared with those drawn without a
cache; where the step rounds keys and values, of models in bytes, and draws other ids, its logits
along them are. Printed are medians of single steps, drawing included.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from musictx import bundle, shipped
from musictx.compose import compose
from musictx.errors import UserError
from musictx.model import MusicTransformer
from musictx.sampling import engine
from musictx.speed.packed import in_bytes
from musictx.tokens.build import build
from musictx.training import network
from scripts.bench.common import record, spread, wait
from scripts.harness import run

#: The step in C++ rounds keys and values of models in bytes: so far may its logits be from those of
#: a pass, relative to their norm, where the ids that are drawn differ.
ROUNDED = 0.03
#: Tokens that are drawn without a cache: each costs about the same.
FEW = 8


def never_end(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Keeps ``eos`` out, so that every row has the full length."""
    return logits.index_fill(-1, torch.tensor(engine.EOS), -torch.inf)


def recomputed(
    model: MusicTransformer, ids: torch.Tensor, count: int
) -> tuple[torch.Tensor, list[float]]:
    """Continuation by a full forward pass for each token; ids, and milliseconds of each."""
    times, generators = [], [np.random.default_rng(seed) for seed in range(len(ids))]
    ended = torch.zeros(len(ids), dtype=torch.bool)
    with torch.inference_mode():
        for _ in range(count):
            begin = time.perf_counter()
            logits = never_end(ids, engine.forbid(model(ids)[:, -1].cpu().double(), None))
            drawn = engine.draw(logits, generators, ended)[:, None]
            ids = torch.cat([ids, drawn.to(ids.device)], dim=1)
            wait(ids.device)
            times.append(1e3 * (time.perf_counter() - begin))
    return ids[:, -count:].cpu(), sorted(times)


def cached(
    model: MusicTransformer, ids: torch.Tensor, count: int, cache: str, rows: int
) -> tuple[torch.Tensor, list[float]]:
    """The same by the engine; ``ids`` is one row for all."""
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
    return weights.is_cpu and in_bytes(weights)[1] is not None


def error_along(model: MusicTransformer, ids: torch.Tensor, cache: str) -> float:
    """How far logits along ``ids`` (rows, n), id after id, are from those of one pass, relative to
    their norm."""
    rows, length = ids.shape
    music = engine.Decoder(
        model, ids[:, :1].cpu(), rows=rows, capacity=length, longest=length, cache=cache
    )
    logits = [music.logits]
    for each in ids.cpu().T[1:]:
        music.append(each)
        music.step()
        logits.append(music.logits)
    want = model(ids).cpu().double()
    return float((torch.stack(logits, 1) - want).norm() / want.norm())


def build_model(name: str, position: str) -> MusicTransformer:
    if name in shipped.models():
        return bundle.load(name).model
    words = [f"model={name}", f"position={position}", "trainer=laptop"]
    model = network.build_model(compose(words), build("performance")).eval()
    with torch.no_grad():  # opinions strong enough that rounding decides no choice
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
        wanted, slow = recomputed(net, given.expand(count, -1), min(tokens, FEW))
        times = {"recomputed": slow}
        for cache in caches or dict.fromkeys(("growing", engine.chosen("auto", net))):
            drawn, times[cache] = cached(net, given, tokens, cache, count)
            same = torch.equal(drawn[:, : wanted.shape[1]], wanted)
            if not same and cache == "native" and rounds(net):
                whole = torch.cat([given.expand(count, -1), drawn.to(place)], 1)
                same = error_along(net, whole, cache) < ROUNDED
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
