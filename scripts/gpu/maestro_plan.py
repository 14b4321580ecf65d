"""Which attention, and which size of model: measured by scripts/gpu/maestro.py before it trains."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from maestro_pack import CARRIED, MIB, PART, PARTS
from maestro_run import Run, autocast
from torch import Tensor, nn

from musictx.attention.api import attend, why_not
from musictx.attention.positions import PositionScheme
from musictx.attention.terms import Span
from musictx.config import TrainConfig
from musictx.tokens.vocab import Tokenizer
from musictx.train.network import build_model

#: What may train, tried in this order; ``auto`` where a scheme measures more than order.
CANDIDATES = ("fused", "sdpa", "chunked")
#: Relative error of outputs and gradients in 16 bits that is still rounding.
TOLERANCE = 2e-2
#: Tokens a parameter should see (Hoffmann et al. 2022, arXiv 2203.15556).
TOKENS_PER_PARAMETER = 20
#: Epochs after which repeated tokens are worth 1 / e of new ones (Muennighoff et al. 2023,
#: arXiv 2305.16264, R*_D), and how many copies of the corpus count as new: the transpositions that
#: stay on the keyboard, 6.45 of 7 on average; stretches are counted as nothing new.
REPEATS, COPIES = 15.4, 6.45


def choose_attention(
    config: TrainConfig,
    tokenizer: Tokenizer,
    device: torch.device,
    *,
    seconds: float = 20.0,
    say: Callable[[str], None] = print,
) -> str:
    """The fastest of :data:`CANDIDATES` whose output and gradients are right, within the time."""
    model = build_model(config, tokenizer).to(device)
    scheme = model.position
    if scheme.further:
        return "auto"
    until = time.monotonic() + seconds
    found: dict[str, float] = {}
    for name in CANDIDATES:
        if time.monotonic() > until:
            break
        try:
            why = _reason(scheme, name, config, device)
            if why is None:
                wrong = _error(scheme, name, config, device)
                why = None if wrong < TOLERANCE else f"relative error {wrong:.1e}"
            if why is None:
                found[name] = _milliseconds(scheme, name, config, device)
        except Exception as error:  # a kernel may fail in any way: then it is not taken
            why = f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
        say(f"attention {name:8} {why or f'{found[name]:8.2f} ms a layer, forward and backward'}")
    return min(found, key=lambda name: found[name]) if found else "auto"


def _inputs(
    scheme: PositionScheme, config: TrainConfig, device: torch.device, rows: int, length: int
) -> list[Tensor]:
    heads = config.model.heads
    shape = (rows, heads, length, config.model.width // heads)
    half = torch.bfloat16 if device.type == "cuda" else torch.float32
    return [torch.randn(shape, device=device).to(half).requires_grad_() for _ in range(3)]


def _reason(
    scheme: PositionScheme, name: str, config: TrainConfig, device: torch.device
) -> str | None:
    where = (Span(0, config.model.context),) * 2
    (q, *_) = _inputs(scheme, config, device, 1, 16)
    terms = scheme.terms(0, reach=config.model.context - 1)
    return why_not(terms, where, where, q=q)[name]


def _call(scheme: PositionScheme, name: str, made: list[Tensor], dropout: float = 0.0) -> Tensor:
    """Attention as a layer of the model asks for it; in float32 without autocast."""
    where = (Span(0, made[0].shape[2]),) * 2
    precise = made[0].dtype == torch.float32
    with nullcontext() if precise else autocast(made[0].device):
        terms = scheme.terms(0, reach=made[0].shape[2] - 1)
        return attend(
            *made,
            terms,
            query_positions=where,
            key_positions=where,
            dropout=dropout,
            implementation=name,
        )


def _error(scheme: PositionScheme, name: str, config: TrainConfig, device: torch.device) -> float:
    """The largest relative error of the output and of every gradient, against ``reference`` in
    float32 on the same numbers; infinite if anything is not finite."""
    made = _inputs(scheme, config, device, 1, min(256, config.model.context))
    upstream = torch.randn_like(made[0])
    learnt = [p for p in scheme.parameters() if p.requires_grad]

    def everything(name: str, made: list[Tensor]) -> list[Tensor]:
        out = _call(scheme, name, made)
        wanted = [*made, *learnt]
        gradients = torch.autograd.grad(
            out, wanted, upstream.to(out.dtype), allow_unused=True, materialize_grads=True
        )
        return [out.detach().float(), *(g.float() for g in gradients)]

    wide = [x.detach().float().requires_grad_() for x in made]
    right = everything("reference", wide)
    worst = 0.0
    for a, b in zip(everything(name, made), right):
        error = float((a - b).norm() / b.norm().clamp(min=1e-12)) if b.any() else float(a.norm())
        worst = max(worst, error if math.isfinite(error) else math.inf)
    return worst


def _milliseconds(
    scheme: PositionScheme, name: str, config: TrainConfig, device: torch.device
) -> float:
    """Forward and backward of one layer at the size of the run: the best of five."""
    rows = config.trainer.batch * config.trainer.accumulate
    made = _inputs(scheme, config, device, rows, config.model.context)
    upstream = torch.randn_like(made[0])
    best = math.inf
    for _ in range(2 + 5 * (device.type == "cuda")):
        _wait(device)
        began = time.perf_counter()
        out = _call(scheme, name, made, config.model.dropout)
        out.backward(upstream.to(out.dtype))
        _wait(device)
        best = min(best, 1e3 * (time.perf_counter() - began))
    return best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


# ------------------------------------------------------------------------------------------- sizes


def effective(tokens: float, unique: float) -> float:
    """What ``tokens`` drawn from ``unique`` different ones are worth in new ones: with r repeats
    unique + unique REPEATS (1 - exp(-r / REPEATS))."""
    if tokens <= unique:
        return tokens
    repeats = tokens / unique - 1.0
    return unique + unique * REPEATS * (1.0 - math.exp(-repeats / REPEATS))


def judge(
    parameters: int, tokens_per_second: float, budget: float, train_tokens: int, carried: int
) -> dict[str, Any]:
    """Whether a model of this size can be trained in ``budget`` seconds, as a row of the plan.

    ``enough``: it sees at least 20 tokens, repeats discounted, for each parameter.  ``comes_back``:
    its weights in bfloat16 fit into the parts there are.  ``travels``: they also fit beside
    ``carried`` bytes, which matters only if a later sitting is on another machine.
    """
    tokens = tokens_per_second * budget
    worth = effective(tokens, COPIES * train_tokens)
    return {
        "parameters": parameters,
        "tokens_per_second": round(tokens_per_second),
        "tokens_M": round(tokens / 1e6, 1),
        "epochs": round(tokens / train_tokens, 1),
        "tokens_per_parameter": round(worth / parameters, 1),
        "weights_MiB": round(2 * parameters / MIB, 1),
        "enough": worth >= TOKENS_PER_PARAMETER * parameters,
        "comes_back": 2 * parameters <= PARTS * PART,
        "travels": 2 * parameters <= CARRIED - carried,
    }


def winner(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The rule: the largest model that sees enough and comes back; None if there is none."""
    good = [row for row in rows if row["enough"] and row["comes_back"]]
    return max(good, key=lambda row: row["parameters"]) if good else None


def sizes(config: TrainConfig, asked: str) -> list[TrainConfig]:
    """``8x512x8`` means 8 layers of width 512 with 8 heads, the feed-forward part four times as
    wide; several with commas between."""
    found = []
    for text in asked.split(","):
        layers, width, heads = (int(n) for n in text.split("x"))
        model = dataclasses.replace(
            config.model, layers=layers, width=width, heads=heads, feedforward=4 * width
        )
        found.append(dataclasses.replace(config, model=model))
    return found


def tokens_per_second(run: Run, seconds: float, *, compiled: bool = False) -> float:
    """Speed of training steps, on a few batches made before: the first two do not count."""
    batches = itertools.cycle([b for b, _ in zip(run.batches(0), range(3))])
    net: Any = torch.compile(run.model) if compiled else run.model
    run.model.train()
    for batch, _ in zip(batches, range(2)):
        run.learn(net, batch, 0.0)
    _wait(run.device)
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds or steps < 2:
        run.learn(net, next(batches), 0.0)
        steps += 1
        if steps % 5 == 0:
            _wait(run.device)
    _wait(run.device)
    return steps * run.batch * run.model.context / (time.perf_counter() - began)


def parameters_of(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
