"""Tokens a second of generation: with the KV cache, and recomputing the whole prefix each time.

    python scripts/bench/decode.py [model=paper] [prompt=1024] [tokens=64] [rows=1] [device=auto]

Both ways draw greedily from the same untrained model; the ids are compared before anything is
printed. ``model`` is a file of conf/model (its context is what the prompt and the tokens must fit).
"""

from __future__ import annotations

import sys
import time

import torch

from musictx.compose import compose
from musictx.device import choose_device
from musictx.model.transformer import MusicTransformer
from musictx.sampling import engine
from musictx.sampling.processors import Temperature
from musictx.train import network

VOCABULARY = 392
DEFAULTS = {"model": "paper", "prompt": "1024", "tokens": "64", "rows": "1", "device": "auto"}


def recomputed(model: MusicTransformer, ids: torch.Tensor, count: int) -> torch.Tensor:
    """Greedy continuation by a full forward pass for each token, as without a cache."""
    with torch.inference_mode():
        for _ in range(count):
            logits = engine.forbid(model(ids)[:, -1].double(), None)
            logits[:, engine.EOS] = -torch.inf
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], dim=1)
    return ids[:, -count:]


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


def cached(model: MusicTransformer, ids: torch.Tensor, count: int) -> tuple[torch.Tensor, float]:
    """The same by the engine, and the seconds from the first new token to the last."""
    rows = len(ids)
    steps = engine.generate(
        model,
        ids.cpu(),
        rows=rows,
        max_tokens=count,
        processors=[Temperature(0.0)],
        constraint=NeverEnd(rows),
        seeds=[0] * rows,
    )
    drawn = [next(steps)]
    began = time.perf_counter()
    drawn += list(steps)
    return torch.stack(drawn, dim=1), time.perf_counter() - began


def main(words: list[str]) -> None:
    given = dict(word.split("=", 1) for word in words)
    if unknown := set(given) - set(DEFAULTS):
        raise SystemExit(f"{unknown}: expected {', '.join(DEFAULTS)}")
    options = DEFAULTS | given
    prompt, tokens, rows = (int(options[name]) for name in ("prompt", "tokens", "rows"))
    config = compose("train", [f"model={options['model']}", "trainer=laptop"])
    shape = network.shape(config.model)
    torch.manual_seed(0)
    device = choose_device(options["device"])
    model = MusicTransformer(VOCABULARY, **shape).eval().to(device)
    if prompt + tokens > shape["context"]:
        raise SystemExit(f"prompt + tokens: {prompt + tokens} exceed context {shape['context']}")
    with torch.no_grad():  # opinions strong enough that rounding decides no choice
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2)
    ids = torch.randint(4, VOCABULARY, (rows, prompt), device=device)

    fast, seconds = cached(model, ids, tokens)
    few = min(tokens, 8)  # the slow way costs the same for each token
    began = time.perf_counter()
    slow = recomputed(model, ids, few)
    if device.type == "cuda":
        torch.cuda.synchronize()
    each = (time.perf_counter() - began) / few
    if not torch.equal(fast[:, :few], slow.cpu()):
        raise SystemExit("cached and recomputed ids differ: no speed is worth printing")
    rate, plain = rows * (tokens - 1) / seconds, rows / each
    print(
        f"{options['model']} on {device}, prompt {prompt}, {rows} rows: "
        f"cached {rate:.1f} tokens/s, recomputed {plain:.2f} tokens/s, "
        f"ratio {rate / plain:.1f} (ids equal)"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
